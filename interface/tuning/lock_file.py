"""Keeps the choices of tuned kernels in a file that can be committed: JSON, in the same order whoever writes it.

    {"format": 1, "kernels": {"gemm TYPE=float": {"text": "5f0c…", "choices": [
      {"device": "cpu znver4", "key": {"M": 512, "N": 512}, "defines": {"TM": "64"}, "warps": 4}]}}}

A kernel has an entry for each set of macros that are not chosen, and of options. `text` is the digest of what is compiled,
without the macros that are chosen: choices of another text do not count, and the next choice takes their place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..texts import TritonCText

FORMAT = 1
MAX_BYTES = 1 << 24
"""Most bytes that are read."""

Key = tuple[tuple[str, int], ...]
"""(parameter, value) of the integer arguments that a choice holds for."""
Choice = tuple[tuple[tuple[str, str], ...], int]
"""The macros that were chosen with their tokens, and the number of warps."""


def digest_of(text: TritonCText, numerics: str) -> str:
    """Return what identifies a text with everything that its configurations have in common."""
    parts = [text.text, sorted(text.defines), text.name, sorted(text.include), text.single_precision_constants, numerics]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def entry_of(kernel: str, text: TritonCText, numerics: str) -> str:
    """Return the name of a kernel's entry, by the macros that are not chosen and the options that are not the usual ones."""
    options = [f"{name}={body}" for name, body in sorted(text.defines)]
    options += ["single_precision_constants"] if text.single_precision_constants else []
    options += [f"numerics={numerics}"] if numerics != "strict" else []
    return " ".join([kernel, ", ".join(options)]).rstrip()


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON file that several processes read and change. kind: the one key besides the format, whose entries they are."""

    path: Path
    kind: str

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads and processes from changing the file between reading and writing.

        The folder is locked: the file is replaced when it is written, and another one beside it would be left behind.
        """
        import fcntl  # which Windows has not: it has no lock files then, and tunes all the same

        try:
            folder = os.open(self._written.parent, os.O_RDONLY)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            os.close(folder)

    @property
    def _written(self) -> Path:
        """The file that is replaced: where the path is a link, what it leads to."""
        return Path(os.path.realpath(self.path))

    def _unwritable(self, error: OSError | UnicodeError) -> UserError:
        reason = error.strerror if isinstance(error, OSError) else None
        return UserError(f"tune: lock file {self.path} cannot be written: {reason or error}")

    def read(self, check: Callable[[object], None]) -> dict[str, Any]:
        """Return the content, without entries if there is no file. Raises `UserError` where `check` raises `ValueError`."""
        try:
            with self.path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return {"format": FORMAT, self.kind: {}}
        except OSError as error:
            raise UserError(f"tune: lock file {self.path} cannot be read: {error.strerror or error}") from None
        try:
            if len(data) > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES} bytes")
            content = json.loads(data)
            if b"\\u" in data:  # half a character, which could not be written again
                json.dumps(content, ensure_ascii=False).encode("utf-8")
            check(content)
        except (ValueError, RecursionError) as error:
            if isinstance(error, UnicodeEncodeError):
                error = ValueError("it has a lone surrogate")
            raise UserError(f"tune: lock file {self.path} is not valid: {error}; fix: delete it, and tune again") from None
        found: dict[str, Any] = content
        return found

    def write(self, entries: Mapping[str, Any]) -> None:
        """Replace the file. Raises `UserError` if it cannot be written."""
        content = {"format": FORMAT, self.kind: dict(sorted(entries.items()))}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        temporary, path = None, self._written
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
            ) as stream:
                temporary = stream.name
                stream.write(text)
            os.chmod(temporary, 0o644)  # a file to commit, not a private one
            os.replace(temporary, path)  # readers see the old content or the new one
            temporary = None
        except (OSError, UnicodeError) as error:
            raise self._unwritable(error) from None
        finally:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)


@dataclass(frozen=True, slots=True)
class LockFile:
    """The choices of one kernel in a file that several kernels may share.

    Attributes:
        kernel: the kernel's entry, see `entry_of`.
        digest: of its text, see `digest_of`.
    """

    path: Path
    kernel: str
    digest: str

    def choice(self, device: str, key: Key) -> Choice | None:
        """Return what was chosen on a device for a key; None if nothing was. Raises `UserError` for a file that is none."""
        for each in self._choices(JsonFile(self.path, "kernels").read(_check)):
            if each["device"] == device and each["key"] == dict(key):
                return tuple(each["defines"].items()), each["warps"]
        return None

    def keep(self, device: str, key: Key, choice: Choice) -> None:
        """Add a choice, or replace the one for the same device and key. Raises `UserError` if that cannot be written."""
        file = JsonFile(self.path, "kernels")
        with file.locked():
            content = file.read(_check)
            others = [each for each in self._choices(content) if (each["device"], each["key"]) != (device, dict(key))]
            new = {"device": device, "key": dict(key), "defines": dict(choice[0]), "warps": choice[1]}
            choices = sorted([*others, new], key=lambda each: (each["device"], list(each["key"].items())))
            file.write({**content["kernels"], self.kernel: {"text": self.digest, "choices": choices}})

    def _choices(self, content: Mapping[str, Any]) -> list[dict[str, Any]]:
        entry = content["kernels"].get(self.kernel)
        return [] if entry is None or entry["text"] != self.digest else entry["choices"]


class ModelLock:
    """The schedules of tuned models in a file, by what identifies a graph, its target, options, and sizes it was measured with:

        {"format": 1, "models": {"encoder 5f0c… cpu znver4 2 threads n=8": {"seconds": 0.0021, "schedule": "[contract_…]\\n…"}}}
    """

    def __init__(self, path: str | Path) -> None:
        self._file = JsonFile(Path(path), "models")

    def schedule(self, key: str) -> str | None:
        """Return the text of a schedule; None if there is none. Raises `UserError` for a file that is none."""
        entry = self._file.read(_check_models)["models"].get(key)
        return None if entry is None else entry["schedule"]

    def keep(self, key: str, schedule: str, seconds: float) -> None:
        """Add a schedule, with the time of a call. Raises `UserError` if that cannot be written."""
        with self._file.locked():
            models = self._file.read(_check_models)["models"]
            self._file.write({**models, key: {"seconds": round(seconds, 9), "schedule": schedule}})


def _check(content: object) -> None:
    """Raise `ValueError` unless the content is what `LockFile` writes."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("kernels"), dict):
        raise ValueError(f"expected format {FORMAT} and kernels")
    for name, entry in content["kernels"].items():
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str) or not isinstance(entry.get("choices"), list):
            raise ValueError(f"kernel {name}: expected text and choices")
        for each in entry["choices"]:
            if not isinstance(each, dict) or not (
                isinstance(each.get("device"), str)
                and type(each.get("warps")) is int
                and _maps_to(each.get("key"), int)
                and _maps_to(each.get("defines"), str)
            ):
                raise ValueError(f"kernel {name}: a choice has a device, a key of integers, defines of texts, and warps")


def _check_models(content: object) -> None:
    """Raise `ValueError` unless the content is what `ModelLock` writes."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("models"), dict):
        raise ValueError(f"expected format {FORMAT} and models")
    for name, entry in content["models"].items():
        if not isinstance(entry, dict) or not isinstance(entry.get("schedule"), str):
            raise ValueError(f"model {name}: expected a schedule")


def _maps_to(value: object, kind: type) -> bool:
    return isinstance(value, dict) and all(type(each) is kind for each in value.values())


__all__ = ["Choice", "Key", "LockFile", "ModelLock", "digest_of", "entry_of"]
