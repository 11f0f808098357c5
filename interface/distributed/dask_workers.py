"""Brings the file of a model to the workers of Dask that do not see it: once to each host, whoever starts there later too."""

from __future__ import annotations

import asyncio
import hashlib
import mmap
import os
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, BinaryIO

from distributed import Client, WorkerPlugin

from ...promotion.errors import UserError
from ...runtime.storage import artifact_file
from ...runtime.storage.cache import CompileCache
from .failures import RunError
from .references import ModelReference, carry
from .signatures import require_reference
from .stores import ModelStore, is_whole

try:
    import fcntl
except ImportError:  # on Windows each worker of a host fetches a copy
    fcntl = None  # type: ignore[assignment]

_PIECE_BYTES = 32 << 20
_LOOK_SECONDS = 0.05
_STALE_SECONDS = 3600.0
_HANDLER = "joinery_model"
_FOLDER = "joinery-models"


class ModelPlugin(WorkerPlugin):  # type: ignore[misc] # of a library without types
    """A plugin that fetches a model's file from the scheduler, unless another worker of the host has done so.

    The file lies beside the directories of the host's workers, under its digest, until it is old or there are too many, and no
    worker has it open. One that is damaged is fetched again when the plugin is registered again.
    """

    def __init__(self, reference: ModelReference, size: int) -> None:
        self.reference, self.size = reference, size
        self.name = f"joinery-{reference.digest}"

    async def setup(self, worker: Any) -> None:
        """Fetch the file, and let this process read it."""
        folder = Path(worker.local_directory).parent / _FOLDER
        problem = CompileCache(folder).problem  # in a directory for all users somebody else may have made it
        if problem is not None:
            raise RunError(
                f"model {self.reference.name!r} cannot be brought to a worker: {problem}, or another --local-directory"
            )
        store = ModelStore(folder)
        lock = await _locked(folder / ".fetching")
        try:
            file = await asyncio.to_thread(store.get, self.reference.digest)
            if file is None:
                file = await self._fetched(worker, store)
        finally:
            os.close(lock)
        carry(self.reference.digest, file)

    async def _fetched(self, worker: Any, store: ModelStore) -> BinaryIO:
        digest = self.reference.digest
        try:
            with store.writing(digest) as path:
                with open(path, "wb") as file:
                    for offset in range(0, self.size, _PIECE_BYTES):
                        file.write(await getattr(worker.scheduler, _HANDLER)(digest=digest, offset=offset, length=_PIECE_BYTES))
                await asyncio.to_thread(self._require_whole, path)
            found = store.get(digest, check=False)
        except OSError as error:
            raise RunError(f"model {self.reference.name!r} cannot be brought to {store.folder}: {error}") from error
        if found is None:
            raise RunError(f"model {self.reference.name!r}: {store.path(digest)} was removed; fix: bring it again")
        return found

    def _require_whole(self, path: Path) -> None:
        with open(path, "rb") as file:
            if not is_whole(file, self.reference.digest):
                raise RunError(
                    f"model {self.reference.name!r}: what came from the scheduler has another digest than the reference; fix: "
                    "bring it again, from a file that nobody changes meanwhile"
                )


async def _locked(path: Path) -> int:
    """Wait until no other process of the host has the lock, and return its descriptor, whose closing gives it back."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:  # waiting in a thread, plugins of many models would wait for each other's threads
            await asyncio.sleep(_LOOK_SECONDS)
    return descriptor


def bring(client: Any, reference: ModelReference) -> None:
    """Implement `joinery.distributed.bring`."""
    if not isinstance(client, Client) or client.asynchronous:
        raise UserError(f"bring: client {client!r:.80}; fix: a distributed.Client that is not asynchronous")
    require_reference(reference, "bring")
    try:
        opened = open(reference.location, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise RunError(
            f"bring: model {reference.name!r}: {reference.location} cannot be opened: {error.strerror or error}; fix: a path "
            "that this process sees"
        ) from error
    with opened as file:
        size = os.fstat(file.fileno()).st_size
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        try:
            artifact_file.load(mapped, digest=reference.digest)
        except UserError as error:
            raise RunError(f"bring: model {reference.name!r} in {reference.location}: {error}") from error
        sha256 = hashlib.sha256(mapped).hexdigest()
        if client.run_on_scheduler(_known, reference.digest) != sha256:
            part = f"{reference.digest}-{uuid.uuid4().hex}.part"  # others may bring the same model meanwhile
            client.run_on_scheduler(_begin, part)
            for at in range(0, size, _PIECE_BYTES):
                client.run_on_scheduler(_append, part, mapped[at : at + _PIECE_BYTES])
            client.run_on_scheduler(_complete, part, reference.digest)
    client.register_plugin(ModelPlugin(reference, size))


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


def _known(digest: str, dask_scheduler: Any = None) -> str:
    """Return the SHA-256 of the bytes that are kept under a digest; nothing where there are none."""
    try:
        with open(_files(dask_scheduler) / digest, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _begin(part: str, dask_scheduler: Any = None) -> None:
    """Begin a file, and remove those that clients which died have begun."""
    folder = _files(dask_scheduler)
    for left in folder.glob("*.part"):
        if time.time() - left.stat().st_mtime > _STALE_SECONDS:
            left.unlink()
    (folder / part).write_bytes(b"")


def _append(part: str, piece: bytes, dask_scheduler: Any = None) -> None:
    with open(_files(dask_scheduler) / part, "ab") as file:
        file.write(piece)


def _complete(part: str, digest: str, dask_scheduler: Any = None) -> None:
    os.replace(_files(dask_scheduler) / part, _files(dask_scheduler) / digest)
