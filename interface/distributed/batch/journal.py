"""Keeps what a run has done beside its output, so that a later one does what is missing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .... import __version__
from ....promotion.errors import UserError
from ..failures import InputChanged
from .completed import (
    CompleteRun,
    added_digest,
    complete_run,
    remove_record,
    require_record_free,
    write_record,
)
from .jobs import BlockRecord, Job
from .notes import known_targets, line_of, parsed, target_name
from .outputs import Output, sync_file, write_whole

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two runs apart
    fcntl = None  # type: ignore[assignment]

_FORMAT = 4
_MADE_BY = ("format", "joinery")
_LINES = "blocks.jsonl"
_NAMES = re.compile(r"run\.(json|new)|blocks\.(jsonl|new)|complete\.new|(data|new)-[0-9a-f]{32}")
_RUN = re.compile(r"[0-9a-f]{32}")
_LOCK_TRIES, _LOCK_SECONDS = 100, 0.01
_COMMIT_SECONDS = 0.5
"""How long notes may wait for each other: the disk is asked once for all blocks that they are about."""
_LOOK_SECONDS, _LOOK_SHARE = 10.0, 50
"""How often all files of the inputs are looked at, and for which part of the time at most."""
_FEW_FILES = 10_000
"""So many are looked at when a run is interrupted."""


class Journal:
    """The folder of a run that is not complete: what it is, and a line for each block that is on disk.

    Workers write blocks, this process notes them once the disk has them. A block that was written and not noted is computed
    again, to the same bits. Of an earlier run each noted block is read again, and counts if it has the noted SHA-256; lines
    that are damaged count for nothing. The data lies in a folder with the number of this run, so that workers of an earlier one
    find nothing to write to. Notes count once the files of the inputs were found as they were, by a look at all of them that
    came after the notes: later ones of a run that was killed count if nobody did anything to the files since. A lock is held
    from before the output is looked for until nothing of the folder is left.

    Attributes:
        job: the run, with its number.
        done: 1 for each block that is noted.
        damaged: notes of an earlier run that were cut, whose block was not there or not what was noted, or whose inputs may
            have been others for a while.
        digest: a number for the results of all noted blocks, in whatever order they came.
        targets: how many blocks code for each target has computed.
        is_complete: whether the same run has made the output before, and it is as it was: there is nothing to do.
    """

    def __init__(self, job: Job, resume: bool) -> None:
        self.job = replace(job, output=replace(job.output, run=uuid.uuid4().hex))
        self.done = bytearray(job.blocks)
        self.targets: dict[str, int] = {}
        self.digest = self.damaged = 0
        self._folder = job.output.partial
        self._what, self._lines = self._folder / "run.json", self._folder / _LINES
        self._waiting: list[BlockRecord] = []
        self._committed = self._looked = time.monotonic()
        self._look_seconds = 0.0
        self._watch = hashlib.sha256("".join(source.watch for source in (*job.sources, *job.whole)).encode()).hexdigest()
        self._checked = 0  # bytes of the notes that came before the last look at the inputs
        self._before: dict[str, str] = {}
        self._named: dict[str, str] = {}  # targets, by the names that notes have
        self.is_complete = False
        self._forgets = False
        self._resumes = resume
        self._is_of_use = False  # whether another run could go on with what is in the folder
        self._file = -1
        self._locked = _lock(self._folder)
        try:
            self._begin(resume)
        except BaseException:
            self._leave()
            raise

    def _begin(self, resume: bool) -> None:
        path, noted = self.job.output.path, self._lines.exists() and self._lines.stat().st_size > 0
        if os.path.lexists(path):
            self._is_of_use = noted and not self._is_leftover()
            if self._is_of_use or not resume:
                raise UserError(f"--output {path} is there already; fix: another path, or remove it")
            found = complete_run(self.job.output, _identity(self.job), self.job.blocks)
            if isinstance(found, str):
                raise UserError(f"--output {path} is there already, and {found}; fix: another path, or remove it")
            self.done, self.targets, self.digest = bytearray(b"\1") * self.job.blocks, found.targets, found.digest
            self.is_complete = True
            return
        require_record_free(self.job.output)
        self._is_of_use = noted
        if noted and not resume:
            raise UserError(f"{self._folder} is a run that is not complete; fix: --resume, or remove it")
        before = self._compared() if noted else {}
        self._before, self._named = self._names(before), known_targets(before)
        watch, self._checked = (self._watch, 0) if not noted else _looks(before)
        self._describe(watch)
        self._adopt(before)
        try:
            self.job.output.prepare()
        except Exception:  # what an earlier run has left is of another form, or damaged
            if not noted:
                raise
            shutil.rmtree(self.job.output.store.folder, ignore_errors=True)
            self.job.output.prepare()
        if noted:
            self._check(None if watch == self._watch else self._checked)
            self._checked = self._lines.stat().st_size
            self._describe(self._watch)
        try:
            self._file = os.open(self._lines, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
            sync_file(self._folder)
        except OSError as error:
            raise UserError(f"{self._lines} cannot be written: {error.strerror or error}") from error

    def _describe(self, watch: str) -> None:
        """Write what the run is, the targets that its notes name, and how many of these are certain."""
        what = {**_identity(self.job), **self._before, "watch": watch, "checked": self._checked, "targets": self._named}
        write_whole(self._what, json.dumps(what, indent=2).encode())

    def _is_leftover(self) -> bool:
        """Tell whether a run has given the output its name, and died before its folder was gone."""
        try:
            runs = _runs(json.loads(self._what.read_bytes()))
        except (OSError, ValueError, AttributeError, RecursionError):
            return False
        return bool(runs) and not any(replace(self.job.output, run=name).whole.exists() for name in runs)

    def _names(self, before: dict[str, Any]) -> dict[str, str]:
        """Return what `run.json` says about where the data is: until it is renamed, in the folder of the run before."""
        previous = next((name for name in _runs(before) if self._data(name).is_dir()), "")
        return {"run": self.job.output.run, "before": previous}

    def _data(self, run: str) -> Path:
        return replace(self.job.output, run=run).store.folder

    def _adopt(self, before: dict[str, Any]) -> None:
        """Take over the data of the run before, out of reach of its workers, and remove what is left of others."""
        kept = {"run.json", *([self._lines.name] if before else [])}
        try:
            previous = next((each for name in _runs(before) if (each := self._data(name)).is_dir()), None)
            if previous is not None:
                os.rename(previous, self.job.output.store.folder)
                kept.add(self.job.output.store.folder.name)
        except OSError as error:
            raise UserError(f"{self._folder} cannot be written: {error.strerror or error}") from error
        _remove(self._own(kept))

    def _own(self, kept: set[str]) -> list[Path]:
        """Return the files and folders that runs make, except for the lock and some others."""
        found = [path for path in self._folder.iterdir() if _NAMES.fullmatch(path.name) and path.name not in kept]
        # The notes go first: without them there is no run to go on with, whoever dies in between.
        return sorted(found, key=lambda path: path.name != self._lines.name)

    def _compared(self) -> dict[str, Any]:
        """Return what is known of the run that is resumed. Raises `UserError` if it is another one."""
        try:
            found = json.loads(self._what.read_bytes())
            if not isinstance(found, dict):
                raise ValueError("it is no object")
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{self._what} is damaged or gone ({error}); fix: remove {self._folder}") from error
        for name, value in _identity(self.job).items():
            if (before := found.get(name)) != value:
                if name == "inputs" and isinstance(before, dict) and before.keys() == value.keys():
                    self._require_files(before, value)
                raise UserError(
                    f"{self._what}: {name} of the run is {_short(before)}, now it is {_short(value)}: its blocks would not go "
                    f"together; fix: the same {'joinery' if name in _MADE_BY else 'command'} as before, or another --output"
                )
        return found

    def _require_files(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Raise `UserError` for an input whose path is that of the run before, and whose files are others."""
        for name, (path, *_) in now.items():
            if not isinstance(before[name], list) or before[name][:1] != [path] or before[name] == now[name]:
                continue
            if before[name][:-1] == now[name][:-1]:
                raise UserError(
                    f"{self._what}: input {name!r}: {path} leads to {now[name][-1]} now, and led to {before[name][-1]} when "
                    "the run began, so blocks of different inputs would be mixed; fix: links as they were, or remove "
                    f"{self._folder}"
                )
            raise UserError(
                f"{self._what}: input {name!r}: {path} has changed since the run began, so blocks of different inputs "
                f"would be mixed; fix: the files as they were, with their times, or remove {self._folder}"
            )

    def _check(self, size: int | None) -> None:
        """Take over the notes of an earlier run whose blocks are there and right, and drop the others.

        size: how many bytes of notes are certain; None for all.
        """
        wrong: set[int] = set()
        at = 0
        try:
            with open(self._lines, "rb") as lines, open(self._lines.with_suffix(".new"), "wb") as kept:
                for line in lines:
                    at += len(line)
                    record = parsed(line, self.job.blocks, self._named)
                    if record is None:
                        self.damaged += 1
                    elif size is not None and at > size:
                        wrong.add(record.number)
                    elif not self.done[record.number]:
                        if self.job.output.is_right(record.number, record.digest):
                            kept.write(line)
                            self._note(record)
                        else:
                            wrong.add(record.number)
            os.replace(self._lines.with_suffix(".new"), self._lines)
        except OSError as error:
            raise UserError(f"{self._lines} cannot be written: {error.strerror or error}") from error
        self.damaged += sum(not self.done[number] for number in wrong)

    def _note(self, record: BlockRecord) -> None:
        if not self.done[record.number]:
            self.done[record.number] = 1
            self.targets[record.target] = self.targets.get(record.target, 0) + 1
            self.digest = added_digest(self.digest, record.number, record.digest)

    def add(self, record: BlockRecord) -> None:
        """Note a block that is written, soon. Raises `UserError` where the disk does not take block or note, and as `look`."""
        self._note(record)
        self._waiting.append(record)
        now = time.monotonic()
        if now >= self._looked + max(_LOOK_SECONDS, _LOOK_SHARE * self._look_seconds):
            self.look()
        elif now >= self._committed + _COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Let the disk have all blocks that were added, then their notes. Raises as `add` does."""
        records, self._waiting = self._waiting, []
        if records:
            self.job.output.sync([record.number for record in records if not record.durable])
            targets = {target_name(target): target for target in {record.target for record in records} if target}
            if targets.keys() - self._named.keys():
                self._named |= targets
                self._describe(self._watch)
            self._append(b"".join(map(line_of, records)))
        self._committed = time.monotonic()

    def look(self) -> None:
        """Look at all files of the inputs, and note that the blocks that were added came of them.

        Raises `InputChanged` where that is not certain, and as `add` does.
        """
        self.commit()
        size, began = os.fstat(self._file).st_size, time.monotonic()
        self.job.require_same_inputs()
        self._looked = time.monotonic()
        self._look_seconds = self._looked - began
        if size != self._checked:
            self._checked = size
            self._describe(self._watch)

    def _append(self, data: bytes) -> None:
        """Write lines as a whole, or none of them."""
        size, written = os.fstat(self._file).st_size, 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            raise UserError(f"{self._lines} cannot be written: {error.strerror or error}; fix that, then --resume") from error
        self._is_of_use = True

    def missing(self) -> Iterator[int]:
        """Yield the numbers of blocks that are not done."""
        number = self.done.find(0)
        while number >= 0:
            yield number
            number = self.done.find(0, number + 1)

    def close(self, changed: bool = False) -> None:
        """Note what is done, and let another run resume this one.

        changed: whether inputs have changed, so that blocks that were noted since the last look at them do not count.
        """
        if self.is_complete:
            self._leave()
            return
        try:
            self.commit()
            if not changed and sum(source.stamp.files for source in (*self.job.sources, *self.job.whole)) <= _FEW_FILES:
                try:
                    self.look()
                except InputChanged:
                    changed = True
            if changed:
                os.ftruncate(self._file, self._checked)
                self._is_of_use = self._checked > 0
        finally:
            self._leave()

    def complete(self) -> None:
        """Put the output where it belongs, and remove the folder of the run."""
        output = self.job.output
        try:
            if not self.is_complete:
                self.commit()
                # Whoever dies from here on leaves a run that --resume finds complete.
                write_record(output, _identity(self.job), CompleteRun(self.targets, self.digest))
                output.finish()
                self._is_of_use = False
                self._forgets = not self._resumes
        finally:
            self._leave()

    def _leave(self) -> None:
        """Remove the folder unless it is of use, and give the lock back."""
        if self._file >= 0:
            os.close(self._file)
        if not self._is_of_use:
            with contextlib.suppress(OSError):
                _remove(self._own(set()))
                if self._forgets:  # when all else is gone, and while nobody else can have begun a run
                    remove_record(self.job.output)
                if fcntl is None:  # Windows removes no file that is open
                    os.close(self._locked)
                    self._locked = -1
                (self._folder / "lock").unlink()
                self._folder.rmdir()
        if self._locked >= 0:
            os.close(self._locked)


def is_resumable(output: Output) -> bool:
    """Tell whether there is a run with blocks that are noted, which has not made the output."""
    try:
        return (output.partial / _LINES).stat().st_size > 0
    except OSError:
        return False


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _runs(before: dict[str, Any]) -> list[str]:
    """Return the runs whose folder may hold the data, the latest first: one that was killed may not have renamed it."""
    return [name for key in ("run", "before") if isinstance(name := before.get(key), str) and _RUN.fullmatch(name)]


def _lock(folder: Path) -> int:
    """Make the folder of a run, and return the descriptor of a lock that other runs respect until it is closed."""
    gone: OSError | None = None
    for _ in range(_LOCK_TRIES):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o644)
        except FileNotFoundError as error:  # the run that made it is done, and has removed the folder; or it cannot be made
            gone = error
            time.sleep(_LOCK_SECONDS)
            continue
        except OSError as error:
            raise UserError(f"{folder} cannot be written: {error.strerror or error}; fix: another --output") from error
        if fcntl is None:
            return descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise UserError(f"another run writes to {folder}; fix: wait for it, or another --output") from error
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(folder / "lock")):
                return descriptor
        os.close(descriptor)  # the file was removed by the run that had its lock
    why = "others make and remove it all the time" if gone is None else gone.strerror or gone
    raise UserError(f"{folder} cannot be written: {folder / 'lock'}: {why}; fix: another --output") from gone


def _identity(job: Job) -> dict[str, Any]:
    """Return what has to be the same for blocks to go together."""
    return {
        "format": _FORMAT, "joinery": __version__, "model": job.reference.digest, "device": job.reference.device,
        "inputs": {
            source.name: [str(source), asdict(source.stamp), source.length, source.real]
            for source in (*job.sources, *job.whole)
        },
        "masks": dict(job.masks), "outputs": [[each.name, each.dtype, list(each.item)] for each in job.output.tensors],
        "rows": job.output.rows, "block": job.output.block, "batch": job.batch, "pad_to": job.width,
    }  # fmt: skip


def _looks(before: dict[str, Any]) -> tuple[str, int]:
    """Return the watch of an earlier run, and how many bytes of its notes are certain whatever happened since."""
    watch, checked = before.get("watch"), before.get("checked")
    return watch if isinstance(watch, str) else "", checked if isinstance(checked, int) else 0


def _short(value: object) -> str:
    return f"{json.dumps(value):.80}"
