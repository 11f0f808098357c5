"""Proves properties of block functions for all sizes: which accesses stay inside their arrays, and which programs race.

docs/design/021-proofs.md describes the encoding, the memory model, and what is trusted.
"""
