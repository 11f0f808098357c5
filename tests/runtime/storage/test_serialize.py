"""Compiled graphs as bytes: round trips, and refusal of everything that is not one."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from joinery.lowering.artifact import (
    ArgumentExpression,
    CompiledGraph,
    ConstantSpec,
    GpuBranch,
    GpuCarried,
    GpuLaunch,
    GpuLoop,
    GpuProgram,
    GpuSection,
    GpuSlice,
    KernelCode,
    KernelReport,
    TensorMap,
    TensorSource,
    TensorSpec,
)
from joinery.promotion.errors import UserError
from joinery.runtime.storage.serialize import decode_compiled, encode_compiled


@pytest.fixture
def graph() -> CompiledGraph:
    return CompiledGraph(
        "μ-model", "x86_64|znver5", "abc", b"\x7fELF\0\1", ("batch", "seq"),
        (TensorSpec("x", "bfloat16", ("batch", 2)), TensorSpec("s", "int64", ("seq", "2*batch"))),
        (TensorSpec("y", "bool", ("2*seq + 1",)),),
        (ConstantSpec("w", "float32", (3, 70), "panels:32"), ConstantSpec("b", "tensor_float32", (0,))),
        ("seq > 0",),
        (KernelReport("k0", "map", ("add", "mul"), "ceildiv(batch, 4)", (("i", 4),
        ("j", 8)), 12, "4*batch", 0),),
        {"k0": "tt.func é"}, "define void @k0()",
    )  # fmt: skip


@pytest.fixture
def on_gpu(graph) -> CompiledGraph:
    kernels = tuple(
        KernelCode(name, "sm_90a", f".version 8.0 // {name} é", 80, 128, 4096, types)
        for name, types in (("k0", ("i64", "i64", "i64")), ("k1", ("i64", "half")))
    )
    made = TensorSource(
        0,
        (ArgumentExpression((("argument", 64, 1), ("constant", 32, -5), ("maxsi", 64, 0))), ArgumentExpression.argument(2)),
        (ArgumentExpression((("argument", 32, 2), ("extsi", 32, 0))), ArgumentExpression.constant(1)),
        ArgumentExpression.constant(0),
    )
    mapped = [TensorMap(source, "bf16", (64, 64), 128) for source in (TensorSource.of_parts(0, 2), made)]
    kernels += (KernelCode("k2", "sm_90a", "", 80, 128, 0, ("i64",) * 5 + ("i8", "ptr", "ptr"), tuple(mapped)),)
    launches = (
        GpuLaunch(1, (("input", 1), -3), "ceildiv(batch, 4)"),
        GpuLaunch(0, (("temporary", 0), "2*seq", ("output", 0)), 7),
    )
    carried = (GpuCarried(("input", 0), 0, 1, 2, (("temporary", 0),) * 2), GpuCarried(("variable", 0), 3))
    branch = GpuBranch(("temporary", 0), (GpuSection(0, 1),), (), ("temporary", 0))
    slices = GpuSlice(("output", 0), 4, "4*batch"), GpuSlice(("input", 0), 4, 8, ("temporary", 0), "batch", 32)
    loop = GpuLoop(
        (branch,), carried, slices, "seq", None, (GpuSection(1, 1),), ("temporary", 0),
        None, ("temporary", 0), True,
    )  # fmt: skip
    steps = (GpuSection(0, 2), loop)
    program = GpuProgram(kernels, launches, ("64*batch",), "128*batch", (("batch", "seq"),), steps, 5)
    return replace(graph, target="nvptx|sm_90a", object_code=b"", gpu=program)


def test_round_trip(graph, symbolic, on_gpu):
    for item in (graph, symbolic, on_gpu, replace(graph, kernels=(), ttir={}, object_code=b"", llvm_ir="")):
        data = encode_compiled(item)
        assert decode_compiled(data) == item
        assert decode_compiled(memoryview(data)) == item
        assert encode_compiled(decode_compiled(data)) == data


def source(header) -> list:
    """The fields of where the first tensor map comes from."""
    return header["gpu"]["kernels"][2][6][0][0]


def change(data: bytes, edit) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    edit(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def test_changing_nothing_keeps_a_good_file_good(graph):
    assert decode_compiled(change(encode_compiled(graph), lambda header: None)) == graph


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda h: h.update(format=1), "format 1 is not 4"),
        (lambda h: h.update(numerics="wild"), "numerics 'wild' is none of strict, fast"),
        (lambda h: h.update(extra=1), "unknown field 'extra'"),
        (lambda h: h.pop("dims"), "field 'dims' is missing"),
        (lambda h: h.update(name=7), "field 'name': expected text, got int"),
        (lambda h: h.update(name="x" * 10_001), "a text of 10001 characters"),
        (lambda h: h.update(name="\ud800"), "field 'name'"),
        (lambda h: h.update(dims="batch"), "field 'dims': expected a list, got str"),
        (lambda h: h.update(dims=[1]), "field 'dims': expected text, got int"),
        (lambda h: h.update(dims=["batch", "seq", "n"]), "dim 'n' is none of its inputs'"),
        (lambda h: h.update(dims=["batch", "batch"]), "dim 'batch' is listed twice"),
        (lambda h: h["inputs"].pop(), "dim 'seq' is none of its inputs'"),
        (lambda h: h["inputs"][0].__setitem__(2, ["batch +", 2]), "dim expression 'batch \\+': it ends early"),
        (lambda h: h.update(checks=["x"] * 100_001), "a list of 100001 items"),
        (lambda h: h.update(inputs=[["x", "float33", []]]), "unknown dtype 'float33'"),
        (lambda h: h.update(inputs=[["x", "float32"]]), "expected a list of 3"),
        (lambda h: h.update(inputs=[["x", "float32", [-1]]]), "-1 is out of range"),
        (lambda h: h.update(inputs=[["x", "float32", [True]]]), "expected an integer, got bool"),
        (lambda h: h.update(inputs=[["x", "float32", [1.5]]]), "expected an integer, got float"),
        (lambda h: h.update(inputs=[["x", "float32", [1] * 65]]), "rank 65"),
        (lambda h: h.update(inputs={"x": 1}), "expected a list, got dict"),
        (lambda h: h.update(constants=[["w", "float32", ["n"], "plain", ""]]), "expected an integer, got str"),
        (lambda h: h.update(constants=[["w", "float32", [4], "panels:32", ""]]), "is for matrices"),
        (lambda h: h.update(constants=[["w", "float32", [4, 4], "panels:0", ""]]), "unknown constant layout"),
        (lambda h: h.update(constants=[["w", "float32", [2**40, 2**40], "plain", ""]]), "too many elements"),
        (lambda h: h["kernels"][0].pop(), "expected a list of 8"),
        (lambda h: h["kernels"][0].__setitem__(3, [["i"]]), "expected a list of 2"),
        (lambda h: h.update(object_code=7), "do not add up"),
        (lambda h: h.update(llvm_ir=2**63), "out of range"),
        (lambda h: h.update(ttir=[["k0", 10**30]]), "out of range"),
    ],
)
def test_wrong_headers_are_refused(graph, edit, message):
    with pytest.raises(UserError, match=message):
        decode_compiled(change(encode_compiled(graph), edit))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda h: h.update(gpu=None), "PTX of no kernel"),
        (lambda h: h["gpu"].update(x=1), "unknown field 'x'"),
        (lambda h: h["gpu"].update(checks=[]), "0 checks with 1 messages"),
        (lambda h: h["gpu"]["kernels"].pop(), "2 kernels with 3 texts of PTX"),
        (lambda h: h["gpu"]["kernels"][0].__setitem__(3, 1025), "1025 threads"),
        (lambda h: h["gpu"]["kernels"][0].__setitem__(5, ["i64", "i64", "i128"]), "parameter of type 'i128'"),
        (lambda h: h["gpu"]["kernels"][0].__setitem__(5, ["i64"]), "'k0' with another number of arguments"),
        (lambda h: h["gpu"]["launches"][0].__setitem__(0, 3), "a launch of kernel 3 of 3"),
        (lambda h: h["gpu"]["launches"][0].__setitem__(1, [["input", 2], 0]), "input 2 of 2"),
        (lambda h: h["gpu"]["launches"][0].__setitem__(1, [["temporary", 1], 0]), "temporary 1 of 1"),
        (lambda h: h["gpu"]["launches"][0].__setitem__(1, [["arena", 0]]), "a buffer of kind 'arena'"),
        (lambda h: h["gpu"]["launches"][0].__setitem__(2, -1), "-1 is out of range"),
        (lambda h: source(h).__setitem__(0, 6), "a tensor map of parameter 6, of 6"),
        (lambda h: source(h).__setitem__(0, 5), "a tensor map of parameter 5, of 6"),
        (lambda h: source(h).__setitem__(1, [[["constant", 64, 1]]] * 3), "a tensor map of rank 3"),
        (lambda h: source(h)[1].pop(), "a tensor map of rank 1"),
        (lambda h: source(h)[1].__setitem__(0, [["argument", 64, 6]]), "a tensor map made with argument 6"),
        (lambda h: source(h)[1].__setitem__(0, [["argument", 64, -1]]), "a tensor map made with argument -1"),
        (lambda h: source(h)[2].__setitem__(0, [["system", 64, 1]]), "a tensor map made with step 'system'"),
        (lambda h: source(h)[2].__setitem__(0, [["constant", 65, 1]]), "step 'constant' of 65 bits"),
        (lambda h: source(h)[2].__setitem__(0, [["constant", 64, 1], ["addi", 64, 0]]), "step 'addi' without operands"),
        (lambda h: source(h)[2].__setitem__(0, [["trunci", 64, 1]]), "step 'trunci' without operands"),
        (lambda h: source(h).__setitem__(3, [["constant", 64, 1]] * 2), "made with 2 values"),
        (lambda h: source(h).__setitem__(3, []), "made with 0 values"),
        (lambda h: source(h).__setitem__(3, [["constant", 64, 1], *[["extsi", 64, 0]] * 64]), "made with 65 steps"),
        (lambda h: source(h).__setitem__(3, [["constant", 64, 1.5]]), "expected an integer, got float"),
        (lambda h: source(h).__setitem__(3, [["constant", 64, -(2**63) - 1]]), "out of range"),
        (lambda h: h["gpu"]["kernels"][2][6][0].__setitem__(2, [64, 257]), r"box \(64, 257\)"),
        (lambda h: h["gpu"]["kernels"][2][6][0].__setitem__(3, 16), "swizzle 16"),
        (lambda h: h["gpu"]["kernels"][2][5].__setitem__(0, "ptr"), "a parameter of type 'ptr'"),
        (lambda h: h["gpu"]["kernels"][2].__setitem__(5, []), "more tensor maps than parameters"),
        (lambda h: h["gpu"].update(arena_bytes=-1), "-1 is out of range"),
        (lambda h: h.update(ptx=[1, 1, 1]), "do not add up"),
    ],
)
def test_wrong_programs_of_gpus_are_refused(on_gpu, edit, message):
    with pytest.raises(UserError, match=message):
        decode_compiled(change(encode_compiled(on_gpu), edit))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda steps: steps.append(["jump", 0, 1]), "a step of kind 'jump'"),
        (lambda steps: steps.append([]), "a step of kind None"),
        (lambda steps: steps.append(["launches", 1]), "expected a list of 3"),
        (lambda steps: steps.append(["launches", 0, 3]), "launches 0 to 3 of 2"),
        (lambda steps: steps.append(["launches", 2, 1]), "launches 2 to 1 of 2"),
        (lambda steps: steps[1][2][0].__setitem__(0, ["register", 0]), "a buffer of kind 'register'"),
        (lambda steps: steps[1][2][0].__setitem__(0, ["input", 99]), "a step with input 99 of"),
        (lambda steps: steps[1][2][0].__setitem__(1, 5), "a step with variable 5 of 5"),
        (lambda steps: steps[1][2][0].__setitem__(2, -2), "variable -2"),
        (lambda steps: steps[1][2][0].__setitem__(4, []), "a carried value without two locations"),
        (lambda steps: steps[1][3][0].__setitem__(2, -4), "-4 is out of range"),
        (lambda steps: steps[1][3][1].__setitem__(3, ["input", 99]), "a step with input 99 of"),
        (lambda steps: steps[1][3][1].__setitem__(4, -1), "-1 is out of range"),
        (lambda steps: steps[1][3][1].__setitem__(5, 16), "positions of 16 bits"),
        (lambda steps: steps[1][3][1].pop(), "expected a list of 6"),
        (lambda steps: steps[1].__setitem__(7, None), "a loop with a condition that nothing reads"),
        (lambda steps: steps[1].__setitem__(10, 1), "expected true or false"),
        (lambda steps: steps[1][1][0].__setitem__(1, ["temporary", 7]), "a step with temporary 7 of 1"),
        (lambda steps: [steps.__setitem__(slice(None), [["branch", ["input", 0], list(steps), [], None]]) for _ in range(70)],
         "loops and branches 65 deep"),
    ],
)
def test_steps_that_do_not_fit(on_gpu, edit, message):
    with pytest.raises(UserError, match=message):
        decode_compiled(change(encode_compiled(on_gpu), lambda header: edit(header["gpu"]["steps"])))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "shorter than its length field"),
        (b"\xff" * 8, "does not fit"),
        (b"\x05\0\0\0\0\0\0\0ab", "a header of 5 bytes does not fit"),
        (b"\x02\0\0\0\0\0\0\0[]", "must be a JSON object"),
        (b"\x02\0\0\0\0\0\0\0{]", "is not JSON"),
        (b"\x03\0\0\0\0\0\0\0NaN", "is not JSON: NaN"),
        (b"\x0d\0\0\0\0\0\0\0" + b'{"a":1,"a":2}', "a key appears twice"),
        ((200_000).to_bytes(8, "little") + b"[" * 200_000, "is not JSON"),
        ((10_000).to_bytes(8, "little") + b"9" * 10_000, "is not JSON"),
        (b"\x02\0\0\0\0\0\0\0\xff\xfe", "is not JSON"),
    ],
)
def test_what_is_no_compiled_graph(data, message):
    with pytest.raises(UserError, match=message):
        decode_compiled(data)


def test_texts_must_be_utf8(graph):
    data = encode_compiled(graph)
    with pytest.raises(UserError, match="block program 'k0' is not UTF-8"):
        decode_compiled(data[:-1] + b"\xff")


@pytest.mark.parametrize("which", ["graph", "on_gpu"])
def test_random_damage_never_escapes_as_anything_else(which, request):
    good = encode_compiled(request.getfixturevalue(which))
    rng = random.Random(3)
    refused = 0
    for _ in range(1500):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            kind, at = rng.randrange(3), rng.randrange(len(bad))
            if kind == 0:
                bad[at] = rng.randrange(256)
            elif kind == 1:
                del bad[at : at + rng.randrange(1, 9)]
            else:
                bad[at:at] = bytes(rng.randrange(256) for _ in range(3))
        try:
            decoded = decode_compiled(bytes(bad))
        except UserError:
            refused += 1
        else:
            assert isinstance(decoded, CompiledGraph)
    assert refused > 700
