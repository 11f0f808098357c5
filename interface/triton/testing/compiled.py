"""`torch.compile` where a device of CUDA stands for a GPU.

Functions stay as they are: compiling them takes longer than most tests, and their values are the same. Where
`TORCHDYNAMO_DISABLE=0` is set, torch's inductor compiles them for CUDA, and joinery runs the kernels of Triton that it makes.
Another back end than inductor compiles them in any case.
"""

from __future__ import annotations

import functools
import os
from typing import Any


def lead(torch: Any) -> None:
    """Let `torch.compile` do what is said above."""
    plain = torch.compile

    @functools.wraps(plain)
    def compile_(model: Any = None, *, backend: Any = "inductor", **keywords: Any) -> Any:
        if backend == "inductor":
            if os.environ.get("TORCHDYNAMO_DISABLE") != "0":
                return model if model is not None else lambda function: function
            _lead_inductor(torch)
        return plain(model, backend=backend, **keywords)

    torch.compile = compile_


def _lead_inductor(torch: Any) -> None:
    """Let the code that inductor makes for CUDA find the device's functions, and launch by Triton's active driver."""
    from torch._dynamo import device_interface
    from torch._inductor import config
    from torch._inductor.runtime import triton_helpers, triton_heuristics

    config.compile_threads = 1  # processes of its own would have no GPU
    for name in ("use_static_triton_launcher", "use_static_cuda_launcher"):  # which launches by CUDA's driver
        if hasattr(config, name):
            setattr(config, name, False)
    config.triton.autotune_pointwise = False
    triton_helpers.set_driver_to_gpu = lambda: None  # which looks for one that is not called "cpu"
    _try_one(triton_heuristics.CachingAutotuner)
    torch._C._cuda_getCurrentRawStream = lambda device: 0
    device_interface.CudaInterface.get_raw_stream = staticmethod(torch._C._cuda_getCurrentRawStream)
    torch._C._dynamo.guards._empty_strided_cuda = lambda size, strides, dtype: torch.empty_strided(
        size, strides, dtype=dtype, device="cuda"
    )


def _try_one(tuner: Any) -> None:
    """Let inductor's autotuner try one configuration: to measure the others takes as long as the suite."""
    if getattr(tuner, "joinery_cuts", False):
        return
    tuner.joinery_cuts = True
    make = tuner.__init__

    @functools.wraps(make)
    def make_cut(self: Any, fn: Any, triton_meta: Any, configs: Any, *args: Any, **keywords: Any) -> None:
        make(self, fn, triton_meta, configs[:1], *args, **keywords)

    tuner.__init__ = make_cut
