"""Represents what is proven: polynomials over atoms, formulas over these, lemmas about products, and the solver."""
