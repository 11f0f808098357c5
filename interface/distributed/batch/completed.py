"""Keeps what a complete run was beside its output, so that the same command with `--resume` has nothing left to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....promotion.dataclass import dataclass
from .outputs import Output, block_digest, write_whole


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


def write_record(output: Output, identity: Mapping[str, Any], run: CompleteRun) -> None:
    """Write the record of a run, before its output gets its name. Raises `UserError` where the disk does not take it."""
    record = {**identity, "targets": run.targets, "digest": f"{run.digest:064x}"}
    write_whole(record_path(output), json.dumps(record, indent=2).encode())


def remove_record(output: Output) -> None:
    """Remove the record of an earlier run of another output."""
    record_path(output).unlink(missing_ok=True)


def complete_run(output: Output, identity: Mapping[str, Any], blocks: int) -> CompleteRun | str:
    """Return what is known of the run that made an output, or why the output does not count as that of this run.

    Every block of it is read, and has to be what the run has written.
    """
    try:
        found = json.loads(record_path(output).read_bytes())
        run = CompleteRun(dict(found["targets"]), int(found["digest"], 16))
    except FileNotFoundError:
        return f"{record_path(output)}, by which a run with --resume is known, is not"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return f"{record_path(output)} is damaged"
    for name, value in identity.items():
        if found.get(name) != value:
            return f"{name} of the run that made it is {json.dumps(found.get(name)):.80}, now it is {json.dumps(value):.80}"
    digest = 0
    for number in range(blocks):
        try:
            digest = added_digest(digest, number, block_digest(output.finished_block(number)))
        except Exception:  # whatever libraries say about files that are damaged or gone
            return f"block {number} of it cannot be read"
    return run if digest == run.digest else "it has changed since the run was complete"


def added_digest(digest: int, number: int, of_block: str) -> int:
    """Return a digest of results with that of one block added, in whatever order blocks are added."""
    one = hashlib.sha256(f"{number} {of_block}".encode()).digest()
    return (digest + int.from_bytes(one, "little")) % (1 << 256)
