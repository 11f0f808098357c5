"""Models from files and texts of strangers: nothing outside of the inputs is read, and nobody is kept busy."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.text.parsing import from_text
from joinery.interface.distributed.signatures import signature
from joinery.runtime.storage import artifact_file

HEADER = 'graph "t" semantics "max" policy "lattice"\n  %0 = input {index = 0, name = "x"} : float32 [n, 4]\n'
PAGE = mmap.PAGESIZE


def slice_of(starts: str, stops: str, steps: str, rows: str) -> str:
    attributes = f"starts = ({starts}, 0), steps = ({steps}, 1), stops = ({stops}, 4)"
    return f'{HEADER}  %1 = slice(%0) {{{attributes}}} : float32 [{rows}, 4]\n  output %1 "o"\n'


def fenced(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that ends where memory that nobody may read begins."""
    pages = -(-array.nbytes // PAGE) + 2
    block = mmap.mmap(-1, pages * PAGE)
    view = np.frombuffer(block, np.uint8)
    start = view.__array_interface__["data"][0]
    libc = ctypes.CDLL(None, use_errno=True)
    for page in (0, pages - 1):
        assert libc.mprotect(ctypes.c_void_p(start + page * PAGE), ctypes.c_size_t(PAGE), 0) == 0
    end = (pages - 1) * PAGE
    copy = view[end - array.nbytes : end].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


OUTSIDE = {
    "past the end": slice_of("1000", "1064", "1", "64"),
    "before the start": slice_of("<n - 64>", "<n>", "1", "64"),
    "backwards": slice_of("<n - 64>", "<n - 128>", "-1", "64"),
    "from a dim": slice_of("0", "<2*n>", "1", "2*n"),
    "weakened": slice_of("<n - 64>", "<n>", "1", "64") + '  check [n, n] "fine"\n',
    "cropping": f'{HEADER}  %1 = pad(%0) {{high = (0, 0), low = (<n - 8>, 0), mode = "constant", value = 7}} : '
    'float32 [2*n - 8, 4]\n  output %1 "o"\n',
    "reshape": f'{HEADER}  %1 = reshape(%0) {{shape = (64, 4)}} : float32 [64, 4]\n  output %1 "o"\n',
    "broadcast": f'{HEADER}  %1 = broadcast_to(%0) {{shape = (64, 4)}} : float32 [64, 4]\n  output %1 "o"\n',
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", OUTSIDE)
def test_reads_outside_are_refused_however_the_graph_arrives(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.joinery"
    artifact_file.save(path, "t", OUTSIDE[name], [], [], {"numerics": "strict"})
    for model in (jn.compile(from_text(OUTSIDE[name]), "cpu", cache=False), jn.load(path, "cpu", cache=False)):
        with pytest.raises(jn.UserError, match=r"model 't': (slice|pad|reshape|broadcast)"):
            model(fenced(np.zeros((3, 4), np.float32)))


def test_a_graph_without_outputs_is_refused(tmp_path: Path) -> None:
    graph = jn.Graph("t", [jn.TensorType("float32", ("n", 4), "x")])
    graph.output(graph.inputs[0] * 2)
    text = "\n".join(line for line in jn.to_text(graph)[0].split("\n") if not line.strip().startswith("output"))
    artifact_file.save(tmp_path / "t.joinery", "t", text, [], [], {"numerics": "strict"})
    with pytest.raises(jn.UserError, match=r"t\.joinery.* graph 't' has no output; fix: save the model again"):
        jn.load(tmp_path / "t.joinery", "cpu", cache=False)
    reference = jn.distributed.reference(tmp_path / "t.joinery")
    with pytest.raises(jn.JoineryError, match=r"t\.joinery: graph 't' has no output; fix: save the model again"):
        signature(reference, "batch")


def test_the_simulator_makes_the_same_checks() -> None:
    model = jn.compile(from_text(OUTSIDE["before the start"]), "ptxsim", cache=False)
    with pytest.raises(jn.UserError, match="leaves axis 0 of size n"):
        model(np.zeros((3, 4), np.float32))
    assert model(np.ones((70, 4), np.float32)).sum() == 256


def test_reads_up_to_the_edges() -> None:
    """Nothing beyond the first and the last element is touched."""
    graph = jn.Graph("t", [jn.TensorType("float32", ("n", 4), "x"), jn.TensorType("int64", ("k",), "i")])
    x, i = graph.inputs
    graph.output(
        x[1:-1], jn.pad(x, [(2, 3), (0, 1)], "edge"), x[::-1] + x, jn.gather(x, i), jn.softmax(x), x.T @ x, jn.max(x, axis=0)
    )
    again = from_text(str(graph))
    model = jn.compile(again, "cpu", cache=False)
    for rows in (3, 17, 64):
        x_, i_ = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32), np.int64([-99, 99, 0, -1])
        for found, expected in zip(model(fenced(x_), fenced(i_)), jn.evaluate(graph, x_, i_), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


BIG = {
    "static": ("(1048576, 1048576, 3, 4)", "[1048576, 1048576, 3, 4]"),
    "symbolic": ("(1048576, 1048576, <n>, 4)", "[1048576, 1048576, n, 4]"),
    "beyond 64 bits": ("(1099511627776, 1099511627776, <n>, 4)", "[1099511627776, 1099511627776, n, 4]"),
}


@pytest.mark.parametrize("name", BIG)
@pytest.mark.parametrize("reduced", [False, True])
def test_what_never_ends_is_refused(name: str, reduced: bool) -> None:
    shape, declared = BIG[name]
    text = HEADER.replace("[n, 4]", "[3, 4]") if name == "static" else HEADER
    text += f"  %1 = broadcast_to(%0) {{shape = {shape}}} : float32 {declared}\n"
    if reduced:
        text += "  %2 = reduce_sum(%1) {axes = (0, 1, 2, 3), keepdims = false} : float32 []\n"
    text += f'  output %{2 if reduced else 1} "o"\n'
    x = np.ones((3, 4), np.float32)
    with pytest.raises(jn.UserError, match=r"budget|64 bits"):
        jn.evaluate(from_text(text), x)
    with pytest.raises(jn.UserError, match=r"budget|64 bits"):
        jn.compile(from_text(text), "cpu", cache=False)(x)


def test_the_budget_can_be_raised_and_is_not_saved(tmp_path: Path) -> None:
    graph = jn.Graph("t", [jn.TensorType("float32", ("n", 4), "x")])
    graph.output(graph.inputs[0] * 2)
    first, second = tmp_path / "a.joinery", tmp_path / "b.joinery"
    jn.compile(graph, "cpu", cache=False).save(first)
    x = np.ones((65, 4), np.float32)
    small = jn.load(first, "cpu", cache=False, budget=jn.Budget(bytes=1024))
    assert small(x[:64]).sum() == 512
    with pytest.raises(jn.UserError, match=r"more bytes than the budget of graphs from text, which is 1024; fix: budget="):
        small(x)
    for trusted in (False, True):
        with pytest.raises(jn.UserError, match="more operations than the budget"):
            jn.load(first, "cpu", cache=False, trusted=trusted, budget=jn.Budget(work=200))(x)
    assert jn.load(first, "cpu", cache=False)(x).sum() == 520
    assert not jn.load(first, "cpu", cache=False, trusted=True).compiled.checks[1:]
    small.save(second)
    assert second.read_bytes() == first.read_bytes()
    with pytest.raises(jn.UserError, match=r"Budget: work is 0; expected an int"):
        jn.Budget(work=0)
    with pytest.raises(jn.UserError, match="budget is 5"):
        jn.load(first, budget=5)  # type: ignore[arg-type]


def test_sizes_that_leave_64_bits_are_refused_before_anything_runs() -> None:
    """An axis may be long where another one is empty; what is computed from it must not wrap."""
    graph = jn.Graph("t", [jn.TensorType("float32", ("n", "m"), "x")])
    x = graph.inputs[0]
    n = x.shape[0]
    graph.output(graph.dim_value(n * n * 16), x[:, :0])
    given = np.empty((1 << 33, 0), np.float32)
    for device in ("cpu", "ptxsim"):
        with pytest.raises(jn.UserError, match="does not fit 64 bits for these dims"):
            jn.compile(graph, device, cache=False)(given)
    with pytest.raises(jn.UserError, match="64 bits address"):
        jn.evaluate(graph, given)
    assert jn.compile(graph, "cpu", cache=False)(given[: 1 << 10])[0] == 1 << 24
    huge = jn.Graph("t", [jn.TensorType("float32", (4,), "x")])
    with pytest.raises(jn.UserError, match="more than 64 bits address"):
        huge.output(jn.broadcast_to(huge.inputs[0], (1 << 60, 4)))


def test_loops_that_values_end_run_without_code_of_the_file_when_asked_for(tmp_path: Path) -> None:
    graph = jn.Graph("halving", [jn.TensorType(jn.float32, (3,), "x")])
    graph.output(jn.while_loop(lambda v: jn.max(v) > 1, lambda v: v * 0.5, graph.inputs[0]))
    compiled, path, x = jn.compile(graph, "cpu", cache=False), tmp_path / "m.joinery", np.array([9, 1, 3], np.float32)
    compiled.save(path)
    with pytest.raises(jn.UserError, match=r"(?s)values decide how often a loop runs.*fix: budget=joinery.Budget\(open"):
        jn.load(path, "cpu", cache=False)
    loaded = jn.load(path, "cpu", cache=False, budget=jn.Budget(open_loops=True))
    np.testing.assert_array_equal(loaded(x), compiled(x))
    with pytest.raises(jn.UserError, match="a run needs 11 operations"):
        jn.load(path, "cpu", cache=False, budget=jn.Budget(open_loops=True, work=1))
    with pytest.raises(jn.UserError, match="open_loops is 1; expected True or False"):
        jn.Budget(open_loops=1)  # type: ignore[arg-type]
