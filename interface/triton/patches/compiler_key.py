"""Triton's key of itself, kept on disk: it hashes its compiler, a library of hundreds of megabytes, in every process."""

from __future__ import annotations

import functools
import hashlib
import os
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ....runtime.storage.cache import CompileCache

_NAME = "triton_key"
_PARTS = ("compiler", "backends", "language")
"""The packages whose sources are in the key."""


def keep_key() -> None:
    """Let Triton take its key from the disk as long as its files have the sizes and times that they had.

    The key is Triton's own, so its caches stay valid. Where files differ, or cannot be listed, Triton computes it.
    """
    import triton
    import triton.compiler.compiler
    import triton.runtime.cache

    root = Path(triton.__file__).parent
    for module in (triton.runtime.cache, triton.compiler.compiler):  # where it is depends on the version
        compute = getattr(module, _NAME, None)
        if callable(compute) and not hasattr(compute, "joinery_keeps"):
            setattr(module, _NAME, _kept(compute, root, CompileCache()))


def _kept(compute: Callable[[], Any], root: Path, store: CompileCache) -> Callable[[], Any]:
    @functools.cache
    def triton_key() -> Any:
        try:
            name = hashlib.sha256(f"{_NAME} {sorted(_state(root))}".encode()).hexdigest()
        except OSError:
            return compute()
        found = store.get_bytes(name)
        if found is not None:
            return found.decode()
        key = compute()
        if isinstance(key, str):
            store.put_bytes(name, key.encode())
        return key

    triton_key.joinery_keeps = True  # type: ignore[attr-defined]
    return triton_key


def _state(root: Path) -> Iterator[tuple[str, int, int, int]]:
    """The (path, size, time of change, inode) of every file that is in the key. Raises `OSError` for what cannot be listed."""
    extension = str(sysconfig.get_config_var("EXT_SUFFIX")).rsplit(".", 1)[-1]
    files = [root / "_C" / f"libtriton.{extension}", root / "__init__.py", root / "runtime" / "cache.py"]
    files.append(root / "compiler" / "compiler.py")
    for part in _PARTS:
        for folder, _, names in os.walk(root / part, onerror=_refuse):
            files += [Path(folder) / name for name in names if name.endswith((".py", f".{extension}"))]
    for file in files:
        status = file.stat()
        yield str(file), status.st_size, status.st_mtime_ns, status.st_ino


def _refuse(error: OSError) -> None:
    raise error
