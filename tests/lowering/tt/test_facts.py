"""Facts that front ends state of functions: what back ends make of them, and that those of a stranger's text do no harm."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.kernel import lower_kernel
from joinery.lowering.llvm.module import Module
from joinery.lowering.tt.dialect.functions import FuncOp
from joinery.lowering.tt.facts import (
    FACTS,
    RESULTS,
    alias_groups,
    index_bits,
    is_in_program_order,
    is_stoppable,
)
from joinery.lowering.tt.interpret.interpreter import find_function

ALL = "attributes {joinery.program_order = false, joinery.index_bits = 64 : i32, joinery.stoppable = false}"
P, B = "tensor<16x!tt.ptr<i32>>", "tensor<16xi32>"
SWAP = f"""
tt.func public @swap(%x: !tt.ptr<i32> X, %y: !tt.ptr<i32> X) FACTS {{
  %r = tt.make_range {{start = 0 : i32, end = 16 : i32}} : {B}
  %xs = tt.splat %x : !tt.ptr<i32> -> {P}
  %ys = tt.splat %y : !tt.ptr<i32> -> {P}
  %px = tt.addptr %xs, %r : {P}, {B}
  %py = tt.addptr %ys, %r : {P}, {B}
  %a = tt.load %px : {P}
  %b = tt.load %py : {P}
  tt.store %px, %b : {P}
  tt.store %py, %a : {P}
  tt.return
}}
"""


def swap(facts: str = "", parameters: str = "") -> str:
    return SWAP.replace("FACTS", facts).replace("X", parameters)


def host_code(text: str) -> str:
    """Code of a function whose front end is trusted, for launches of which nothing was found out."""
    module = Module()
    lower_kernel(module, find_function(parse(text), None), "kernel", host_target())
    return module.text()


def function_of(text: str) -> FuncOp:
    return find_function(parse(text), None)


# What is stated


def test_a_function_that_states_nothing_is_taken_for_the_worst() -> None:
    plain, stated = function_of(swap()), function_of(swap(ALL, "{joinery.noalias}"))
    assert (is_in_program_order(plain), is_stoppable(plain), index_bits(plain)) == (True, True, 32)
    assert (is_in_program_order(stated), is_stoppable(stated), index_bits(stated)) == (False, False, 64)
    assert alias_groups(plain) == ((0, 0), (1, 0))
    assert alias_groups(stated) == ()
    assert alias_groups(function_of(swap().replace("%y: !tt.ptr<i32> ", "%y: !tt.ptr<i32> {joinery.noalias}"))) == ()


def test_the_host_takes_facts_from_whoever_states_them() -> None:
    """Each changes the code; what it changes is known of the order of accesses, and of status words."""
    plain = host_code(swap())
    for facts, parameters in (
        ("attributes {joinery.program_order = false}", ""),
        ("attributes {joinery.stoppable = false}", ""),
        ("", "{joinery.noalias}"),
    ):
        assert host_code(swap(facts, parameters)) != plain
    assert host_code(swap("attributes {joinery.program_order = true, joinery.stoppable = true}")) == plain
    assert "alloca" not in host_code(swap(ALL))  # b is not kept before x is written: the front end says that nobody can tell


def test_graphs_state_what_holds_of_them() -> None:
    graph = jn.Graph("g")
    x = graph.input("float32", ("n",), name="x")
    graph.output(jn.tanh(x) + x)
    text = jn.compile(graph, "cpu", cache=False).kernels[0].ttir
    facts = ("joinery.program_order = false", "joinery.index_bits = 64 : i32", "joinery.stoppable = false", "joinery.noalias")
    assert [fact for fact in facts if fact not in text] == []


# What a text says


def lies(text: str) -> list[str]:
    """The text with facts that do not hold."""
    parameters = ("", "{joinery.noalias}")
    return [text.replace("FACTS", facts).replace("X", each) for facts in ("", ALL) for each in parameters]


@pytest.mark.parametrize("target", ["host", "sm_80"])
def test_facts_of_a_text_change_no_code(target: str) -> None:
    codes = {jn.kernel.from_ttir(text).llvm_ir(target) for text in lies(SWAP)}
    assert len(codes) == 1


@pytest.mark.parametrize("is_same", [False, True])
def test_a_swap_swaps_whatever_its_text_says(is_same: bool) -> None:
    for text in lies(SWAP):
        x = np.arange(16, dtype=np.int32)
        y = x if is_same else np.arange(16, 32, dtype=np.int32)
        jn.kernel.from_ttir(text).launch((1,), x, y)
        np.testing.assert_array_equal(x, np.arange(16) + (0 if is_same else 16))
        np.testing.assert_array_equal(y, np.arange(16))


def test_a_text_that_says_it_cannot_stop_stops() -> None:
    text = """
