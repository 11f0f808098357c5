"""Defines the reference to a saved model, which travels to workers and opens the model there, once per process."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ... import __version__
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ...runtime.host.threads import VARIABLE, resolve_threads
from ...runtime.storage import artifact_file
from ...runtime.storage.cache import CompileCache, default_directory
from ..model import Model
from ..opening.devices import require_device, resolve, same_code
from ..opening.loading import load, require_trusted
from .failures import RunError
from .stores import ModelStore, is_whole, mapped

_KEPT_MODELS = 8
"""Models that a process keeps open; beyond them the one that was used least recently goes."""

_log = logging.getLogger("joinery.distributed")
_lock = threading.Lock()
_models: OrderedDict[tuple[object, ...], Opened] = OrderedDict()
_inherited: list[object] = []
"""Models of the process that this one was forked from: nothing of them is used or freed here."""
_carried: dict[str, BinaryIO] = {}
"""Files that a plugin has opened for this process, by digest."""
_written_files: dict[str, BinaryIO] = {}
"""Files of models that this process has made references to: as long as they are open, nobody removes them."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model of this process.

    Attributes:
        model: what runs the blocks.
        target: what its code was made for; blocks from one target have the same bits.
        compiled_here: whether the file had no code for this machine that may run.
        running: a call of the model takes it, since all calls of a process share its threads.
        file: that which is mapped. Nobody else may write to it.
        state: its size and time of change when it was checked.
    """

    model: Model
    target: str
    compiled_here: bool
    running: threading.Lock
    file: BinaryIO
    state: tuple[int, int]

    def require_unchanged(self) -> None:
        """Raise `RunError` if the file has changed since it was checked: what was computed meanwhile is no result of the model.

        A file that was replaced as a whole is there as it was.
        """
        if _state(self.file) != self.state:
            with _lock:
                for key in [key for key, each in _models.items() if each is self]:
                    del _models[key]
            raise RunError(
                f"model {self.model.name!r}: its file {self.file.name} was changed while it was in use; fix: write another "
                "file, and rename it (Model.save does)"
            )


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A saved model as tasks carry it, some 300 bytes: calling it returns the model, which each process opens once.

    Attributes:
        name: the model's.
        digest: its `Model.digest`; a file with another one is refused.
        location: the path of its file, where workers read it unless a plugin has brought it to them.
        device: what it runs on, as for `joinery.load`.
        threads: threads of a call; None for those that the engine gives the worker.
        trusted: whether code in the file may run; otherwise each worker compiles the graph, through its cache.
    """

    name: str
    digest: str
    location: str
    device: str = "cpu"
    threads: int | None = None
    trusted: bool = False

    def __call__(self) -> Model:
        """Return the model. Raises `RunError` where the file cannot be read, or is another one."""
        return self.opened().model

    def opened(self) -> Opened:
        """Return the model and what it was made for. Raises as a call does."""
        threads = self.threads if self.threads is not None else engine_threads()
        key = (self.digest, self.device, threads, self.trusted)
        with _lock:
            found = _models.get(key)
            if found is None:
                found = _models[key] = self._open(threads)
                while len(_models) > _KEPT_MODELS:
                    _models.popitem(last=False)
            _models.move_to_end(key)
        return found

    def _open(self, threads: int | None) -> Opened:
        path = Path(self.location)
        try:
            file = _again(_carried[self.digest]) if self.digest in _carried else open(path, "rb")  # noqa: SIM115
            path = Path(file.name)
            if _others_may_write(file):
                file = self._own_copy(file)
            state, memory = _state(file), mapped(file)
        except RunError:  # which is a ValueError
            raise
        except (OSError, ValueError) as error:  # ValueError: it is empty
            why = getattr(error, "strerror", None) or error
            raise RunError(
                f"model {self.name!r}: {path} cannot be opened by the worker: {why}; fix: a path that workers see, or "
                "joinery.distributed.bring(client, reference)"
            ) from error
        try:
            model = load(memory, self.device, threads=threads, trusted=self.trusted, digest=self.digest)
            targets = artifact_file.load(memory, digest=self.digest, verify=False).manifest.targets
        except UserError as error:
            raise RunError(f"model {self.name!r} in {path}: {error}") from error
        target = _target(model)
        compiled_here = not self.trusted or bool(target and target not in targets)
        if self.trusted and compiled_here:
            _log.warning("model %r: %s has no code for %s, so its graph was compiled here", self.name, path, target)
        return Opened(model, target, compiled_here, threading.Lock(), file, state)

    def _own_copy(self, file: BinaryIO) -> BinaryIO:
        """Return a file of this user's with the bytes of one that others may write to, one for all processes."""
        store, problem = _own_store()
        if problem is not None:
            raise RunError(
                f"model {self.name!r}: others may write to {file.name}, and there is no folder for a copy: {problem}, or "
                f"chmod go-w {file.name}"
            )
        with file:
            found = store.get(self.digest)
            if found is None:
                with store.writing(self.digest) as path, open(path, "wb") as copy:
                    shutil.copyfileobj(file, copy, 1 << 20)
                found = store.get(self.digest, check=False)  # what was copied may be damaged, which its opening tells
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "its copy was removed")
        return found

    def __reduce__(self) -> tuple[Callable[..., ModelReference], tuple[Any, ...]]:
        return _restored, (__version__, self.name, self.digest, self.location, self.device, self.threads, self.trusted)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return ("joinery", __version__, self.digest, self.device, self.trusted)


