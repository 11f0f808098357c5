"""joinery as a compiler of Triton. Triton imports this module with itself, always: nothing else loads before it is used."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget

from .targets import BINARY, is_ours


class JoineryBackend(BaseBackend):  # type: ignore[misc]
    """Compiles Triton's functions to native code: the stages "ttir", which is Triton's own, and `BINARY`."""

    supports_native_tensor_specialization = True
    binary_ext = BINARY

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        from .patches.arrays import accept_arrays
        from .patches.assembly import provide_texts
        from .patches.names import note_names

        accept_arrays()
        provide_texts()
        note_names()

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return is_ours(target)

    def hash(self) -> str:
        from .patches.precision import default_precision
        from .settings import current
        from .stages import identity

        ambient = current()
        code = f"{ambient.numerics}-{ambient.check_bounds}"
        return f"{self.target.backend}-{self.target.arch}-{default_precision()}-{code}-{identity()}"

    def parse_options(self, options: dict[str, Any]) -> object:
        from .options import parse_options
        from .versions import dot_precisions

        found: Any = parse_options(options)
        found.allowed_dot_input_precisions = tuple(filter(dot_precisions().__contains__, found.allowed_dot_input_precisions))
        return found

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any = None) -> None:
        from .stages import add_stages

        add_stages(stages, options, language)

    def pack_metadata(self, metadata: Any) -> Any:
        return metadata

    def get_codegen_implementation(self, options: Any = None) -> dict[str, Any]:
        from triton.language.extra import cuda

        return {"convert_custom_types": cuda.convert_custom_float8_sm80, "min_dot_size": lambda lhs, rhs: (1, 1, 1)}

    def get_module_map(self) -> dict[str, ModuleType]:
        from triton.language.extra.cuda import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """Triton's own dialects are all that its functions need."""
