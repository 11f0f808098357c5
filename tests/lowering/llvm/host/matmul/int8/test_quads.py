"""Products of bytes in every form that processors have: exact sums at the ends of int8, and no byte read beyond an operand."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
from typing import Any

import joinery as jn
import llvmlite.binding as llvm
import numpy as np
import pytest
from joinery.lowering.host_stages import compile_object
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.host.matmul.int8.quads import Quads, form_of
from joinery.lowering.llvm.host.matmul.int8.rows import WidenedRows, whole_quads
from joinery.lowering.llvm.module import module_of
from joinery.lowering.target import HostTarget
from joinery.runtime.native.linking import link

from ......support.fenced_arrays import Fenced
from ......support.tiers import pairs

TRIPLE = host_target().triple
SSE = ("cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "popcnt")
AVX2 = (*SSE, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
TARGETS = {
    "vnni": HostTarget(TRIPLE, "icelake-server", frozenset((*AVX512, "avx512vnni")), 64),
    "avx512": HostTarget(TRIPLE, "skylake-avx512", frozenset(AVX512), 64),
    "avxvnni": HostTarget(TRIPLE, "alderlake", frozenset((*AVX2, "avxvnni")), 32),
    "avx2": HostTarget(TRIPLE, "haswell", frozenset(AVX2), 32),
    "sse": HostTarget(TRIPLE, "nehalem", frozenset(SSE), 16),
    "plain": HostTarget("x86_64-unknown-none", "nehalem", frozenset(SSE), 16),
    "dotprod": HostTarget("aarch64-unknown-linux-gnu", "neoverse-n1", frozenset(("neon", "dotprod")), 16),
    "neon": HostTarget("aarch64-unknown-linux-gnu", "cortex-a72", frozenset(("neon",)), 16),
}
FORMS = {"vnni": "vnni", "avx512": "madd", "avxvnni": "vnni", "avx2": "madd", "sse": "madd", "dotprod": "sdot", "neon": "plain"}
INSTRUCTIONS = {"vnni": "vpdpbusd", "avx512": "vpmaddwd", "avxvnni": "vpdpbusd", "avx2": "vpmaddwd", "sse": "pmaddwd",
                "dotprod": "sdot", "neon": "mla"}  # fmt: skip


def _runs_here(name: str) -> bool:
    return name != "plain" and TARGETS[name].is_x86 and TARGETS[name].features <= host_target().features


def _quads(
    name: str, vectors: int, gathered: bool = False, ragged: bool = False, form: Any = None, moved: bool = False
) -> Quads:
    target = TARGETS[name]
    return Quads(form or form_of(target), target.vector_bytes // 4, vectors, target.registers, gathered, ragged, moved=moved)


@pytest.mark.parametrize("name", FORMS)
def test_each_processor_has_its_form(name: str) -> None:
    assert form_of(TARGETS[name]) == FORMS[name]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FORMS)
def test_code_has_the_instruction_and_none_that_saturates(name: str) -> None:
    """Compiled for processors that are not here, too."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = TARGETS[name]
    module = llvm.parse_assembly(module_of(_quads(name, 2, ragged=True)))
    module.verify()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.feature_text, opt=2, reloc="pic", codemodel="small"
    )
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    text = machine.emit_assembly(module)
    assert INSTRUCTIONS[name] in text
    assert "maddubsw" not in text
    assert "vpdpbusds" not in text