class ForeignReference(ModelReference):
    """A reference of another joinery version, which refuses when it is used.

    Not when it arrives: workers of Dask and of process pools end where they cannot read a message, and their clients wait. Sent
    on, by a scheduler with a version of its own, it is what it was.
    """

    __slots__ = ("_fields", "_version")
    _version: str
    _fields: tuple[Any, ...]

    def __init__(self, version: str, fields: tuple[Any, ...]) -> None:
        object.__setattr__(self, "_version", version)
        object.__setattr__(self, "_fields", fields)

    def _refused(self) -> Any:
        raise foreign(self._version)

    name = digest = location = device = threads = trusted = property(_refused)

    def __call__(self) -> Model:
        raise foreign(self._version)

    def opened(self) -> Opened:
        raise foreign(self._version)

    def __repr__(self) -> str:
        return f"ForeignReference({self._version!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ForeignReference) and other.__dask_tokenize__() == self.__dask_tokenize__()

    def __hash__(self) -> int:
        return hash(self._version)

    def __reduce__(self) -> tuple[Callable[..., ModelReference], tuple[Any, ...]]:
        return _restored, (self._version, *self._fields)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return ("joinery", self._version, *self._fields)


def foreign(version: str) -> RunError:
    """Return the error of whoever is asked to use what another joinery version has sent."""
    return RunError(
        f"the client has joinery {version}, this worker has {__version__}: their results may differ; fix: install one version "
        "everywhere"
    )


def _restored(version: str, *fields: Any) -> ModelReference:
    """Make a reference again where it has arrived, whatever it comes from."""
    return ModelReference(*fields) if version == __version__ else ForeignReference(version, fields)


