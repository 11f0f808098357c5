"""Keeps what a run has done beside its output, so that a later one does what is missing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .... import __version__
from ....promotion.errors import UserError
from .jobs import BlockRecord, Job

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two runs apart
    fcntl = None  # type: ignore[assignment]

_FORMAT = 1


class Journal:
    """The folder of a run that is not complete: what it is, and a line for each block that is written.

    Workers write blocks, this process notes them. A block that was written and not noted is computed again, to the same bits.
    A line that was cut by the end of the process counts for nothing.

    Attributes:
        job: the run.
        done: 1 for each block that is noted.
        digest: a number for the results of all noted blocks, in whatever order they came.
        targets: how many blocks code for each target has computed.
    """

    def __init__(self, job: Job, resume: bool) -> None:
        self.job = job
        self.done = bytearray(job.blocks)
        self.targets: dict[str, int] = {}
        self.digest = 0
        folder = job.output.partial
        self._what, self._lines = folder / "run.json", folder / "blocks.jsonl"
        if os.path.lexists(job.output.path):
            raise UserError(f"--output {job.output.path} is there already; fix: another path, or remove it")
        self._locked = _lock(folder)
        try:
            if self._what.exists():
                if not resume:
                    raise UserError(f"{folder} is a run that is not complete; fix: --resume, or remove it")
                self._compare()
                self._read()
            else:
                shutil.rmtree(job.output.data, ignore_errors=True)  # of a run that ended before it began
            job.output.prepare()
            _write_whole(self._what, json.dumps(_identity(job), indent=2).encode())
            self._file = open(self._lines, "ab", buffering=0)  # noqa: SIM115 - closed by `close`
        except BaseException:
            os.close(self._locked)
            raise

    def _compare(self) -> None:
        """Raise `UserError` if the run that is resumed is another one."""
        found, own = json.loads(self._what.read_bytes()), _identity(self.job)
        for name, value in own.items():
            if (before := found.get(name)) != value:
                raise UserError(
                    f"{self._what}: {name} of the run is {_short(before)}, now it is {_short(value)}: its blocks would not go "
                    "together; fix: the same command as before, or another --output"
                )

    def _read(self) -> None:
        """Read which blocks are done, and drop a line that was cut."""
        if not self._lines.exists():
            return
        kept = 0
        with open(self._lines, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                kept += len(line)
                self._note(BlockRecord(**json.loads(line)))
        os.truncate(self._lines, kept)

    def _note(self, record: BlockRecord) -> None:
        if not self.done[record.number]:
            self.done[record.number] = 1
            self.targets[record.target] = self.targets.get(record.target, 0) + 1
            one = hashlib.sha256(f"{record.number} {record.digest}".encode()).digest()
            self.digest = (self.digest + int.from_bytes(one, "little")) % (1 << 256)

    def add(self, record: BlockRecord) -> None:
        """Note a block that is written. Raises `UserError` where the disk does not take that."""
        line = json.dumps({name: getattr(record, name) for name in ("number", "digest", "target", "seconds", "worker")})
        try:
            self._file.write(line.encode() + b"\n")
        except OSError as error:
            raise UserError(f"{self._lines} cannot be written: {error.strerror or error}; fix that, then --resume") from error
        self._note(record)

    def missing(self) -> Iterator[int]:
        """Yield the numbers of blocks that are not done."""
        number = self.done.find(0)
        while number >= 0:
            yield number
            number = self.done.find(0, number + 1)

    def close(self) -> None:
        """Let another run resume this one."""
        self._file.close()
        os.close(self._locked)

    def complete(self) -> None:
        """Put the output where it belongs, and remove the folder of the run."""
        self.job.output.finish()
        self.close()
        shutil.rmtree(self.job.output.partial, ignore_errors=True)


def _lock(folder: Path) -> int:
    """Make the folder of a run, and return the descriptor of a lock that other runs respect until it is closed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}; fix: another --output") from error
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise UserError(f"another run writes to {folder}; fix: wait for it, or another --output") from error
    return descriptor


def _identity(job: Job) -> dict[str, Any]:
    """Return what has to be the same for blocks to go together."""
    return {
        "format": _FORMAT, "joinery": __version__, "model": job.reference.digest, "device": job.reference.device,
        "inputs": {source.name: [str(source), *source.stamp] for source in (*job.sources, *job.whole)},
        "masks": dict(job.masks), "outputs": [[each.name, each.dtype, list(each.item)] for each in job.output.tensors],
        "rows": job.output.rows, "block": job.output.block, "batch": job.batch, "pad_to": job.width,
    }  # fmt: skip


def _short(value: object) -> str:
    return f"{json.dumps(value):.80}"


def _write_whole(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".new")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
