"""Reads stored proofs, which are checked by proving again what they say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from .proof import NEVER, PROPERTIES, PROVEN, UNDER, Proof

_MAX_LETTERS = 1 << 24
_SAID = (PROVEN, UNDER, NEVER)


@dataclass(frozen=True, slots=True)
class StoredProof:
    """What a text of `Proof.as_json` says.

    Attributes:
        said: (property, line, operation, array) of accesses, in order, with what is said of them and under which condition.
    """

    assume: tuple[str, ...]
    extents: Mapping[str, str]
    grid: tuple[str, ...]
    properties: tuple[str, ...]
    limit: int
    digest: str
    said: tuple[tuple[tuple[str, str, str, str], str, tuple[str, ...]], ...]

    def differences(self, proof: Proof) -> list[str]:
        """Returns what the stored proof says and a new one does not; the order of accesses is that of the text."""
        made = [((each.prop, each.line, each.operation, each.array), each) for each in proof.accesses]
        found = []
        if [key for key, _ in made] != [key for key, _, _ in self.said]:
            return ["its accesses are not those of the kernel"]
        for (_, verdict, condition), (_, own) in zip(self.said, made, strict=True):
            is_weaker = own.verdict == UNDER and verdict == UNDER and not set(own.condition) <= set(condition)
            if verdict in _SAID and (is_weaker or (own.verdict != verdict and own.verdict not in (PROVEN, NEVER))):
                found.append(f"{own.prop}, {own.line}: {own.operation}: it says {verdict}; now it is {own.verdict}")
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
    accesses = data.get("accesses")
    if not isinstance(accesses, list) or not all(isinstance(each, dict) for each in accesses):
        raise UserError("stored proof: expected accesses; fix: joinery prove --format json > proof.json")
    said = []
    for each in accesses:
        prop, line, operation, array = [_text(each, name) for name in ("property", "line", "operation", "array")]
        said.append(((prop, line, operation, array), _text(each, "verdict"), _texts(each, "condition")))
    assert isinstance(extents, dict)
    return StoredProof(
        _texts(data, "assume"), extents, _texts(data, "grid"), tuple(verdicts), limit, _text(data, "digest"), tuple(said)
    )


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
