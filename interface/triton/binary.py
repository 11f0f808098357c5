"""Compiled kernels as bytes: the text of the block program, and native code with what launches need to know."""

from __future__ import annotations

import functools
import re
import threading
from typing import TYPE_CHECKING

from ...promotion.errors import UserError
from ...runtime.storage.cache import CompileCache
from ..native.code import decode_native, encode_native
from ..native.kernel import NativeKernel

if TYPE_CHECKING:
    from ..kernel import Kernel

_MAGIC = b"JNTRITON2\n"
_FILE = re.compile(r'^#loc = loc\("([^"\\]+)":', re.MULTILINE)
"""The file of the function in a text that Triton printed."""


def encode(text: str, name: str, numerics: str, warps: int, native: bool, check_bounds: bool = False) -> bytes:
    """The bytes of a kernel. native: whether with native code, which compares accesses with their memory if `check_bounds`.

    warps: of a program on a GPU.
    """
    code = encode_native(*_kernel(text, name, numerics).native_code(check_bounds)) if native else b""
    body = text.encode()
    head = f"{numerics} {warps} {name.encode().hex()} {len(body)} {len(code)}\n".encode()
    return b"".join([_MAGIC, head, body, code])


@functools.lru_cache(maxsize=256)
def _kernel(text: str, name: str, numerics: str) -> Kernel:
    """The kernel of a text. Autotuning compiles the same text for many configurations."""
    from ..kernel import from_ttir

    return from_ttir(text, name, numerics=numerics)


class LoadedKernel:
    """A kernel as Triton holds it: its native code, linked when it is first launched, and its text, read when it is needed.

    Raises `UserError` for bytes that `encode` did not make.
    """

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        try:
            if not data.startswith(_MAGIC):
                raise ValueError
            end = data.index(b"\n", len(_MAGIC))
            numerics, warps, function, text, code = data[len(_MAGIC) : end].decode().split(" ")
            body = end + 1 + int(text)
            if body + int(code) != len(data):
                raise ValueError
            self.function = bytes.fromhex(function).decode()
            self.text = data[end + 1 : body].decode()
            self.warps = int(warps)
        except ValueError:
            fix = "remove the folder of Triton's cache, ~/.triton/cache or TRITON_CACHE_DIR"
            raise UserError(f"the compiled kernel {name!r} in Triton's cache is damaged; fix: {fix}") from None
        self.numerics = numerics
        self._file: str | None = None
        self._code = data[body:]
        self._lock = threading.Lock()

    def belong_to(self, file: str | None) -> None:
        """Name this file in what is said of the kernel: the cache knows a kernel by its source, which may lie in several files.

        To be called before anything is run; native code of another file is compiled anew.
        """
        if file is None or file == self._file:
            return
        self._file = file
        known = _FILE.search(self.text)
        if known is not None and known.group(1) != file and '"' not in file and "\\" not in file:
            self.text = self.text.replace(f'loc("{known.group(1)}":', f'loc("{file}":')
            self._code = b""

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The kernel, from its text."""
        return _kernel(self.text, self.function, self.numerics)

    @functools.cached_property
    def native(self) -> NativeKernel:
        """Its native code."""
        return self._native(False)

    @functools.cached_property
    def checked_native(self) -> NativeKernel:
        """Its native code that compares accesses with the memory that they may reach."""
        return self._native(True)

    def _native(self, checked: bool) -> NativeKernel:
        with self._lock:
            if self._code and self._kept.facts.checked == checked:
                return self._kept
        return self.kernel.checked_native if checked else self.kernel.native

    @functools.cached_property
    def _kept(self) -> NativeKernel:
        """The code among the bytes."""
        return decode_native(self._code, lambda specialization: self.kernel.host_object(specialization), CompileCache())
