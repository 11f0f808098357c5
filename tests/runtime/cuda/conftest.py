"""Fixtures of the fake CUDA driver."""

from ...support.cuda.fixtures import fake, hopper, install

__all__ = ["fake", "hopper", "install"]
