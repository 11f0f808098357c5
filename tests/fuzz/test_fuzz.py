"""Tests the fuzzer: a short run of every kind finds nothing, planted bugs are found and shrunk, and kept cases replay."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm import elementwise
from joinery.lowering.tile import emit
from joinery.lowering.tile.elements import arithmetic, scalar
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.transforms.numerics import contract

from ..support.error_bounds import propagation as error_bounds
from ..support.tiers import both_tiers
from . import graphs, text_cases
from .cases import Settings
from .child import in_child
from .choices import Choices
from .features import of_floats
from .fences import PAGE, fenced
from .kinds import KINDS, kind_named
from .mutations import mutated_text, mutated_tree
from .session import Session, replay
from .shrinking import Budget, shrunk

HOST = Settings(simulate=False)


def session(
    kind: str, folder: Path | None = None, settings: Settings = HOST, tries: int = 20
) -> Session:
    """A session whose cases are made smaller by a number of tries: their time depends on what else the machine does."""
    seconds = 300.0 if tries else 0.0
    return Session(settings, [kind_named(kind)], folder, lambda text: None, shrink_seconds=seconds, shrink_tries=tries)


# -- a short run ----------------------------------------------------------------------------------------------------------

CASES = {"graph": 2, "block": 2, "graph-text": 4, "block-text": 2, "rules": 4, "artifact": 2, "plan": 2, "triton-c": 1,
         "triton-c-text": 4, "onnx": 4, "loop": 1}  # fmt: skip


@pytest.mark.one_in(11)
@both_tiers
@pytest.mark.parametrize("kind", CASES)
def test_a_few_cases_of_every_kind(kind: str, in_full: bool) -> None:
    run = session(kind, settings=Settings(simulate=kind == "graph"), tries=0)
    cases = CASES[kind] if in_full else -(-CASES[kind] // 2)
    totals = run.run(20, cases=cases)
    assert not run.found, run.found[0].fault.text
    assert sum(totals.programs.values()) == cases
    assert totals.elements or kind not in ("graph", "block", "loop")


def test_every_kind_has_a_short_run() -> None:
    assert {kind.name for kind in KINDS} == set(CASES)


# -- planted bugs ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_wrong_op_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(scalar.EMITTERS["@relu"], "float", arithmetic.identity)
    run = session("graph", tmp_path, tries=10)
    number = 0
    while not run.found and number < 450:  # until a graph has that op
        case = Choices(f"x/{number}")
        if "= relu(" in kind_named("graph").generate(case, HOST)["text"]:
            run.attempt(kind_named("graph"), f"x/{number}")
        number += 1
    found = run.found[0]
    assert found.data is not None
    assert "= relu(" in found.data["text"]
    assert len(found.data["text"].splitlines()) <= 10, found.data["text"]
    (path,) = tmp_path.glob("*.json")
    assert replay(path, HOST).faults
    monkeypatch.undo()
    assert not replay(path, HOST).faults


def test_a_mask_that_lets_one_lane_too_many_pass_runs_into_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    mask, compare = emit.Frame.mask, BlockBuilder.cmpi

    def wide(self: Any, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as planted:
            planted.setattr(
                BlockBuilder, "cmpi", lambda b, name, *xs: compare(b, "sle" if name == "slt" else name, *xs)
            )
            return mask(self, *arguments)

    monkeypatch.setattr(emit.Frame, "mask", wide)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (1000,))])
    graph.output(jn.exp(graph.inputs[0]))

    def run() -> None:
        with fenced(at_end=True) as fence:
            model = jn.compile(graph, device="cpu", threads=1, cache=False)
            x = fence.copy(np.ones(1000, np.float32), 4)
            y = fence.empty((1000,), np.float32, 64)
            model.bind(x, outputs=y)()
            assert not fence.damaged()

    assert in_child(run).how == "crashed"
    monkeypatch.undo()
    assert in_child(run).how == "returned"


@pytest.mark.slow
def test_a_wrong_operation_of_blocks_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(elementwise.INSTRUCTION, "arith.xori", "or")
    run, kind = session("block", tries=6), kind_named("block")
    for number in range(100):
        if "arith.xori" in kind.generate(Choices(f"plant/{number}"), HOST)["text"]:
            run.attempt(kind, f"plant/{number}")
        if run.found:
            break
    found = run.found[0]
    assert found.data is not None
    assert "arith.xori" in found.data["text"]
    assert len(found.record) <= 12


@pytest.mark.slow
def test_a_product_that_is_fused_with_the_wrong_sign_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strict numerics never shows this bug."""
    monkeypatch.setattr(contract, "_negative", lambda _, value: value)
    run, kind = session("block", tries=0), kind_named("block")
    for number in range(200):
        if re.search(r"mulf[^\n]*\n[^\n]*subf", kind.generate(Choices(f"fused/{number}"), HOST)["text"]):
            run.attempt(kind, f"fused/{number}")
        if run.found:
            break
    assert {found.fault.where for found in run.found} == {"contract"}


