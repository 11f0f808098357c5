"""CUDA devices on the fake driver: memory, copies, kernels, recordings, and what goes wrong."""
from __future__ import annotations
import numpy as np
from joinery.lowering.artifact import KernelCode
from joinery.runtime.cuda.device import cuda_device
def test_first(fake):
    d = cuda_device()
    m = d.allocate(1000)
    a = np.arange(1000, dtype=np.uint8)
    d.upload(m, 0, a)
    b = np.zeros(1000, np.uint8)
    d.download(m, 0, b)
    assert (a == b).all()
    m.free()
    d.synchronize()
    assert not fake.live()
