"""Fixtures of the fake CUDA driver."""

from ..support.cuda.fixtures import fake, install

__all__ = ["fake", "install"]
