"""Reads stored proofs, which are checked by proving again what they say.

Whoever wrote one is not trusted: it says what is to be proven, and what was found, which is compared with what is found now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from .proof import PROPERTIES, Proof

MAX_LETTERS = 1 << 24
_FREE = ("questions", "steps")
"""What two proofs of the same may differ in. Which sizes are found is the solver's choice, so that is compared, too."""
_FILE, _RECORDED, _DOUBTS = "file", "recorded", "doubts"
_MAKERS = {"joinery": "versions of joinery", "solver": "solvers"}
"""What says who made a proof, as messages have it."""
_SHOWN, _MAX_SHOWN = 60, 4
"""Letters of a value that a message shows, and how many differences."""
_FIX = "fix: joinery prove --output proof.json"


@dataclass(frozen=True, slots=True)
class StoredProof:
    """What a text of `Proof.as_json` says.

    Attributes:
        file: the name of the kernel's file, which lies beside that of the proof; "" if the proof names none.
        data: all of it, but `file`.
    """

    kernel: str
    assume: tuple[str, ...]
    extents: Mapping[str, str]
    grid: tuple[str, ...]
    properties: tuple[str, ...]
    limit: int
    digest: str
    file: str
    data: Mapping[str, object]

    def differences(self, proof: Proof) -> list[str]:
        """Returns what the stored proof says, and a new one does not; what it took to find out may be another number.

        Texts are compared: 1, 1.0 and true are not the same, nor is what is missing and null.
        """
        made = json.loads(proof.as_json())
        compared = [name for name in sorted({*self.data} | {*made}) if name not in (*_FREE, _RECORDED, _DOUBTS)]
        names = [name for name in compared if not _is_equal(self.data, made, name)]
        found = [f"{name} is no number of them" for name in _FREE if not _is_count(self.data.get(name))]
        if not isinstance(self.data.get(_RECORDED), bool):
            found.append(f"{_RECORDED} is neither true nor false")
        doubts = self.data.get(_DOUBTS)  # what was said of a guess; what is proven again is written, as far as anybody knows
        if not isinstance(doubts, list) or not all(isinstance(each, str) for each in doubts):
            found.append(f"{_DOUBTS} is no list of texts")
        found += [f"{_MAKERS.get(name, _short(name))} differ: {_compared(self.data, made, name)}" for name in names]
        if "accesses" in names or "verdicts" in names:
            verdicts = ", ".join([f"{prop} {proof.verdict(prop)}" for prop in proof.properties])
            found.append(f"now it is {verdicts}")
        elif found and {*names} <= _MAKERS.keys():
            found.append("all else is proven now as it was then")
        return found


def read_stored(text: str) -> StoredProof:
    """Reads a stored proof. Raises `UserError` for texts that are none."""
    if len(text) > MAX_LETTERS:
        raise UserError(f"stored proof: {len(text)} letters; at most {MAX_LETTERS} are read; {_FIX}")
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UserError(f"stored proof: no JSON: {_cut(str(error))}; {_FIX}") from None
    if not isinstance(data, dict):
        raise UserError(f"stored proof: expected an object; {_FIX}")
    extents, verdicts, limit = data.get("extents"), data.get("verdicts"), data.get("limit")
    if not _is_texts(extents) or not isinstance(verdicts, dict) or not set(verdicts) <= set(PROPERTIES) or not verdicts:
        raise UserError(f"stored proof: expected extents and verdicts; {_FIX}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit < 1 << 32:
        raise UserError(f"stored proof: expected a limit of steps from 1 to 2**32 - 1; {_FIX}")
    assert isinstance(extents, dict)
    file = _text(data, _FILE) if _FILE in data else ""
    if file and not _is_file_name(file):
        raise UserError(f"stored proof: {_FILE!r} is {_short(file)}; expected the name of a file in the folder of the proof")
    assume, grid = _texts(data, "assume"), _texts(data, "grid")
    kernel, digest = _text(data, "kernel"), _text(data, "digest")
    rest = {name: value for name, value in data.items() if name != _FILE}
    return StoredProof(kernel, assume, extents, grid, tuple(verdicts), limit, digest, file, rest)


def stored_text(proof: Proof, file: str) -> str:
    """Returns the text of a proof that is kept beside the file of its kernel. file: that file's name."""
    return json.dumps({_FILE: file, **json.loads(proof.as_json())}, indent=1, ensure_ascii=False)


def _is_file_name(name: str) -> bool:
    """Returns whether a name is of a file in a folder: a stranger's proof leads to no other place."""
    return name.isprintable() and name not in (".", "..") and not {*name} & {*"/\\:"}


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Returns an object of JSON. Raises `ValueError` where a name stands twice: readers would take one or the other."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} stands there twice")
        found[name] = value
    return found


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no number of JSON")