tt.func public @f(%n: i32) FACTS {
  %zero = arith.constant 0 : i32
  %good = arith.cmpi eq, %n, %zero : i32
  tt.assert %good, "n is 0" : i1
  tt.return
}
"""
    for facts in ("", ALL):
        with pytest.raises(jn.KernelAssertionError, match="n is 0"):
            jn.kernel.from_ttir(text.replace("FACTS", facts)).launch((1,), 1)


def test_offsets_that_wrap_are_found_whatever_the_text_says() -> None:
    text = f"""
tt.func public @f(%x: !tt.ptr<i32>, %n: i32) FACTS {{
  %r = tt.make_range {{start = 0 : i32, end = 16 : i32}} : {B}
  %ns = tt.splat %n : i32 -> {B}
  %at = arith.muli %r, %ns : {B}
  %xs = tt.splat %x : !tt.ptr<i32> -> {P}
  %p = tt.addptr %xs, %at : {P}, {B}
  tt.store %p, %r : {P}
  tt.return
}}
"""
    for facts in ("", ALL):
        kernel = jn.kernel.from_ttir(text.replace("FACTS", facts))
        x = np.zeros(64, np.int32)
        kernel.launch((1,), x, 2)
        np.testing.assert_array_equal(x[:32:2], np.arange(16))
        with pytest.raises(jn.JoineryError, match=r"2\*\*31"):
            kernel.launch((1,), x, 1 << 30)


COPY = """
tt.func public @copy(%x: !tt.ptr<i32> X, %y: !tt.ptr<i32> X, %n: i32 X) {
  %r = tt.make_range {start = 0 : i32, end = 1024 : i32} : tensor<1024xi32>
  %ns = tt.splat %n : i32 -> tensor<1024xi32>
  %low = arith.cmpi slt, %r, %ns : tensor<1024xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>>
  %ys = tt.splat %y : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>>
  %px = tt.addptr %xs, %r : tensor<1024x!tt.ptr<i32>>, tensor<1024xi32>
  %py = tt.addptr %ys, %r : tensor<1024x!tt.ptr<i32>>, tensor<1024xi32>
  %a = tt.load %px, %low : tensor<1024x!tt.ptr<i32>>
  tt.store %py, %a, %low : tensor<1024x!tt.ptr<i32>>
  tt.return
}
"""


@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
@pytest.mark.parametrize(("n", "skew"), [(1008, 0), (7, 0), (7, 1), (1001, 3)])
def test_what_arguments_are_said_to_be_multiples_of_is_looked_at(device: str, n: int, skew: int) -> None:
    """The text says 16 of addresses and numbers: its code moves four elements at a time, and only where that is true."""
    kernel = jn.kernel.from_ttir(COPY.replace("X", "{tt.divisibility = 16 : i32}"))
    assert "ld.global.v4" in kernel.ptx("sm_80")
    assert "ld.global.v4" not in jn.kernel.from_ttir(COPY.replace("X", "")).ptx("sm_80")
    x, y = np.arange(1200, dtype=np.int32), np.zeros(1200, np.int32)
    kernel.launch((1,), x[skew : skew + 1024], y[skew : skew + 1024], n, device=device)
    expected = np.zeros(1200, np.int32)
    expected[skew : skew + n] = x[skew : skew + n]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name", [*FACTS, *RESULTS])
def test_nothing_of_a_text_that_must_be_true_is_left(name: str) -> None:
    text = COPY.replace("X", f"{{{name}}}").replace(
        "%ns = tt.splat %n :", f"%ns = tt.splat %n {{{name}}} :"
    ).replace(") {\n", f") attributes {{{name}}} {{\n")
    kernel = jn.kernel.from_ttir(text)
    assert kernel.ttir.count(name) == 5
    assert name not in kernel.ttir_after("drop-claims")
