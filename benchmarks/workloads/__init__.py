"""Hundreds of small computations beside NumPy, PyTorch and JAX: `python benchmarks/workloads --help`."""

PEERS = ("numpy", "torch", "jax")
"""In the order in which they are asked for the results that others are compared with."""