def _is_equal(one: Mapping[str, object], two: Mapping[str, object], name: str) -> bool:
    """Returns whether two proofs say the same of something, in the same letters."""
    found = _field(one, name)
    return found is not None and found == _field(two, name)


def _field(data: Mapping[str, object], name: str) -> str | None:
    """Returns what a proof says of something, as text; None if it says nothing, or is nested too deeply to be written."""
    try:
        return json.dumps(data[name]) if name in data else None
    except RecursionError:
        return None


def _compared(stored: Mapping[str, object], made: Mapping[str, Any], name: str) -> str:
    """Returns what a stored proof says of something, and a new one."""
    if name not in stored:
        return "the proof says nothing of it"
    if name not in made:
        return "no proof of this version has that"
    one, two = stored[name], made[name]
    if name == "accesses" and isinstance(one, list):
        return _accesses(one, two)
    if name == "verdicts" and isinstance(one, dict):
        rows = [f"{prop}: {_short(one.get(prop))} then, {_short(two[prop])} now" for prop in two if one.get(prop) != two[prop]]
        return _listed(rows) or "in another order"
    if name == "trusted" and isinstance(one, list):
        rows = [f"not now: {_short(each)}" for each in one if each not in two]
        return _listed(rows + [f"new: {_short(each)}" for each in two if each not in one]) or "in another order"
    return f"{_short(one)} then, {_short(two)} now"


def _accesses(stored: Sequence[object], made: Sequence[Mapping[str, Any]]) -> str:
    """Returns which accesses differ, and in what."""
    if len(stored) != len(made):
        return f"{len(stored)} then, {len(made)} now"
    return _listed(list(_different(stored, made)))


def _different(stored: Sequence[object], made: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, (one, two) in enumerate(zip(stored, made, strict=True)):
        if not isinstance(one, dict):
            yield f"number {number} is {_short(one)}"
            continue
        for name in {**two, **one}:
            if not _is_equal(one, two, name):
                where = f"{two.get('property')} of {two.get('operation')} at {two.get('line')}"
                yield f"{where}: {_short(name)} {_short(one.get(name))} then, {_short(two.get(name))} now"


def _listed(rows: list[str]) -> str:
    more = f", and {len(rows) - _MAX_SHOWN} more" if len(rows) > _MAX_SHOWN else ""
    return ", ".join(rows[:_MAX_SHOWN]) + more


def _short(value: object) -> str:
    """Returns a value of a stranger's as it is shown, without most of a long one."""
    try:
        return _cut(value if isinstance(value, str) else json.dumps(value))
    except RecursionError:
        return "what is nested too deeply"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)


def _text(data: Mapping[str, object], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise UserError(f"stored proof: {name!r} is {_short(value)}; expected a text; {_FIX}")
    return value


def _texts(data: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = data.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise UserError(f"stored proof: {name!r} is {_short(value)}; expected texts; {_FIX}")
    return tuple(value)


__all__ = ["MAX_LETTERS", "StoredProof", "read_stored", "stored_text"]
