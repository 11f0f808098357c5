"""Reads and guesses specifications: the sizes, extents and grids that proofs are about."""