@pytest.mark.parametrize(
    ("name", "panel", "tile", "register"),
    [("vnni", _quads("vnni", 4), "jn_quads_vnni_4x16_6", "zmm"), ("avx2", _quads("avx2", 2), "jn_quads_madd_2x8_6", "ymm"),
     ("avx512", _quads("avx512", 4), "jn_quads_madd_4x16_6", "zmm"), ("sse", _quads("sse", 2), "jn_quads_madd_2x4_4", "xmm")],
)  # fmt: skip
def test_no_sum_of_the_widest_tile_leaves_its_register(name: str, panel: Quads, tile: str, register: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = TARGETS[name]
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.cpu, features=target.feature_text, opt=2, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(module_of(panel))
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    text = machine.emit_assembly(module)
    start = text.index(f"{tile}:")
    lines = text[start : text.index(f".size\t{tile}", start)].splitlines()
    assert not [line for line in lines if register in line and "(%rsp)" in line]


@functools.lru_cache(maxsize=256)
def _linked(function: Any, target: HostTarget) -> Any:
    code = link([compile_object(module_of(function), target)], (function.name,), {})
    types = {"ptr": ctypes.c_void_p, "i1": ctypes.c_bool, "i64": ctypes.c_int64}
    return code, ctypes.CFUNCTYPE(None, *[types[name] for name, _ in function.parameters])(code[function.name])


def _run(panel: Quads, target: HostTarget, a: Any, b: Any, start: Any, accumulate: bool, live: int, rows: Any = None) -> Any:
    (m, width), k = start.shape, b.shape[0]
    result = np.ascontiguousarray(start)
    packed = np.full(panel.scratch_bytes(k) + 64, 77, np.uint8)
    first, second = Fenced(a), Fenced(b)
    address, distance = first.address, rows.ctypes.data if panel.gathered else a.shape[1]
    if panel.form == "madd":
        widened = _widened(target, first.address, distance, panel.gathered, (m, k))
        address, distance, panel = widened.ctypes.data, widened.strides[0], dataclasses.replace(panel, gathered=False)
    _, whole = _linked(panel, target)
    whole(address, distance, second.address, b.shape[1], result.ctypes.data, width, m, k, accumulate, packed.ctypes.data, live)
    assert (packed[panel.scratch_bytes(k) :] == 77).all()
    return result


def _widened(target: HostTarget, address: int, distance: int, gathered: bool, shape: tuple[int, int]) -> Any:
    """Widens rows into an array of int16 whose rows have something beyond, which is left as it was."""
    m, k = shape
    function = WidenedRows(target.vector_bytes // 2, gathered)
    widened = np.full((m + 1, whole_quads(k) + 8), 7777, np.int16)
    _linked(function, target)[1](address, distance, m, k, 1, 0, widened.ctypes.data, widened.strides[0])
    assert (widened[:, whole_quads(k) :] == 7777).all()
    assert (widened[m] == 7777).all()
    return widened


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("k", [0, 1, 3, 4, 7, 16, 21, 35, 67])
def test_rows_are_widened_in_pairs(name: str, k: int) -> None:
    """Of each quad the first and third byte, then the others; matrices one after the other, wherever rows begin."""
    if not _runs_here(name):
        pytest.skip(f"this machine has no {name}")
    a = np.random.default_rng(k).integers(-128, 128, (2, 3, k)).astype(np.int8)
    fenced, order = Fenced(a), np.array([1, 0, 1], np.int64) * k
    whole, expected = whole_quads(k), np.zeros((3, 2, whole_quads(k)), np.int16)
    expected[:, :, :k] = a[:, [1, 0, 1]].transpose(1, 0, 2)
    found = np.full((3, 2 * whole + 4), 7777, np.int16)
    _, call = _linked(WidenedRows(TARGETS[name].vector_bytes // 2, True), TARGETS[name])
    call(fenced.address, order.ctypes.data, 3, k, 2, 3 * k, found.ctypes.data, found.strides[0])
    pairs = expected.reshape(3, 2, whole // 4, 4)[..., [0, 2, 1, 3]]
    steps = np.arange(whole).reshape(-1, 4)[:, [0, 2, 1, 3]] < k  # what is beyond may be anything
    np.testing.assert_array_equal(found[:, : 2 * whole].reshape(pairs.shape)[:, :, steps], pairs[:, :, steps])
    assert (found[:, 2 * whole :] == 7777).all()


@pytest.mark.one_in(36)
@pytest.mark.parametrize(
    ("name", "vectors", "m", "k"),
    pairs(["vnni", "avx512", "avxvnni", "avx2", "sse"], [1, 2, 4], [0, 1, 2, 5, 6, 7, 13], [0, 1, 2, 3, 4, 5, 8, 67]),
)
def test_sums_are_exact(name: str, vectors: int, m: int, k: int) -> None:
    if not _runs_here(name):
        pytest.skip(f"this machine has no {name}")
    if vectors == 4 and TARGETS[name].registers < 32:
        vectors = 2
    rng = np.random.default_rng(m * 100 + k)
    form = form_of(TARGETS[name])
    for gathered, ragged, accumulate, other in itertools.product((False, True), repeat=4):
        moved, few = other and form == "vnni", other and form == "madd"
        panel = dataclasses.replace(_quads(name, vectors, gathered, ragged, moved=moved), few=few)
        live = panel.width - (5 % panel.width if ragged and k % 2 else 0)
        a = rng.choice(np.array([-128, -127, -1, 0, 1, 127], np.int8), (m, k))
        b = rng.choice(np.array([-128, -127, 0, 5, 127], np.int8), (k, live))
        start = rng.integers(-(2**31), 2**31, (m, panel.width)).astype(np.int32)
        order = rng.permutation(m).astype(np.int64)
        expected = np.zeros((m, panel.width), np.int64)
        expected[:, :live] = (a[order] if gathered else a).astype(np.int64) @ b.astype(np.int64)
        expected = (expected + (start if accumulate else 0)).astype(np.int32)  # wraps
        left = a ^ np.int8(-128) if moved else a  # which as unsigned bytes are 128 more
        found = _run(panel, TARGETS[name], left, b, start, accumulate, live, order * k)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("k", [0, 1, 3, 6])
def test_the_form_of_any_processor_is_exact(k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((5, k), (k, 8)))
    panel = _quads("sse", 2, form="plain")
    found = _run(panel, TARGETS["sse"], a, b, np.zeros((5, 8), np.int32), False, 8)
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))


SIZES = [1, 2, 3, 15, 16, 17, 63, 64, 65, 130]


@pytest.mark.one_in(112)
@pytest.mark.parametrize(("m", "k", "n"), pairs(SIZES, [0, *SIZES, 519, 2100], SIZES))
def test_matmul_of_int8_is_exact(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k + n)
    a, b = (rng.choice(np.array([-128, -3, 0, 127], np.int8), shape) for shape in ((m, k), (k, n)))
    graph = jn.Graph("g", [jn.TensorType(jn.int8, ("m", k), "a"), jn.TensorType(jn.int8, (k, n), "b")])
    x, y = graph.inputs
    constant = graph.constant(np.ascontiguousarray(b.T))
    graph.output(x @ y, x @ constant.transpose(), x.transpose().transpose() @ y)
    for found in jn.compile(graph, "cpu", cache=False)(a, b):
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))
