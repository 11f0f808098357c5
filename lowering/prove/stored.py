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
        """Returns what the stored proof says, and a new one does not; what it took to find out may differ."""
        made = json.loads(proof.as_json())
        names = sorted(({*self.data} | {*made}) - {*_FREE})
        found = [f"{name} differ" for name in names if self.data.get(name) != made.get(name)]
        if "accesses differ" in found or "verdicts differ" in found:
            verdicts = ", ".join([f"{prop} {proof.verdict(prop)}" for prop in proof.properties])
            found.append(f"now it is {verdicts}")
        return found


def read_stored(text: str) -> StoredProof:
    """Reads a stored proof. Raises `UserError` for texts that are none."""
    if len(text) > _MAX_LETTERS:
        raise UserError(f"stored proof: {len(text)} letters; at most {_MAX_LETTERS} are read")
    try:
        data = json.loads(text)
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
