"""Builds graphs whose operators consult a lattice-join promotion table, and compiles them to native code.

Graphs are compiled through block kernels. The names below load on first use, so `import joinery` costs little
and loads neither LLVM nor xDSL nor ONNX.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

__version__ = "0.1.0"

_LOCATIONS: dict[str, str] = {
    "Graph": "graph.graph",
    "Symbol": "graph.symbol",
    "TensorType": "graph.types",
    "Dim": "graph.dims.dim",
    "dim": "graph.dims.dim",
    "evaluate": "graph.reference.evaluate",
    "Budget": "graph.reference.budget",
    "DType": "promotion.dtype",
    "JoineryError": "promotion.errors",
    "UserError": "promotion.errors",
    "UnsupportedError": "promotion.errors",
    "KernelAssertionError": "promotion.errors",
    "InternalError": "promotion.errors",
    "DeviceError": "promotion.errors",
    "DeviceMemoryError": "promotion.errors",
    "PromotionWarning": "promotion.errors",
    "TritonCWarning": "promotion.errors",
    "AccessError": "lowering.tt.interpret.memory",
    "PtxCheckError": "runtime.ptxsim.checks.findings",
    "SanitizerError": "lowering.tt.sanitize.findings",
    "what_if": "graph.promote.what_if",
    "to_text": "graph.text.printing",
    "from_text": "graph.text.parsing",
    "from_onnx": "graph.onnx.importer",
    "to_onnx": "graph.onnx.export.exporter",
    "OnnxLimits": "graph.onnx.limits",
    "load_safetensors": "graph.weights.safetensors_files",
    "save_safetensors": "graph.weights.safetensors_files",
    "load_gguf": "graph.weights.gguf_files",
    "BlockQuantized": "graph.weights.block_quantised",
    "result_type": "graph.promote.result_types",
    "from_exported": "interface.torch.exported",
    "compile": "interface.compiling",
    "compile_onnx": "interface.onnx.specialised",
    "load": "interface.opening.loading",
    "save": "interface.compiling",
    "limit_threads": "runtime.host.threads",
    "set_threads": "runtime.host.threads",
    "KernelSchedule": "lowering.choices.model_schedule",
    "Model": "interface.model",
    "ModelSchedule": "lowering.choices.model_schedule",
    "Tuning": "interface.tuning.models",
    "ModelReport": "lowering.sanitize",
    "CompileCache": "runtime.storage.cache",
    "Buffer": "runtime.cuda.buffers",
    "TensorDescriptor": "interface.tensor_arguments",
    "PointerTable": "interface.tensor_arguments",
}
_MODULES = {
    "kernel": "interface.kernel", "promotion": "promotion", "triton": "interface.triton", "torch": "interface.torch",
    "distributed": "interface.distributed",
}  # fmt: skip
_DOORS = ("triton", "torch", "distributed")
"""Ways into other libraries, which are imported by name: `import joinery.triton` is `joinery.interface.triton`."""


def _load(name: str) -> Any:
    with importlib.import_module(".lowering.gc_paused", __name__).loading_modules():
        return importlib.import_module(f".{name}", __name__)


def _functions() -> dict[str, str]:
    exports: dict[str, str] = importlib.import_module(".graph.functions.names.exports", __name__).EXPORTS
    return exports


def _dtypes() -> dict[str, Any]:
    module = importlib.import_module(".promotion.dtype", __name__)
    return {value.name: value for value in vars(module).values() if isinstance(value, module.DType)}


def __getattr__(name: str) -> Any:
    if (
        name.startswith("__") or __name__ != "joinery"
    ):  # tools may import the checkout's root under its folder's name
        raise AttributeError(name)
    if name in _MODULES:
        value = _load(_MODULES[name])
    elif name in _LOCATIONS:
        value = getattr(_load(_LOCATIONS[name]), name)
    elif name in (dtypes := _dtypes()):
        value = dtypes[name]
    elif name in _functions():
        value = importlib.import_module(".graph.functions.names.exports", __name__).public(name)
    else:
        aliases = importlib.import_module(".graph.functions.names.aliases", __name__)
        if aliases.is_planned(name) and not aliases.named_elsewhere(name):
            raise AttributeError(f"joinery.{name} is planned, but not part of version {__version__}")
        hint = aliases.did_you_mean(name, __dir__())
        raise AttributeError(f"module 'joinery' has no attribute {name!r}{hint and f'; {hint}'}")
    globals()[name] = value
    return value


class _DoorFinder:
    """Finds `joinery.triton` and what is in it where they lie: each module is one object under both names."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        # No built-in functions here: names such as `any` become joinery's own in this module once they were asked for.
        if not name.startswith(__name__ + ".") or name.split(".")[1] not in _DOORS:
            return None
        import importlib.util
        from importlib.machinery import ModuleSpec

        where = f"{__name__}.interface{name.removeprefix(__name__)}"
        if importlib.util.find_spec(where) is None:
            return None
        return ModuleSpec(name, self, origin=where)

    def create_module(self, spec: ModuleSpec) -> Any:
        module = importlib.import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        """The module is loaded already: give it back the specification that the import system has replaced."""
        module.__spec__ = module.__spec__.loader_state


if __name__ == "joinery":
    sys.meta_path.insert(0, _DoorFinder())  # before the finder that takes the parts of a package for modules of their own


def __dir__() -> list[str]:
    return sorted({*_LOCATIONS, *_MODULES, *_dtypes(), *_functions(), "__version__"})
