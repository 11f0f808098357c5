"""Keeps what was proven and guessed in the folder of compiled code, for the next time that the same is asked.

A record is believed as compiled code is: its folder belongs to the user, nobody else may write there, and its bytes have their
digest. What it stands under is everything that decides a verdict: the kernel's text and the block IR made of it, the
specification, the properties, the limit, the solver, and the bytes of all sources of joinery. A record with a refutation is not
kept: the launch that shows it is run each time.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ...lowering.prove.guessing import Launch
from ...lowering.prove.proof import NEVER, PROVEN, UNDER, UNKNOWN, AccessVerdict, Counterexample, Proof
from ...lowering.prove.specify.specification import Specification
from ...lowering.prove.terms.solver import load_z3
from ...lowering.tt.sanitize.findings import Finding
from ...promotion.errors import JoineryError
from ...runtime.storage.cache import CompileCache

_KEPT = (PROVEN, UNDER, UNKNOWN, NEVER)
_SOURCES = ("lowering", "graph", "promotion", "interface", "runtime")
_ROOT = Path(__file__).resolve().parents[2]
_START = len(str(_ROOT))
_PACKAGES = ("numpy", "xdsl", "z3-solver")


class Records:
    """What was proven of one kernel."""

    def __init__(self, store: CompileCache, loaded: int, identity: bytes, digest: str, name: str) -> None:
        """Look into a store.

        Args:
            loaded: when this process began to load what proves, in ns. Sources that are younger may be others than it has.
            identity: what the block IR is made of; digest: that of the IR, and name: the function.
        """
        self._store = store
        self._loaded = loaded
        self._kernel = [hashlib.sha256(identity).hexdigest(), digest, name]

    def proof(self, specification: Specification, properties: Sequence[str], limit: int) -> Proof | None:
        """Returns a proof that was kept, without what it is about; None if there is none."""
        data = self._read(self._key("proof", _asked(specification, properties, limit)))
        return None if data is None else _proof(data, specification, tuple(properties))

    def keep_proof(self, proof: Proof, limit: int) -> None:
        """Keeps a proof, if nothing is refuted."""
        if proof.refuted:
            return
        accesses = [
            [each.prop, each.line, each.operation, each.array, each.verdict, list(each.condition), each.reason, _data(each)]
            for each in proof.accesses
        ]
        data = {
            "accesses": accesses, "assumptions": list(proof.assumptions), "example": dict(proof.example),
            "questions": proof.questions, "steps": proof.steps, "fixed": list(proof.fixed),
        }  # fmt: skip
        self._write(self._key("proof", _asked(proof.specification, proof.properties, limit)), data)

    def guess(self, launch: Launch, describes: Callable[[Specification, Launch], bool]) -> Specification | None:
        """Returns the specification that was guessed from such a launch; None if there is none that describes it."""
        data = self._read(self._key("guess", _facts(launch)))
        if data is None:
            return None
        try:
            found = Specification.of(data.get("assume"), data.get("extents"), data.get("grid"))
            return found if describes(found, launch) else None
        except (JoineryError, KeyError, ArithmeticError):
            return None

    def keep_guess(self, launch: Launch, guess: Specification) -> None:
        """Keeps a specification that was guessed from a launch."""
        data = {"assume": list(guess.assume), "extents": dict(guess.extents), "grid": list(guess.grid)}
        self._write(self._key("guess", _facts(launch)), data)

    def _key(self, what: str, asked: Sequence[Any]) -> str | None:
        """Returns what a record stands under; None if a source may have changed since this process loaded it."""
        if any(os.stat(path).st_mtime_ns >= self._loaded for path in _sources()):
            return None
        return json.dumps([what, *_prover(), *self._kernel, *asked])

    def _read(self, key: str | None) -> dict[str, Any] | None:
        content = None if key is None else self._store.get_bytes(_name(key))
        if content is None:
            return None
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            return None
        # The whole key is in the record: two that have one name are told apart.
        return data if isinstance(data, dict) and data.get("key") == key else None

    def _write(self, key: str | None, data: Mapping[str, Any]) -> None:
        if key is not None:
            self._store.put_bytes(_name(key), json.dumps({"key": key, **data}).encode())


def _name(key: str) -> str:
    return f"prove {hashlib.sha256(key.encode()).hexdigest()}"


def _asked(specification: Specification, properties: Sequence[str], limit: int) -> list[Any]:
    extents = [list(each) for each in specification.extents]
    return [list(specification.assume), extents, list(specification.grid), list(properties), limit]


def _facts(launch: Launch) -> list[Any]:
    contents = {name: list(bounds) for name, bounds in launch.contents.items()}
    return [dict(launch.numbers), dict(launch.elements), contents, list(launch.grid), sorted(launch.distinct)]


@functools.cache
def _prover() -> tuple[str, ...]:
    """Returns who proves, by the bytes of its sources.

    Times and sizes of files, by which compiled code is found, would do for everything but a rule that was mended by a letter
    in an installation where all files have one time.
    """
    digest = hashlib.sha256()
    for path in _sources():
        content = Path(path).read_bytes()
        digest.update(f"{path[_START:]} {len(content)}\n".encode())
        digest.update(content)
    versions = [metadata.version(package) for package in _PACKAGES]
    return digest.hexdigest(), platform.python_version(), str(load_z3().get_full_version()), *versions


@functools.cache
def _sources() -> list[str]:
    return sorted([str(path) for package in _SOURCES for path in (_ROOT / package).rglob("*.py")])


def _proof(data: Mapping[str, Any], specification: Specification, properties: tuple[str, ...]) -> Proof | None:
    """Returns the proof of a record; None if anything in it is other than it is written."""
    try:
        example = data["example"]
        return Proof(
            "", specification, properties, tuple([_verdict(each, properties) for each in _listed(data["accesses"])]),
            _texts(data["assumptions"]), tuple(sorted([(_text(name), _number(value)) for name, value in example.items()])),
            _count(data["questions"]), _count(data["steps"]), recorded=True, fixed=_texts(data["fixed"]),
        )  # fmt: skip
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def _verdict(row: object, properties: tuple[str, ...]) -> AccessVerdict:
    prop, line, operation, array, verdict, condition, reason, example = _listed(row)
    found = AccessVerdict(
        _text(prop), _text(line), _text(operation), _text(array), _text(verdict), _texts(condition), _text(reason),
        None if example is None else _example(example),
    )  # fmt: skip
    if prop not in properties or verdict not in _KEPT or (verdict == UNDER) != bool(condition):
        raise ValueError
    if example is not None and (verdict != UNDER or prop != "overflow"):
        raise ValueError
    return found


def _data(verdict: AccessVerdict) -> list[Any] | None:
    """Returns the launch in which a number wraps as what a record has of it; None if there is none."""
    example = verdict.counterexample
    if example is None:
        return None
    finding = example.finding
    assert finding.program is not None
    seen = [finding.message, finding.operation, finding.line, list(finding.program), list(finding.lane)]
    return [[list(each) for each in example.sizes], list(example.grid), [list(each) for each in example.contents], seen]


def _example(data: object) -> Counterexample:
    sizes, grid, contents, seen = _listed(data)
    message, operation, line, program, lane = _listed(seen)
    finding = Finding("overflow", _text(message), _text(operation), _text(line), _axes(program), _numbers(lane))
    return Counterexample(_pairs(sizes), _axes(grid), _pairs(contents), finding)


def _pairs(value: object) -> tuple[tuple[str, int], ...]:
    pairs = [_listed(each) for each in _listed(value)]
    return tuple([(_text(name), _number(number)) for name, number in pairs])


def _axes(value: object) -> tuple[int, int, int]:
    x, y, z = _numbers(value)
    return x, y, z


def _numbers(value: object) -> tuple[int, ...]:
    return tuple([_number(each) for each in _listed(value)])


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple([_text(each) for each in _listed(value)])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _count(value: object) -> int:
    if _number(value) < 0:
        raise ValueError
    return _number(value)


__all__ = ["Records"]
