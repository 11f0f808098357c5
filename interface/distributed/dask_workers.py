"""Brings the file of a model to the workers of Dask that do not see it: once to each host, whoever starts there later too."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distributed import Client, WorkerPlugin

from ...promotion.errors import UserError
from .failures import RunError
from .references import ModelReference, carry

try:
    import fcntl
except ImportError:  # on Windows each worker of a host fetches a copy
    fcntl = None  # type: ignore[assignment]

_PIECE_BYTES = 32 << 20
_HANDLER = "joinery_model"
_FOLDER = "joinery-models"


class ModelPlugin(WorkerPlugin):  # type: ignore[misc] # of a library without types
    """A plugin that fetches a model's file from the scheduler, unless another worker of the host has done so.

    The file lies beside the directories of the host's workers, under its digest, and stays there.
    """

    idempotent = True

    def __init__(self, reference: ModelReference, size: int) -> None:
        self.reference, self.size = reference, size
        self.name = f"joinery-{reference.digest}"

    async def setup(self, worker: Any) -> None:
        """Fetch the file, and let this process read it."""
        folder = Path(worker.local_directory).parent / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{self.reference.digest}.joinery"
        lock = await asyncio.to_thread(_lock, path.with_suffix(".lock"))
        try:
            if not path.exists():
                await self._fetch(worker, path)
        finally:
            os.close(lock)
        carry(self.reference.digest, path)

    async def _fetch(self, worker: Any, path: Path) -> None:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for offset in range(0, self.size, _PIECE_BYTES):
                    call = getattr(worker.scheduler, _HANDLER)
                    piece = await call(digest=self.reference.digest, offset=offset, length=_PIECE_BYTES)
                    file.write(piece)
            os.replace(temporary, path)
        except BaseException as error:
            os.unlink(temporary)
            if isinstance(error, OSError):
                raise RunError(f"model {self.reference.name!r} cannot be brought to {path}: {error}") from error
            raise


def _lock(path: Path) -> int:
    """Wait until no other process of the host has the lock, and return its descriptor, whose closing gives it back."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def bring(client: Any, reference: ModelReference) -> None:
    """Implement `joinery.distributed.bring`."""
    if not isinstance(client, Client) or client.asynchronous:
        raise UserError(f"bring: client {client!r:.80}; fix: a distributed.Client that is not asynchronous")
    with open(reference.location, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if client.run_on_scheduler(_size, reference.digest) != size:
            client.run_on_scheduler(_begin, reference.digest)
            for piece in _pieces(file):
                client.run_on_scheduler(_append, reference.digest, piece)
            client.run_on_scheduler(_complete, reference.digest)
    client.register_plugin(ModelPlugin(reference, size))


def _pieces(file: Any) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece


# --- in the scheduler, which keeps the files in a temporary directory


def _files(scheduler: Any) -> Path:
    kept = scheduler.extensions.get(_FOLDER)
    if kept is None:
        kept = scheduler.extensions[_FOLDER] = tempfile.TemporaryDirectory(prefix=f"{_FOLDER}-")
        scheduler.handlers[_HANDLER] = _answer(Path(kept.name))
    return Path(kept.name)


def _answer(folder: Path) -> Any:
    def piece(digest: str, offset: int, length: int) -> bytes:
        with open(folder / digest, "rb") as file:
            file.seek(offset)
            return file.read(length)

    return piece


def _size(digest: str, dask_scheduler: Any = None) -> int:
    path = _files(dask_scheduler) / digest
    return path.stat().st_size if path.exists() else -1


def _begin(digest: str, dask_scheduler: Any = None) -> None:
    (_files(dask_scheduler) / f"{digest}.part").write_bytes(b"")


def _append(digest: str, piece: bytes, dask_scheduler: Any = None) -> None:
    with open(_files(dask_scheduler) / f"{digest}.part", "ab") as file:
        file.write(piece)


def _complete(digest: str, dask_scheduler: Any = None) -> None:
    os.replace(_files(dask_scheduler) / f"{digest}.part", _files(dask_scheduler) / digest)
