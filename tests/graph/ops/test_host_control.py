"""Loops and branches of the host as text: what the verifier refuses, whoever wrote it."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text

TEXT = """graph "g" semantics "max" policy "lattice"
  %0 = input {index = 0, name = "x"} : float32 [n]
  %1 = input {index = 1, name = "go"} : bool []
  %2 = input {index = 2, name = "most"} : int64 []
  region "body"
    %0 = input {index = 0, name = "i"} : int64 []
    %1 = input {index = 1, name = "going"} : bool []
    %2 = input {index = 2, name = "s"} : float32 [t]
    %3 = input {index = 3, name = "captured0"} : float32 [n]
    %4 = concat(%2, %3) {axis = 0} : float32 [t + n]
    %5 = reduce_sum(%2) {axes = (0), keepdims = false} : float32 []
    %6 = constant {value = hex"00002041"} : float32 []
    %7 = less(%5, %6) : bool []
    output %7 "a"
    output %4 "b"
    output %5 "c"
  end
  %3 = host_loop(%2, %1, %0, %0) {captured = (1), carried = 2, limited = true} : int64 []
  %4 = host_result(%3) {dtype = float32, extents = (<k>), index = 1, shape = (<k>)} : float32 [k]
  %5 = host_result(%3) {dtype = float32, extents = (<r>), index = 2, shape = (<r>)} : float32 [r]
  output %4 "y"
  output %5 "rows"
"""


def read(text: str) -> Any:
    return from_text(text, budget=jn.Budget(open_loops=True))


def test_the_text_is_a_graph() -> None:
    graph = read(TEXT)
    assert to_text(graph)[0] == to_text(read(to_text(graph)[0]))[0]
    x = np.array([1, 2, 3], np.float32)
    for most in (0, 1, 9):
        want, rows = x, []
        while len(rows) < most and want.sum() >= 0 and not (rows and rows[-1] >= 10):
            rows.append(want.sum())
            want = np.concatenate([want, x])
        for run in (jn.compile(graph, device="cpu", cache=False), lambda *given: jn.evaluate(graph, *given)):
            y, sums = run(x, np.array(True), np.array(most))
            np.testing.assert_array_equal(y, want)
            np.testing.assert_array_equal(sums, np.array(rows, np.float32))
        y, sums = jn.evaluate(graph, x, np.array(False), np.array(most))
        assert (y.tolist(), sums.shape) == (x.tolist(), (0,))


WRONG = {
    "no limit": ("limited = true", "limited = false"),
    "too many are carried": ("carried = 2", "carried = 3"),
    "nothing is carried": ("carried = 2", "carried = 0"),
    "captures": ("captured = (1)", "captured = (0)"),
    "two counts": ("captured = (1)", "captured = (1, 0)"),
    "the limit is no integer": ("host_loop(%2, %1", "host_loop(%1, %1"),
    "the condition is no truth": ("host_loop(%2, %1", "host_loop(%2, %2"),
    "the body returns no truth": ('output %7 "a"', 'output %5 "a"'),
    "the body returns another rank": ('output %4 "b"', 'output %5 "b"'),
    "a size is not the body's own": ("float32 [t]\n    %3 = input {index = 3, name = \"captured0\"} : float32 [n]\n"
                                     "    %4 = concat(%2, %3) {axis = 0} : float32 [t + n]",
                                     "float32 [n]\n    %3 = input {index = 3, name = \"captured0\"} : float32 [n]\n"
                                     "    %4 = concat(%2, %3) {axis = 0} : float32 [2*n]"),
    "a result that is not there": ("index = 2, shape", "index = 3, shape"),
    "a negative result": ("index = 2, shape", "index = -1, shape"),
    "a result of another dtype": ('{dtype = float32, extents = (<r>), index = 2, shape = (<r>)} : float32 [r]',
                                  '{dtype = int64, extents = (<r>), index = 2, shape = (<r>)} : int64 [r]'),
    "a result of another rank": ("index = 2, shape = (<r>)} : float32 [r]", "index = 2, shape = ()} : float32 []"),
    "a result of something else": ("host_result(%3) {dtype = float32, extents = (<k>)",
                                   "host_result(%2) {dtype = float32, extents = (<k>)"),
    "an array in the body": ('value = hex"00002041"} : float32 []', 'value = hex"0000204100002041"} : float32 [2]'),
    "a size that nobody knows": ("shape = (<k>)} : float32 [k]", "shape = (<q>)} : float32 [q]"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_contradicts_itself_is_refused(case: str) -> None:
    old, new = WRONG[case]
    assert TEXT.count(old) == 1
    with pytest.raises(jn.UserError, match="graph text"):
        read(TEXT.replace(old, new))


def test_results_of_other_sizes_than_stated_are_errors_of_a_run() -> None:
    """A file may state a size that the loop does not keep."""
    stated = TEXT.replace("extents = (<k>), index = 1, shape = (<k>)} : float32 [k]",
                          "extents = (), index = 1, shape = (<n>)} : float32 [n]")  # fmt: skip
    graph = read(stated)
    given = np.ones(3, np.float32), np.array(True), np.array(2)
    for run in (jn.compile(graph, device="cpu", cache=False), lambda *arrays: jn.evaluate(graph, *arrays)):
        np.testing.assert_array_equal(run(*given[:2], np.array(0))[0], given[0])
        with pytest.raises(jn.UserError, match="host_result: a size is 9, and n is 3"):
            run(*given)


BRANCH = """graph "g" semantics "max" policy "lattice"
  %0 = input {index = 0, name = "x"} : float32 [n]
  %1 = input {index = 1, name = "yes"} : bool []
  region "then"
    %0 = input {index = 0, name = "captured0"} : float32 [n]
    %1 = concat(%0, %0) {axis = 0} : float32 [2*n]
    output %1 "a"
  end
  region "else"
    %0 = input {index = 0, name = "captured0"} : float32 [n]
    %1 = nonzero(%0) {extents = (<z>)} : int64 [1, z]
    %2 = slice(%1) {starts = (0, 0), steps = (1, 1), stops = (1, <z>)} : int64 [1, z]
    %3 = reshape(%2) {shape = (<z>)} : int64 [z]
    %4 = gather(%0, %3) {axis = 0} : float32 [z]
    output %4 "a"
  end
  %2 = host_branch(%1, %0, %0) {captured = (1, 1)} : int64 []
  %3 = host_result(%2) {dtype = float32, extents = (<k>), index = 0, shape = (<k>)} : float32 [k]
  output %3 "y"
  output %2 "which"
"""


def test_a_branch_runs_one_region() -> None:
    graph = read(BRANCH)
    x = np.array([1, 0, 3], np.float32)
    for run in (jn.compile(graph, device="cpu", cache=False), lambda *arrays: jn.evaluate(graph, *arrays)):
        y, number = run(x, np.array(True))
        assert (y.tolist(), int(number)) == ([1, 0, 3, 1, 0, 3], 0)
        y, number = run(x, np.array(False))
        assert (y.tolist(), int(number)) == ([1, 3], 1)
    for old, new in (("host_branch(%1, %0", "host_branch(%0, %0"), ("captured = (1, 1)", "captured = (1, 0)"),
                     ('output %4 "a"', 'output %3 "a"'), ('output %4 "a"', 'output %4 "a"\n    output %4 "b"')):  # fmt: skip
        with pytest.raises(jn.UserError, match="graph text"):
            read(BRANCH.replace(old, new))
