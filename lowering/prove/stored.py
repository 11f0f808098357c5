"""Reads stored proofs, which are checked by proving again what they say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from .proof import PROPERTIES, Proof

_MAX_LETTERS = 1 << 24
_FREE = ("questions", "steps")
"""What two proofs of the same may differ in. Which sizes are found is the solver's choice, so that is compared, too."""


@dataclass(frozen=True, slots=True)
class StoredProof:
    """What a text of `Proof.as_json` says.

    Attributes:
        data: all of it.
    """

    assume: tuple[str, ...]
    extents: Mapping[str, str]
    grid: tuple[str, ...]
    properties: tuple[str, ...]
    limit: int
    digest: str
    data: Mapping[str, object]

    def differences(self, proof: Proof) -> list[str]:
        """Returns what the stored proof says, and a new one does not; what it took to find out may be another number.

        Texts are compared: 1, 1.0 and true are not the same, nor is what is missing and null.
        """
        made = json.loads(proof.as_json())
        names = sorted({*self.data} | {*made})
        found = [f"{name} differ" for name in names if name not in _FREE and not _is_equal(self.data, made, name)]
        found += [f"{name} is no number of them" for name in _FREE if not _is_count(self.data.get(name))]
        if "accesses differ" in found or "verdicts differ" in found:
            verdicts = ", ".join([f"{prop} {proof.verdict(prop)}" for prop in proof.properties])
            found.append(f"now it is {verdicts}")
        return found


def read_stored(text: str) -> StoredProof:
    """Reads a stored proof. Raises `UserError` for texts that are none."""
    if len(text) > _MAX_LETTERS:
        raise UserError(f"stored proof: {len(text)} letters; at most {_MAX_LETTERS} are read")
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UserError(f"stored proof: no JSON: {error}; fix: joinery prove --format json > proof.json") from None
    if not isinstance(data, dict):
        raise UserError("stored proof: expected an object; fix: joinery prove --format json > proof.json")
    extents, verdicts, limit = data.get("extents"), data.get("verdicts"), data.get("limit")
    if not _is_texts(extents) or not isinstance(verdicts, dict) or not set(verdicts) <= set(PROPERTIES) or not verdicts:
        raise UserError("stored proof: expected extents and verdicts; fix: joinery prove --format json > proof.json")
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise UserError("stored proof: expected a limit of steps; fix: joinery prove --format json > proof.json")
    assert isinstance(extents, dict)
    assume, grid, digest = _texts(data, "assume"), _texts(data, "grid"), _text(data, "digest")
    return StoredProof(assume, extents, grid, tuple(verdicts), limit, digest, data)


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


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)


def _text(data: Mapping[str, object], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise UserError(f"stored proof: {name!r} is {value!r}; expected a text")
    return value


def _texts(data: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = data.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise UserError(f"stored proof: {name!r} is {value!r}; expected texts")
    return tuple(value)


__all__ = ["StoredProof", "read_stored"]
