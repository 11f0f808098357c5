"""What is wrong inside a loop is refuted, though its counter may be any number where sizes are: it may wrap there."""

from __future__ import annotations

from collections.abc import Iterator

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

_COPY = """__global__ void copy(float *y, float *x, int *t, int rows, int cols, int sx, int sy) {
  int r = get_program_id(0); int j[64] = 0 ... 64;
  for (int c = 0; c < cols; c += 64)
    *?(c + j < cols)(y + r * sy + c + j) = *?(c + j < cols)(x + r * sx + c + j);
}"""
"""Copies rows, of which each has a stride; `t` is not used."""
_EXTENTS = {"x": "rows * sx", "y": "rows * sy"}
_FITTING = ["sx >= cols", "sy >= cols"]


def _touched(sizes: dict[str, int], programs: int, stride: str) -> Iterator[int]:
    """The elements that the programs along x read or write, by the text of the kernel."""
    for row in range(programs):
        yield from range(row * sizes[stride], row * sizes[stride] + sizes["cols"])


def _kernel() -> jn.kernel.Kernel:
    return jn.kernel.from_triton_c(_COPY)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("assume", "shorter", "array"), [([], 0, "x"), ([], 0, "y"), (_FITTING, 10, "x"), (_FITTING[1:], 0, "x")]
)
def test_rows_that_are_longer_than_their_stride_are_refuted(assume: list[str], shorter: int, array: str) -> None:
    extents = _EXTENTS | {"x": f"rows * sx - {shorter}"}
    proof = _kernel().prove(assume, extents, "rows", ("bounds",))
    (example,) = [each.counterexample for each in proof.accesses if each.array == array]
    assert example is not None
    sizes = dict(example.sizes)
    assert example.grid == (sizes["rows"], 1, 1)
    assert not assume or sizes["sy"] >= sizes["cols"]
    elements = sizes["rows"] * sizes[f"s{array}"] - (shorter if array == "x" else 0)
    assert max(_touched(sizes, example.grid[0], f"s{array}")) >= elements
    given = {name: np.zeros(10_000, np.float32) for name in "xy"}
    given[array] = np.zeros(elements, np.float32)
    numbers = [sizes[name] for name in ("rows", "cols", "sx", "sy")]
    with pytest.raises(jn.JoineryError, match="out-of-bounds"):
        _kernel().launch(example.grid, given["y"], given["x"], np.zeros(1, np.int32), *numbers, sanitize=True)


def test_programs_that_copy_the_same_rows_are_refuted() -> None:
    proof = _kernel().prove(_FITTING, _EXTENTS, ("rows", 2), ("bounds", "races"))
    assert proof.verdict("bounds") == "proven under"
    (load, store) = [each for each in proof.accesses if each.prop == "races"]
    assert (load.array, load.verdict) == ("x", "proven under")
    assert (store.array, store.verdict) == ("y", "refuted")
    assert store.counterexample is not None
    assert store.counterexample.grid[1] == 2
    assert store.counterexample.finding.kind == "race"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("least", [1, 3000, 1 << 20])
def test_what_is_right_is_not_refuted(least: int) -> None:
    proof = _kernel().prove([*_FITTING, f"cols >= {least}"], _EXTENTS, "rows", ("bounds", "races"))
    assert {each.verdict for each in proof.accesses} == {"proven under"}


@pytest.mark.parametrize(("assumed", "verdict"), [("m >= 64", "refuted"), ("m % 64 == 1", "proven under")])
def test_lanes_that_a_load_in_a_loop_leaves_undefined_are_refuted(assumed: str, verdict: str) -> None:
    """In the iteration that begins at m nothing is loaded, if there is one."""
    made = jn.kernel.from_ttir("""tt.func public @k(%y: !tt.ptr<i32>, %x: !tt.ptr<i32>, %n: i32, %m: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 64 : i32
  %lanes = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
  %ys = tt.splat %y : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
  %ns = tt.splat %n : i32 -> tensor<64xi32>
  %ms = tt.splat %m : i32 -> tensor<64xi32>
  scf.for %c = %zero to %n step %step : i32 {
    %cs = tt.splat %c : i32 -> tensor<64xi32>
    %i = arith.addi %cs, %lanes : tensor<64xi32>
    %loads = arith.cmpi ne, %cs, %ms : tensor<64xi32>
    %stores = arith.cmpi slt, %i, %ns : tensor<64xi32>
    %from = tt.addptr %xs, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %to = tt.addptr %ys, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %v = tt.load %from, %loads : tensor<64x!tt.ptr<i32>>
    tt.store %to, %v, %stores : tensor<64x!tt.ptr<i32>>
  }
  tt.return
}""")
    proof = made.prove([assumed], {"x": "n + 63", "y": "n"}, 1, ("initialised",))
    assert [each.verdict for each in proof.accesses] == ["proven", verdict]


def _without_launches(*assume: str) -> str:
    """The reason of the load's bounds where no launch is made, as the elements of an array are distinct."""
    proof = _kernel().prove(["distinct(t[:])", *assume], _EXTENTS | {"t": 2}, "rows", ("bounds",))
    (load,) = [each for each in proof.accesses if each.array == "x"]
    assert load.verdict == "unknown"
    return load.reason


@pytest.mark.slow
def test_a_reason_names_the_loop_whose_counter_may_wrap_and_what_excludes_that() -> None:
    fix = "fix: assume=['cols <= 2**30']"
    reason = _without_launches()
    assert reason.endswith(f"; the counter of the loop at {_line()} may wrap; {fix}")
    assert "may wrap" not in _without_launches("cols <= 2**30")
    assert "may wrap" not in _without_launches("cols >= 2**30 + 1")  # that would contradict the assumption


def _line() -> str:
    """Where the loop is, as other verdicts say."""
    proof = _kernel().prove(extents=_EXTENTS, grid="rows", properties=("termination of loops",))
    return proof.accesses[0].line


@pytest.mark.slow
def test_verdicts_do_not_take_the_steps_of_launches_with_small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are none for these, all else is as it was: what is refuted without them alone stays unknown."""
    with_them = _kernel().prove(_FITTING, _EXTENTS, ("rows", 2), ("bounds", "races"))
    monkeypatch.setattr("joinery.lowering.prove.bounds._SHARE_OF_SMALL", 1 << 60)
    without = _kernel().prove(_FITTING, _EXTENTS, ("rows", 2), ("bounds", "races"))
    assert [each.verdict for each in without.accesses] == ["proven under"] * 2 + ["proven under", "unknown"]
    assert [each.condition for each in without.accesses][:3] == [each.condition for each in with_them.accesses][:3]


def test_what_is_found_with_small_sizes_and_not_confirmed_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joinery.lowering.prove.launches.Launches._run", lambda *_: None)
    proof = _kernel().prove([], _EXTENTS, "rows", ("bounds",))
    assert {each.verdict for each in proof.accesses} == {"unknown"}


def test_what_is_found_is_found_again() -> None:
    first, second = [_kernel().prove([], _EXTENTS, "rows", ("bounds", "races")) for _ in range(2)]
    assert first.as_json() == second.as_json()
