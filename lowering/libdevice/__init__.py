"""NVIDIA's libdevice: signatures of its functions, their NumPy definitions, and their expansion into block operations."""
