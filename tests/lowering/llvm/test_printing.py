"""What is printed of a function whose instructions are numbered: once where it dominates, and only what is used."""

from __future__ import annotations

import gc
import sys
import types

import llvmlite.binding as llvm
import pytest
from joinery.lowering.gc_paused import gc_paused, loading_modules
from joinery.lowering.llvm.ir import Function
from joinery.lowering.llvm.module import Module
from joinery.lowering.llvm.values import V, const


def function(numbering: bool = True) -> Function:
    return Function(Module(), "f", [("i32", "a"), ("i32", "b"), ("i1", "c"), ("ptr", "p")], numbering=numbering)


def printed(f: Function) -> str:
    """The text, which LLVM accepts."""
    f.ret()
    f.module.add(f)
    text = f.module.text()
    llvm.parse_assembly(text).verify()
    return text


def keep(f: Function, value: V) -> None:
    f.store(value, f.params[3])


def test_an_instruction_is_printed_once() -> None:
    f = function()
    a, b, *_ = f.params
    keep(f, f.binary("mul", f.add(a, b), f.add(a, b)))
    assert printed(f).count(" add ") == 1
    f = function(numbering=False)
    a, b, *_ = f.params
    keep(f, f.binary("mul", f.add(a, b), f.add(a, b)))
    assert printed(f).count(" add ") == 2


def test_it_is_printed_again_where_the_first_does_not_dominate() -> None:
    f = function()
    a, b, c, _ = f.params
    with f.when(c):
        keep(f, f.add(a, b))
    keep(f, f.add(a, b))
    with f.when(c):
        keep(f, f.add(a, b))  # the second is known here
    assert printed(f).count(" add ") == 2


def test_a_block_of_unknown_origin_knows_nothing() -> None:
    f = function()
    a, b, c, _ = f.params
    f.cond_branch(c, "one", "two")
    for label in ("one", "two"):
        f.start(label)
        keep(f, f.add(a, b))
        f.branch("end")
    f.start("end")
    assert printed(f).count(" add ") == 2


def test_loads_and_calls_are_printed_as_often_as_they_are_asked_for() -> None:
    f = function()
    for _ in range(2):
        keep(f, f.load("i32", f.params[3]))
    assert printed(f).count(" load ") == 2


def test_deferred_values_are_printed_where_they_were_made_if_they_are_used() -> None:
    f = function()
    a, b, c, _ = f.params
    used = f.deferred("i32", lambda: f.binary("shl", a, b))
    f.deferred("i32", lambda: f.binary("sdiv", a, b))
    with f.when(c):
        keep(f, used)
    keep(f, used)
    text = printed(f)
    assert text.count(" shl ") == 1
    assert text.index(" shl ") < text.index("br i1")
    assert "sdiv" not in text


def test_deferred_values_ask_for_each_other() -> None:
    f = function()
    a, b, c, _ = f.params
    first = f.deferred("i32", lambda: f.binary("shl", a, b))
    second = f.deferred("i32", lambda: f.binary("xor", first, f.binary("shl", a, b)))
    with f.when(c):
        keep(f, second)
    assert printed(f).count(" shl ") == 2  # what is printed later is not looked up


def test_carried_values_that_nobody_reads_have_no_phi() -> None:
    f = function()
    a, b, *_ = f.params
    f.branch("head")
    f.start("head", dominated=True)
    counter, dead, alive = (f.carried("i32") for _ in range(3))
    slot = len(f.lines)
    f.lines.append("")
    f.cond_branch(f.icmp("slt", counter, b), "body", "done")
    f.start("body", dominated=True)
    with f.scope():
        following = [
            f.add(counter, const(1, "i32")),
            f.deferred("i32", lambda: f.binary("mul", dead, b)),  # only itself reads it
            f.deferred("i32", lambda: f.binary("xor", alive, counter)),
        ]
        f.branch("head")
    f.join(slot, zip([counter, dead, alive], [const(0, "i32"), a, a], following, strict=True), "entry", "body")
    f.start("done", dominated=True)
    keep(f, alive)  # after the loop
    text = printed(f)
    assert text.count(" phi ") == 2
    assert " xor " in text
    assert " mul " not in text


def test_a_trial_leaves_nothing_but_what_it_asked_for() -> None:
    f = function()
    a, b, *_ = f.params
    before = f.deferred("i32", lambda: f.binary("shl", a, b))
    with f.trial():
        keep(f, f.add(before, f.binary("mul", a, b)))
    keep(f, f.binary("mul", a, b))
    text = printed(f)
    assert text.count(" mul ") == 1
    assert " add " not in text
    assert text.count(" shl ") == 1


def test_garbage_collection_rests_and_goes_on() -> None:
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    try:
        with gc_paused():
            raise ValueError
    except ValueError:
        assert gc.isenabled()


def test_the_heap_is_only_gone_through_when_a_module_came(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda name=name: calls.append(name))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: len(calls))
    with loading_modules():
        pass
    assert calls == []
    with loading_modules(), loading_modules():
        monkeypatch.setitem(sys.modules, "a_module_of_this_test", types.ModuleType("a_module_of_this_test"))
    assert calls == ["freeze", "unfreeze"]
    with loading_modules():  # somebody has frozen objects
        monkeypatch.setitem(sys.modules, "another_module_of_this_test", types.ModuleType("another_module_of_this_test"))
    assert calls == ["freeze", "unfreeze"]
