"""Implements CUDA devices: the driver, memory, modules, launches, graphs, and arrays that live on them."""
