"""Stepping through an interpreted run: what a step tells, its order, and that nothing can be changed through it."""

from __future__ import annotations

import dataclasses

import joinery as jn
import numpy as np
import pytest

LOOP = """
module {
  tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %pid = tt.get_program_id y : i32
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %pid) -> (i32) : i32 {
      %next = arith.addi %s, %i : i32 loc("f.py":7:3)
      scf.yield %next : i32
    }
    %p = tt.addptr %o, %pid : !tt.ptr<i32>, i32
    tt.store %p, %sum : !tt.ptr<i32>
    tt.return
  }
}
"""


def test_every_operation_in_its_order() -> None:
    kernel = jn.kernel.from_ttir(LOOP)
    steps = []
    o = np.zeros(2, np.int32)
    kernel.interpret((1, 2), o, 3, trace=steps.append)
    assert o.tolist() == [3, 4]
    expected = [
        "arith.constant",
        "arith.constant",
        "tt.get_program_id",
        *["arith.addi", "scf.yield"] * 3,
        "scf.for",
    ]
    expected += ["tt.addptr", "tt.store", "tt.return"]
    assert [step.name for step in steps] == expected * 2
    assert [step.program for step in steps] == [(0, 0, 0)] * len(expected) + [(0, 1, 0)] * len(expected)
    adds = [step for step in steps if step.name == "arith.addi"]
    assert [(*map(int, step.operands), *map(int, step.results)) for step in adds] == [
        (0, 0, 0), (0, 1, 1), (1, 2, 3), (1, 0, 1), (1, 1, 2), (2, 2, 4),
    ]  # fmt: skip
    assert (adds[0].line, adds[0].text) == ("f.py:7:3", "%next = arith.addi %s, %i : i32")
    store = steps[-2]
    assert (store.results, store.line) == ((), "ttir:11")
    assert int(store.operands[1]) == 4
    assert kernel.ttir.splitlines()[10].strip() == store.text


def test_steps_stay_and_cannot_change_the_run() -> None:
    text = """
module {
  tt.func public @f(%o: !tt.ptr<i32>) {
    %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %p0 = tt.splat %o : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %p = tt.addptr %p0, %r : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    %v = tt.load %p : tensor<4x!tt.ptr<i32>>
    tt.store %p, %r : tensor<4x!tt.ptr<i32>>
    tt.return
  }
}
"""
    steps: list = []
    o = np.full(4, 9, np.int32)
    jn.kernel.from_ttir(text).interpret((1,), o, trace=steps.append)
    loaded = next(step for step in steps if step.name == "tt.load").results[0]
    assert loaded.tolist() == [9] * 4
    with pytest.raises(ValueError, match="read-only"):
        loaded[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        steps[0].name = "x"


def test_what_the_callback_raises_ends_the_run_unchanged() -> None:
    class Stop(Exception):
        pass

    stop = Stop("here")

    def callback(step) -> None:
        if step.name == "tt.addptr" and step.program == (0, 1, 0):
            raise stop

    o = np.zeros(3, np.int32)
    with pytest.raises(Stop) as caught:
        jn.kernel.from_ttir(LOOP).interpret((1, 3), o, 1, trace=callback)
    assert caught.value is stop
    assert o.tolist() == [0, 0, 0]
    assert jn.kernel.from_ttir(LOOP).interpret((1, 3), o, 2) is None
    assert o.tolist() == [1, 2, 3]


def test_reductions_run_on_blocks_of_pairs() -> None:
    text = """
module {
  tt.func public @f(%o: !tt.ptr<i32>) {
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %s = "tt.reduce"(%r) <{axis = 0 : i32}> ({
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      tt.reduce.return %c : i32
    }) : (tensor<8xi32>) -> i32
    tt.store %o, %s : !tt.ptr<i32>
    tt.return
  }
}
"""
    steps: list = []
    jn.kernel.from_ttir(text).interpret((1,), np.zeros(1, np.int32), trace=steps.append)
    assert [step.operands[0].shape for step in steps if step.name == "arith.addi"] == [(4,), (2,), (1,)]
    assert [int(step.results[0]) for step in steps if step.name == "tt.reduce"] == [28]


def test_calls_are_stepped_into() -> None:
    text = """
module {
  tt.func public @f(%o: !tt.ptr<i32>) {
    %c1 = arith.constant 1 : i32
    %v = tt.call @g(%c1) : (i32) -> i32
    tt.store %o, %v : !tt.ptr<i32>
    tt.return
  }
  tt.func private @g(%x: i32) -> i32 {
    %y = arith.addi %x, %x : i32
    tt.return %y : i32
  }
}
"""
    steps: list = []
    jn.kernel.from_ttir(text).interpret((1,), np.zeros(1, np.int32), trace=steps.append)
    assert [step.name for step in steps] == [
        "arith.constant",
        "arith.addi",
        "tt.return",
        "tt.call",
        "tt.store",
        "tt.return",
    ]