def reference(
    source: Model | str | os.PathLike[str],
    *,
    device: str = "cpu",
    threads: int | None = None,
    trusted: bool | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> ModelReference:
    """Return a reference to a model, which engines send to workers in the place of the model.

    Args:
        source: the path of a file that `Model.save` or `joinery.save` wrote, or a model, whose file is written.
        device: what workers run it on, as for `joinery.load`.
        threads: threads of a call; None for those that the engine gives the worker (Dask: `nthreads`, Ray: `num_cpus`),
            or JOINERY_THREADS where that is set.
        trusted: whether code in the file may run on the workers; by default only that of a model given as such.
        directory: where the file of a model is written, under its digest; by default `models` in the user's cache directory.

    Workers read the path, so it has to be one that they see; `bring` brings the file to those that do not.

    Raises `UserError` for what is no model, for a file that is damaged, for a model that cannot be saved, and for what names no
    device or is no bool in the place of `trusted`.
    """
    if threads is not None:
        resolve_threads(threads)
    require_device(device, "reference")
    if trusted is not None:
        require_trusted(trusted, "reference")
    if isinstance(source, Model):
        path, digest = _written(source, directory)
        return ModelReference(source.name, digest, str(path), device, threads, True if trusted is None else trusted)
    if not isinstance(source, (str, os.PathLike)):
        raise UserError(
            f"reference: expected a model or the path of its file, got {type(source).__name__}; fix: what joinery.compile gave"
        )
    manifest = artifact_file.load(source).manifest
    location = absolute_path(os.fspath(source), f"reference: {os.fspath(source)}")
    return ModelReference(manifest.name, manifest.digest, location, device, threads, bool(trusted))


def target_here(reference: ModelReference) -> str:
    """Return the target of the code that this machine would run of a model. Raises `RunError` where its file cannot be read."""
    try:
        targets = artifact_file.load(reference.location, digest=reference.digest, verify=False).manifest.targets
    except (OSError, UserError) as error:
        raise RunError(f"model {reference.name!r}: {reference.location} cannot be read here: {error}") from error
    _, resolved = resolve(reference.device, None, "map_blocks")
    fits = same_code(resolved)
    return next((each for each in targets if reference.trusted and fits(each)), resolved.key)


def _target(model: Model) -> str:
    """Return what a model's code was made for, or that of the parts between which the host computes; "" without any code."""
    parts: tuple[Model, ...] | None = getattr(model, "parts", None)
    if parts is None:
        return model.compiled.target if model.kernels else ""
    return next(filter(None, map(_target, parts)), "")


def absolute_path(path: str, what: str) -> str:
    """Return a path from the root. Raises `UserError` where it starts from a working directory that is gone."""
    if "\0" in path:
        raise UserError(f"{what!r}: there is a NUL in it, which no path has; fix: another path")
    try:
        return os.path.abspath(path)
    except OSError as error:
        raise UserError(
            f"{what}: the working directory is gone that it starts from: {error.strerror or error}; fix: a path from the root, "
            "or another working directory"
        ) from error


def _written(model: Model, directory: str | os.PathLike[str] | None) -> tuple[Path, str]:
    """Write a model's file under its digest, unless it is there; return where, and the digest.

    That is another one than the model's where it was loaded from a file that is not trusted: its code was compiled here.
    """
    content = model.assembled()
    digest = content.digest
    if directory is not None:
        path = ModelStore(Path(directory)).path(digest)
        if not _holds(path, digest):
            content.write(path)
        return path.absolute(), digest
    store, problem = _own_store()
    if problem is not None:
        raise UserError(f"reference: {problem}, or a directory= that workers see")
    file = store.get(digest)
    if file is None:
        with store.writing(digest) as new:
            content.write(new)
        file = store.get(digest, check=False)
    if file is not None:
        _written_files[digest] = file
    return store.path(digest).absolute(), digest


def _own_store() -> tuple[ModelStore, str | None]:
    """Return where this user's copies of models are, and why nothing can be kept there: others must not write there, since code
    in the files is trusted."""
    folder = default_directory() / "models"
    return ModelStore(folder), CompileCache(folder).problem


# --- files


def _again(file: BinaryIO) -> BinaryIO:
    """Return another object for an open file, which may have been removed from its folder meanwhile."""
    return open(file.name, "rb", opener=lambda path, flags: os.dup(file.fileno()))


def _state(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _others_may_write(file: BinaryIO) -> bool:
    """Tell whether somebody else than this user and root may write to a file, and so into the memory that it is mapped to."""
    if not hasattr(os, "getuid"):  # Windows lets nobody write to a file that is mapped
        return False
    status = os.fstat(file.fileno())
    return status.st_uid not in (0, os.getuid()) or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _holds(path: Path, digest: str) -> bool:
    try:
        with open(path, "rb") as file:
            return is_whole(file, digest)
    except (OSError, ValueError):  # ValueError: of a NUL
        return False


def _begin_anew() -> None:
    """Open models again in a process that was forked, where locks may be held by threads that it does not have."""
    global _lock, _models
    _lock, _inherited[:] = threading.Lock(), [*_inherited, _models]
    _models = OrderedDict()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def carry(digest: str, file: BinaryIO) -> None:
    """Let references of this process to the digest read a file that was brought here, and stays open."""
    _carried[digest] = file


def engine_threads() -> int | None:
    """Return how many threads the engine gives this worker; None outside of engines, and where JOINERY_THREADS decides."""
    if os.environ.get(VARIABLE, "").strip():
        return None
    if "distributed" in sys.modules:
        from distributed import get_worker

        try:
            return int(get_worker().state.nthreads)
        except ValueError:  # not in a worker
            pass
    if "ray" in sys.modules:
        import ray

        if ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
            assigned = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
            return max(1, int(assigned))
    return None
