"""Fixtures of the fake CUDA driver."""

from ...support.cuda.fixtures import install

__all__ = ["install"]