def test_the_sign_of_a_zero_counts_where_it_is_defined() -> None:
    x = np.array([0.0, 1.0], np.float32)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (2,))])
    (a,) = graph.inputs
    graph.output(-a, jn.maximum(-a, 0.0), jn.max(-a * 0, axis=0), jn.flip(-a, 0), jn.cumsum(-a, 0))
    negated, larger, largest, flipped, running = (error_bounds.propagate(graph, x)[symbol.id] for symbol in graph.outputs)
    for node in (negated, larger, flipped, running):
        assert node.holds(node.value).all()
        assert not node.holds(np.where(node.value == 0, -node.value, node.value)).all()
    assert largest.holds(largest.value)
    assert largest.holds(-largest.value)


@pytest.mark.slow
def test_errors_that_are_not_documented_crashes_and_hangs_of_texts_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = kind_named("graph-text")
    for planted, what in ((lambda: [][1], "IndexError"), (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
                          (lambda: time.sleep(60), "no result")):  # fmt: skip
        with monkeypatch.context() as context:
            context.setattr(text_cases, "from_text", lambda *_, run=planted: run())
            run = Session(HOST, [kind], None, lambda text: None, shrink_seconds=0, case_seconds=0.2)
            run.attempt(kind, "planted")
        assert what in run.found[0].fault.what + run.found[0].fault.text


# -- the parts ------------------------------------------------------------------------------------------------------------


def test_fences() -> None:
    for at_end in (True, False):
        with fenced(at_end) as fence:
            array = fence.empty((5,), np.float32, 4)
            assert (array.view(np.uint8) == 0xA5).all()
            at = array.ctypes.data
            beyond = at + array.nbytes if at_end else at - 1
            assert beyond % PAGE in (0, PAGE - 1)
            assert not fence.damaged()

            def touch(address: int) -> int:
                return ctypes.c_uint8.from_address(address).value

            assert in_child(lambda: touch(at)).how == "returned"  # noqa: B023 - called at once
            assert in_child(lambda: touch(beyond)).how == "crashed"  # noqa: B023
            array[...] = 0
            assert not fence.damaged()
            ctypes.c_uint8.from_address(at - 1 if at_end else at + array.nbytes).value = 0
            assert fence.damaged()


def test_children_have_limits() -> None:
    assert in_child(lambda: 7).value == 7
    assert "ZeroDivisionError" in in_child(lambda: 1 // 0).text
    assert "MemoryError" in in_child(lambda: bytearray(1 << 33), memory=1 << 30).text
    assert in_child(lambda: time.sleep(60), seconds=0.1).how == "hung"
    assert "SIGABRT" in in_child(os.abort).text


def test_cases_are_functions_of_their_choices() -> None:
    for kind in KINDS:
        if kind.name in ("artifact", "plan"):  # these compile, and are tested above
            continue
        choices = Choices("same")
        data = kind.generate(choices, HOST)
        assert kind.generate(Choices("same"), HOST) == data
        assert kind.generate(Choices(record=choices.record), HOST) == data
        json.dumps(data)


def test_shrinking_leaves_what_is_needed() -> None:
    wanted = [9, 900]
    found = shrunk(list(range(1000)), lambda numbers: all(n in numbers for n in wanted), Budget(10, 2000))
    assert found == wanted
    assert shrunk([500] * 8, lambda numbers: sum(numbers) >= 137, Budget(10, 2000)) == [137]


def test_mutations_change_something() -> None:
    text = 'graph "g"\n  %0 = slice(%1) {starts = (0, 0), stops = (3, 4)} : float32 [3, n]\n'
    texts = {mutated_text(Choices(str(number)), text) for number in range(200)}
    assert len(texts) > 100
    assert any("starts = (1, 1), stops = (4, 5)" in each for each in texts)
    line = "%2 = arith.addi %1, %1 : i32\n"
    assert line.replace("addi", "xori") in {mutated_text(Choices(str(number)), line) for number in range(400)}
    trees = {
        json.dumps(mutated_tree(Choices(str(number)), {"a": [1, 2, {"b": "c"}], "d": None}))
        for number in range(100)
    }
    assert len(trees) > 40


@pytest.mark.slow
def test_most_bounds_say_something() -> None:
    """Less than half a percent of the results of random graphs are without a bound."""
    elements = unbounded = 0
    for number in range(200):
        choices = Choices(f"bounds/{number}")
        builder = graphs.drawn(choices, bool(number % 2), 400, 9)
        arrays = graphs.arrays_of(choices, builder)
        if any("overflowing" in of_floats(array) for array in arrays if array.dtype.kind not in "biu"):
            continue  # whether their sums are infinite depends on the order
        try:
            nodes = error_bounds.propagate(builder.graph, *arrays)
        except jn.UserError:
            continue
        elements += sum(nodes[symbol.id].value.size for symbol in builder.graph.outputs)
        unbounded += sum(int(nodes[symbol.id].unbounded.sum()) for symbol in builder.graph.outputs)
    assert elements > 2000
    assert unbounded < 0.005 * elements


@pytest.mark.slow
def test_the_command_uses_the_installed_package_once() -> None:
    root = Path(__file__).resolve().parents[2]
    code = (
        "import runpy, sys; sys.argv = ['fuzz', '--cases', '1', '--kind', 'rules', '--shrink-seconds', '0'];\n"
        "try: runpy.run_module('tests.fuzz', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        "assert not [name for name in ('promotion', 'graph', 'lowering', 'runtime', 'compiling') if name in sys.modules]"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^rules +1 ", done.stdout, re.MULTILINE), done.stdout
