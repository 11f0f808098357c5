"""Keeps what a complete run was beside its output, so that the same command with `--resume` has nothing left to do."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from .outputs import Output, block_digest, write_whole

_MAX_RECORD_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class CompleteRun:
    """What is known of a run whose output is there.

    Attributes:
        targets: how many blocks code for each target has computed.
        digest: a number for the results of all blocks, see `added_digest`.
    """

    targets: dict[str, int]
    digest: int


def record_path(output: Output) -> Path:
    """Return where the record of a complete run is."""
    return Path(f"{output.path}.complete.json")


def require_record_free(output: Output) -> None:
    """Raise `UserError` where something else has the name of the record, which would be lost, or no file can have it."""
    path = record_path(output)
    try:
        os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:  # such as a name that is too long
        raise UserError(
            f"--output {output.path}: no {path.name} can be written beside it: {error.strerror}; fix: another name"
        ) from error
    if _read(path) is None:
        raise UserError(
            f"--output {output.path}: {path} is there, where a run keeps what it was, and is no such record; fix: another "
            "path, or move it away"
        )


def write_record(output: Output, identity: Mapping[str, Any], run: CompleteRun) -> None:
    """Write the record of a run, before its output gets its name. Raises `UserError` where the disk does not take it."""
    require_record_free(output)
    record = {**identity, "targets": run.targets, "digest": f"{run.digest:064x}"}
    path = record_path(output)
    write_whole(path, json.dumps(record, indent=2).encode(), output.partial / "complete.new")


def remove_record(output: Output) -> None:
    """Remove the record of a run that nobody goes on with, or of an earlier one."""
    if _read(record_path(output)) is not None:
        with contextlib.suppress(OSError):
            record_path(output).unlink()


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a record says; None for what is none."""
    try:
        if not path.is_file() or path.is_symlink() or path.stat().st_size > _MAX_RECORD_BYTES:
            return None
        found = json.loads(path.read_bytes())
        return found if isinstance(found, dict) and {"format", "joinery", "digest", "targets"} <= found.keys() else None
    except (OSError, ValueError, RecursionError):
        return None


def complete_run(output: Output, identity: Mapping[str, Any], blocks: int) -> CompleteRun | str:
    """Return what is known of the run that made an output, or why the output does not count as that of this run.

    Every block of it is read, and has to be what the run has written.
    """
    if not os.path.lexists(record_path(output)):
        return f"{record_path(output)}, by which a run with --resume is known, is not"
    damaged = f"{record_path(output)} is damaged"
    found = _read(record_path(output))
    if found is None:
        return damaged
    try:
        run = CompleteRun(dict(found["targets"]), int(found["digest"], 16))
    except (ValueError, TypeError):
        return damaged
    for name, value in identity.items():
        if found.get(name) != value:
            what, before, now = _difference(name, found.get(name), value)
            return f"{what} of the run that made it is {json.dumps(before):.80}, now it is {json.dumps(now):.80}"
    if not output.has_form():
        return "it has another form than the run gave it"
    digest = 0
    for number in range(blocks):
        try:
            digest = added_digest(digest, number, block_digest(output.finished_block(number)))
        except Exception:  # whatever libraries say about files that are damaged or gone
            return f"block {number} of it cannot be read"
    return run if digest == run.digest else "it has changed since the run was complete"


def _difference(name: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    """Return where two values of a record differ, as deep in it as both have it, and what is there."""
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        key = next(key for key in now if before[key] != now[key])
        return _difference(f"{name} {key}", before[key], now[key])
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        at = next(at for at, each in enumerate(now) if before[at] != each)
        return _difference(name, before[at], now[at])
    return name, before, now


def added_digest(digest: int, number: int, of_block: str) -> int:
    """Return a digest of results with that of one block added, in whatever order blocks are added."""
    one = hashlib.sha256(f"{number} {of_block}".encode()).digest()
    return (digest + int.from_bytes(one, "little")) % (1 << 256)
