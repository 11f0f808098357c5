"""The stages of a compilation: Triton's module through its passes, its text, and native code for the host."""

from __future__ import annotations

import functools
import re
from typing import Any

from ...promotion.errors import UnsupportedError
from . import versions
from .options import Options, settings_of
from .patches.names import named
from .targets import BINARY
from .utilities import SHARED_BYTES

_NAME = re.compile(r"tt\.func public @(?:\"([^\"]+)\"|([\w.$-]+))\(")


@functools.cache
def identity() -> str:
    """What compiled kernels depend on beside their text and options: joinery's own code, the processor and LLVM."""
    from ...lowering.keys import source_fingerprint
    from ...runtime.native.linking import target_key

    return f"joinery-{source_fingerprint()}-{target_key()}"


def add_stages(stages: dict[str, Any], options: Options, language: Any = None) -> None:
    """Add the stages to Triton's dictionary of them. Raises `UnsupportedError` for Gluon, which names the layouts of GPUs."""
    if getattr(language, "name", "TRITON") != "TRITON":
        raise UnsupportedError("Gluon's kernels place their values in the threads of a GPU; fix: write them in Triton")
    stages["ttir"] = lambda module, metadata: run_passes(module)
    stages[BINARY] = lambda module, metadata: compile_module(module, metadata, options)


def run_passes(module: Any) -> Any:
    """Run the passes that CUDA's back end runs on a module, but for the one that takes descriptors apart."""
    from triton._C.libtriton import ir, passes

    manager = ir.pass_manager(module.context)
    manager.enable_debug()
    passes.common.add_inliner(manager)
    if hasattr(passes.ttir, "add_rewrite_tensor_pointer"):
        passes.ttir.add_rewrite_tensor_pointer(manager)  # block pointers, which Triton had up to 3.8
    passes.common.add_canonicalizer(manager)
    passes.ttir.add_combine(manager)
    passes.ttir.add_reorder_broadcast(manager)
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    passes.ttir.add_loop_unroll(manager)
    versions.run_passes(manager, module, "make_ttir")
    return module


def compile_module(module: Any, metadata: dict[str, Any], options: Options) -> bytes:
    """The text of a module with native code for launches without overlapping arguments, as bytes.

    Kernels that are going to be interpreted or simulated are not compiled. Raises what reading and lowering the text raises.
    """
    from .binary import encode

    text = str(module)
    found = _NAME.search(text)
    name = (found.group(1) or found.group(2)) if found else metadata.get("name", "kernel")
    text = named(text, name)
    metadata["name"], metadata["shared"] = name, SHARED_BYTES
    settings = settings_of(options)
    is_native, warps = settings.mode == "native", options.num_warps
    return encode(text, name, settings.numerics, warps, native=is_native, check_bounds=settings.check_bounds)
