"""What is kept between runs of the tests is what LLVM would make now, and two compilations in a test are two."""

from __future__ import annotations

from pathlib import Path

import pytest
from joinery.lowering.llvm import compile as host
from joinery.lowering.llvm import compile_ptx as gpu

from ..support import kept_code
from ..support.kept_code import Kept

TEXT = "define i32 @f(i32 %x) {\n  ret i32 %x\n}\n"


class Maker:
    """Counts how often it makes something; each time something else."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bytes:
        self.count += 1
        return b"%d" % self.count


def test_a_later_run_finds_what_an_earlier_one_made(tmp_path: Path) -> None:
    make = Maker()
    assert Kept(tmp_path, host).found(("a",), make) == b"1"
    assert Kept(tmp_path, host).found(("a",), make) == b"1"
    assert make.count == 1


def test_a_run_makes_it_again_when_it_asks_again(tmp_path: Path) -> None:
    make = Maker()
    for kept, first in ((Kept(tmp_path, host), b"1"), (Kept(tmp_path, host), b"2")):
        assert kept.found(("a",), make) == first  # what was made last is kept
        made = make.count
        assert kept.found(("a",), make) == b"%d" % (made + 1)


def test_other_facts_and_other_code_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    Kept(tmp_path, host).found(("a", "b"), make)
    for facts in (("a",), ("ab",), ("a", "c"), ("b", "a"), ("a', 'b",)):
        made = make.count
        assert Kept(tmp_path, host).found(facts, make) == b"%d" % (made + 1)
    made = make.count
    Kept(tmp_path, gpu).found(("a", "b"), make)
    monkeypatch.setattr(kept_code.llvmlite, "__version__", "0")
    Kept(tmp_path, host).found(("a", "b"), make)
    assert make.count == made + 2


def test_what_is_damaged_is_made_anew(tmp_path: Path) -> None:
    make = Maker()
    Kept(tmp_path, host).found(("a",), make)
    (entry,) = tmp_path.glob("*.entry")
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    entry.write_bytes(data)
    assert Kept(tmp_path, host).found(("a",), make) == b"2"


def test_levels_and_bounds_that_a_test_sets_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    for module, name in (
        (kept_code.host_stages, "compile_object"), (kept_code.launcher, "compile_object"),
        (kept_code.gpu_stages, "compile_ptx"), (kept_code.gpu_code, "compile_ptx"), (kept_code.library, "emit_object"),
        (kept_code.native_code, "kept"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, None)  # so that both are put back
    monkeypatch.setattr(host, "compile_object", lambda text, target, level: calls.append(level) or b"")
    monkeypatch.setattr(gpu, "compile_ptx", lambda text, target, linked: calls.append(gpu.MAX_INLINED) or "")
    target = host.host_target()
    for level in (1, 2):
        kept_code.install(tmp_path)  # as another run does
        kept_code.host_stages.compile_object(TEXT, target, level)
    for bound in (7, 8):
        monkeypatch.setattr(gpu, "MAX_INLINED", bound)
        kept_code.install(tmp_path)
        kept_code.gpu_code.compile_ptx(TEXT, "sm_80")
    kept_code.install(tmp_path)
    kept_code.launcher.compile_object(TEXT, target)
    kept_code.gpu_stages.compile_ptx(TEXT, "sm_80")
    assert calls == [1, 2, 7, 8]


def test_what_the_runtime_and_harnesses_compile_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    for module, name in (
        (kept_code.host_stages, "compile_object"), (kept_code.launcher, "compile_object"),
        (kept_code.gpu_stages, "compile_ptx"), (kept_code.gpu_code, "compile_ptx"), (kept_code.library, "emit_object"),
        (kept_code.native_code, "kept"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, None)
    monkeypatch.setattr(kept_code.codegen, "emit_object", lambda text: make())
    for _ in range(2):
        kept_code.install(tmp_path)  # as another run does
        assert kept_code.library.emit_object(TEXT) == b"1"
        assert kept_code.native_code.kept((TEXT,), make) == b"2"
    assert kept_code.library.emit_object(TEXT) == b"3"
    kept_code.begin_test()
    assert kept_code.library.emit_object(TEXT) == b"3"
