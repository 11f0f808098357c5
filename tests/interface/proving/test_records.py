"""Records of proofs: found again for the same alone, and never in place of a proof where anything is wrong with them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.interface.proving import proving, records
from joinery.lowering.prove.proof import Proof
from joinery.runtime.storage.cache import CompileCache

from ...support.proving.kernels import SUBJECTS

GRID, EXTENTS = "cdiv(n, 4)", {"x": "n"}


def kernel(name: str = "vector", text: str = "") -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(text or SUBJECTS[name].text, cache=False)


def prove(store: CompileCache, of: jn.kernel.Kernel | None = None, **more: Any) -> Proof:
    arguments: dict[str, Any] = {"grid": GRID, "extents": EXTENTS, "properties": ("bounds",), "cache": store, **more}
    return (of or kernel()).prove(**arguments)


@pytest.fixture
def store(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "cache")


def entries(store: CompileCache) -> list[Path]:
    return sorted(store.directory.glob("*.entry"))


def test_the_same_is_found_and_says_so(store: CompileCache) -> None:
    first, second = prove(store), prove(store)
    assert (first.recorded, second.recorded) == (False, True)
    assert (second.accesses, second.assumptions, second.example) == (first.accesses, first.assumptions, first.example)
    assert second.specification == first.specification
    assert "recorded: nothing was proven now" in str(second)
    assert "recorded" not in str(first)
    assert json.loads(second.as_json()) == {**json.loads(first.as_json()), "recorded": True}
    assert "recorded, and not proven anew" in second.as_html()


def test_nothing_is_kept_without_being_asked(store: CompileCache) -> None:
    of = jn.kernel.from_ttir(SUBJECTS["vector"].text, cache=store)
    assert not of.prove(grid=GRID, extents=EXTENTS).recorded
    assert not entries(store)
    assert not prove(store).recorded
    assert not of.prove(grid=GRID, extents=EXTENTS).recorded


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "other",
    [
        {"extents": {"x": "n - 1"}}, {"grid": ("cdiv(n, 4)", 2)}, {"assume": ["n >= 1"]}, {"properties": ("races",)},
        {"properties": ("bounds", "races")}, {"limit": 1_000_000},
        {"of": kernel("mask_of_too_many")},
        {"of": kernel(text=SUBJECTS["vector"].text.replace("slt", "ult"))},
        {"of": kernel(text=SUBJECTS["vector"].text + "\n")},
    ],
    ids=lambda other: str(other)[:40],
)  # fmt: skip
def test_what_differs_in_anything_is_proven_anew(other: dict[str, Any], store: CompileCache) -> None:
    prove(store)
    assert not prove(store, **other).recorded


@pytest.mark.parametrize("part", range(5))
def test_another_prover_proves_anew(part: int, store: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    prove(store)
    parts = list(records._prover())
    parts[part] += "."
    monkeypatch.setattr(records, "_prover", lambda: tuple(parts))
    assert not prove(store).recorded


def test_sources_that_changed_since_they_were_loaded_record_nothing(
    store: CompileCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove(store)
    younger = tmp_path / "rule.py"
    younger.write_text("")
    sources = [*records._sources(), str(younger)]
    monkeypatch.setattr(records, "_sources", lambda: sources)
    assert not prove(store).recorded
    os.utime(younger, (1, 1))
    assert prove(store).recorded


def test_sources_are_told_apart_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, found = tmp_path / "rule.py", set()
    monkeypatch.setattr(records, "_sources", lambda: [str(rule)])
    for text in ("a <  b", "a <= b"):  # of one size, and with one time
        rule.write_text(text)
        os.utime(rule, (1, 1))
        found.add(records._prover.__wrapped__())
    assert len(found) == 2


def test_refutations_are_run_each_time(store: CompileCache) -> None:
    of = kernel("mask_of_too_many")
    for _ in range(2):
        found = prove(store, of)
        assert found.verdict("bounds") == "refuted"
        assert not found.recorded
    assert not entries(store)


def test_a_damaged_record_is_no_proof(store: CompileCache) -> None:
    whole = prove(store).accesses
    (entry,) = entries(store)
    content = entry.read_bytes()
    damaged = [content[:end] for end in range(0, len(content), 150)]
    damaged += [content.replace(b'"proven"', b'"never executed"'), content + b" ", b""]
    at = len(content) - 20
    damaged += [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]]
    for each in damaged:
        entry.write_bytes(each)
        found = prove(store)
        assert not found.recorded
        assert found.accesses == whole
        assert entry.read_bytes() == content  # it is written anew


def test_a_record_of_another_kernel_is_no_proof(store: CompileCache) -> None:
    """A file that is copied to the place of another one, with the envelope made to fit."""
    prove(store)
    (entry,) = entries(store)
    data = store.get_bytes(stored_key(store, entry))
    faulty = kernel("mask_of_too_many")
    keys: list[str] = []
    original = store.get_bytes
    store.get_bytes = lambda key: keys.append(key) or original(key)  # type: ignore[method-assign, func-returns-value]
    prove(store, faulty)
    shutil.copy(entry, store._path(keys[0]))
    assert prove(store, faulty).verdict("bounds") == "refuted"
    assert data is not None
    store.put_bytes(keys[0], data)
    assert prove(store, faulty).verdict("bounds") == "refuted"


def stored_key(store: CompileCache, entry: Path) -> str:
    content = entry.read_bytes()
    return content[56 : 56 + int.from_bytes(content[12:16], "little")].decode()


def spoilt(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    row = data["accesses"][0]
    wrong = [(0, "races"), (4, "certain"), (4, "refuted"), (4, "proven under"), (4, None), (5, "n < 3"), (5, ["n < 3"])]
    for at, value in wrong:
        yield {**data, "accesses": [[*row[:at], value, *row[at + 1 :]]]}
    for name in ("accesses", "assumptions", "example", "questions", "steps", "key"):
        for value in (None, 3.5, "x", "", [[]], [1], {"n": "1"}, -1, True):
            yield {**data, name: value}
        yield {each: found for each, found in data.items() if each != name}
    yield {**data, "accesses": [row[:-1]]}


def test_a_record_with_anything_else_in_it_is_no_proof(store: CompileCache) -> None:
    """As if somebody wrote it with the right digest."""
    whole = prove(store).accesses
    (entry,) = entries(store)
    key = stored_key(store, entry)
    content = store.get_bytes(key)
    assert content is not None
    held = records.Records(store, *_made_of(kernel()))
    specification, properties, limit = proving.Specification.of([], EXTENTS, GRID), ("bounds",), 2_000_000
    assert held.proof(specification, properties, limit) is not None
    for data in spoilt(json.loads(content)):
        store.put_bytes(key, json.dumps(data).encode())
        assert held.proof(specification, properties, limit) is None, data
    for text in (b"", b"[]", b"{", b"[" * 100_000, b"\xff"):
        store.put_bytes(key, text)
        assert held.proof(specification, properties, limit) is None
    assert prove(store).accesses == whole


MULTIPLIED = """
tt.func public @k(%x: !tt.ptr<i32>, %n: i32, %m: i32) {
  %p = tt.get_program_id x : i32
  %i = arith.muli %p, %m : i32
  %at = tt.addptr %x, %i : !tt.ptr<i32>, i32
  tt.store %at, %p : !tt.ptr<i32>
  tt.return
}
"""


def test_a_launch_that_breaks_a_condition_is_kept_with_it_and_nothing_like_it_is(store: CompileCache) -> None:
    of = kernel(text=MULTIPLIED)
    asked: dict[str, Any] = {"assume": ["m >= 1"], "grid": "n", "extents": {"x": "n * m"}, "properties": ("overflow",)}
    first, second = prove(store, of, **asked), prove(store, of, **asked)
    assert (first.recorded, second.recorded) == (False, True)
    assert first.accesses[0].counterexample is not None
    assert second.accesses == first.accesses
    assert str(second.accesses[0]) == str(first.accesses[0])
    (entry,) = entries(store)
    key = stored_key(store, entry)
    data = json.loads(store.get_bytes(key) or b"")
    held = records.Records(store, *_made_of(of))
    specification = proving.Specification.of(asked["assume"], asked["extents"], asked["grid"])
    assert held.proof(specification, ("overflow",), 2_000_000) is not None
    row = data["accesses"][0]
    sizes, grid, contents, seen = row[-1]
    spoilt_examples: list[Any] = [
        1, [], [sizes, grid, contents], [[["n", "1"]], grid, contents, seen], [[["n"]], grid, contents, seen],
        [sizes, grid[:2], contents, seen], [sizes, [1, 2, 3.0], contents, seen], [sizes, grid, {}, seen],
        [sizes, grid, contents, seen[:-1]], [sizes, grid, contents, [1, *seen[1:]]],
        [sizes, grid, contents, [*seen[:3], None, seen[4]]], [sizes, grid, contents, [*seen[:4], [True]]],
    ]  # fmt: skip
    rows = [[*row[:-1], each] for each in spoilt_examples]
    rows += [[*row[:4], "proven", [], "", row[-1]], [*row[:4], "unknown", [], "", row[-1]]]
    for each in rows:
        store.put_bytes(key, json.dumps({**data, "accesses": [each]}).encode())
        assert held.proof(specification, ("overflow",), 2_000_000) is None, each


def _made_of(of: jn.kernel.Kernel) -> tuple[int, bytes, str, str]:
    return of.prove._loaded, of._source.identity(), of.prove._digest, of.name


def test_a_folder_that_others_may_write_to_is_not_believed(store: CompileCache) -> None:
    prove(store)
    store.directory.chmod(0o777)
    opened = CompileCache(store.directory)
    assert not prove(opened).recorded
    assert "others may write" in str(opened.problem)


def test_guesses_are_kept_and_hold_in_their_launch(store: CompileCache) -> None:
    arguments = np.zeros(10, np.float32), 10
    found = [kernel().prove.like(3, *arguments, cache=store) for _ in range(2)]
    assert [each.recorded for each in found] == [False, True]
    assert found[0].specification == found[1].specification
    before = len(entries(store))
    assert kernel().prove.like(4, np.zeros(13, np.float32), 13, cache=store).recorded  # another guess, of which the same came
    assert len(entries(store)) == before + 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "wrong",
    [
        {"extents": {"x": "n + 1"}}, {"extents": {"y": "n"}}, {"grid": "1"}, {"grid": "k"}, {"assume": ["n >= 11"]},
        {"assume": 3},
    ],
)  # fmt: skip
def test_a_guess_that_does_not_hold_is_made_anew(wrong: dict[str, Any], store: CompileCache) -> None:
    arguments = np.zeros(10, np.float32), 10
    right = kernel().prove.like(3, *arguments, cache=store).specification
    for entry in entries(store):
        key = stored_key(store, entry)
        data = json.loads(store.get_bytes(key) or b"")
        if "grid" in data:
            store.put_bytes(key, json.dumps({**data, **wrong}).encode())
    assert kernel().prove.like(3, *arguments, cache=store).specification == right


def test_verifying_looks_into_no_cache(store: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    prove(store)
    stored = prove(store).as_json()
    monkeypatch.setattr(records.Records, "proof", None)
    assert not kernel().prove.verify(stored).recorded
