"""`kernel.asm` of Triton's kernels: texts that nobody stored are made when somebody reads them."""

from __future__ import annotations

from typing import Any

from ..targets import BINARY, MAX_WARPS

TEXTS = ("llir", "asm", "ptx")


def text_of(data: bytes, kind: str) -> str:
    """A text of a compiled kernel: "llir" and "asm" for the host, "ptx" for the GPU that is set."""
    from ..binary import LoadedKernel
    from ..settings import current

    loaded = LoadedKernel("asm", data)
    kernel = loaded.kernel
    if kind == "ptx":
        return kernel.gpu_code(current().target, min(loaded.warps, MAX_WARPS)).ptx
    return kernel.llvm_ir() if kind == "llir" else kernel.asm()


def provide_texts() -> None:
    """Let `kernel.asm` of joinery's kernels have the texts of `TEXTS`."""
    from triton.compiler import compiler

    plain = compiler.AsmDict
    if getattr(plain, "makes_texts", False):
        return

    class AsmDict(plain):  # type: ignore[misc,valid-type]
        makes_texts = True

        def __contains__(self, key: object) -> bool:
            return super().__contains__(key) or (key in TEXTS and super().__contains__(BINARY))

        def get(self, key: str, default: Any = None) -> Any:
            try:
                return self[key]
            except KeyError:
                return default

        def __missing__(self, key: str) -> Any:
            if BINARY not in self:
                return super().__missing__(key)
            data = self[BINARY]
            if key not in TEXTS:
                stored = ", ".join(map(repr, dict.fromkeys([*self, *TEXTS])))
                raise KeyError(f"a kernel that joinery compiled has no {key!r}; it has {stored}")
            self[key] = text_of(data, key)
            return self[key]

    compiler.AsmDict = AsmDict
