"""Assertions, prints and polls of launched kernels."""

from __future__ import annotations

import time

import joinery as jn
import numpy as np
import pytest


def kernel(lines: str, parameters: str = "%x: !tt.ptr<i32>, %n: i32") -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(
        f"""
module {{
  tt.func public @f({parameters}) {{
    %pid = tt.get_program_id x : i32
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    {lines}
    tt.return
  }}
}}
"""
    )


BLOCK = """
    %p = tt.addptr %x, %pid : !tt.ptr<i32>, i32
    tt.store %p, %n : !tt.ptr<i32>
    %m = tt.reshape %r : tensor<64xi32> -> tensor<4x16xi32>
    %ms = tt.reshape %ns : tensor<64xi32> -> tensor<4x16xi32>
    %ok = arith.cmpi slt, %m, %ms : tensor<4x16xi32>
    tt.assert %ok, "below n" : tensor<4x16xi1> loc("add.py":12:3)
"""


@pytest.mark.parametrize("run", ["launch", "interpret"])
@pytest.mark.parametrize("n", [0, 1, 16, 37, 63])
def test_an_assertion_names_the_first_false_element(run: str, n: int) -> None:
    x = np.zeros(4, np.int32)
    with pytest.raises(jn.KernelAssertionError, match="below n") as caught:
        getattr(kernel(BLOCK), run)(1, x, n)
    error = caught.value
    assert (error.lane, error.program) == ((n // 16, n % 16), (0, 0, 0))
    assert (error.file, error.line, error.message) == ("add.py", 12, "below n")
    assert x.tolist() == [n, 0, 0, 0]  # what was stored before stays


def test_an_assertion_that_holds() -> None:
    x = np.zeros(4, np.int32)
    kernel(BLOCK).launch(4, x, 64)
    assert (x == 64).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failed_assertion_ends_the_launch(threads: int) -> None:
    """One program fails; the launch ends soon after it, and what other programs wrote is there."""
    lines = """
    %p = tt.addptr %x, %pid : !tt.ptr<i32>, i32
    tt.store %p, %pid : !tt.ptr<i32>
    %ok = arith.cmpi ne, %pid, %n : i32
    tt.assert %ok, "not this one" : i1
"""
    x = np.full(1 << 20, -1, np.int32)
    with pytest.raises(jn.KernelAssertionError) as caught:
        kernel(lines).launch(1 << 20, x, 1000, threads=threads)
    assert caught.value.program == (1000, 0, 0)
    assert caught.value.lane == ()
    assert (x[x >= 0] == np.flatnonzero(x >= 0)).all()
    assert (x < 0).any()  # programs that had not started did not run
    kernel(lines).launch(64, x, 1000, threads=threads)  # the next launch starts afresh


@pytest.mark.parametrize("axis", ["x", "y", "z"])
@pytest.mark.parametrize("options", [{}, {"check_bounds": True}], ids=["", "checked"])
def test_one_axis_of_a_grid_of_three(axis: str, options: dict[str, bool]) -> None:
    """A program that asks for its place along one axis shares it with those along the others."""
    kernel = jn.kernel.from_ttir(f"""
module {{
  tt.func public @f(%o: !tt.ptr<i32>) {{
    %place = tt.get_program_id {axis} : i32
    %one = arith.constant 1 : i32
    %true = arith.constant true
    %at = tt.addptr %o, %place : !tt.ptr<i32>, i32
    %old = tt.atomic_rmw add, relaxed, gpu, %at, %one, %true : (!tt.ptr<i32>, i32, i1) -> i32
    tt.return
  }}
}}""")
    grid = (2, 3, 5)
    extent = grid["xyz".index(axis)]
    counts = np.zeros(30, np.int32)
    kernel.launch(grid, counts, **options)
    assert counts.tolist() == [30 // extent] * extent + [0] * (30 - extent)


def test_places_in_a_grid_of_three_axes() -> None:
    lines = """
    %z = tt.get_program_id z : i32
    %y = tt.get_program_id y : i32
    %s = arith.addi %z, %y : i32
    %t = arith.addi %s, %pid : i32
    %ok = arith.cmpi slt, %t, %n : i32
    tt.assert %ok, "the last corner" : i1
"""
    with pytest.raises(jn.KernelAssertionError) as caught:
        kernel(lines).launch((3, 4, 5), np.zeros(1, np.int32), 2 + 3 + 4)
    assert caught.value.program == (2, 3, 4)


PRINTS = """
    %c = arith.constant dense<1.500000e+00> : tensor<2x4xbf16>
    %h = arith.constant 2.500000e-01 : f16
    %b = arith.cmpi slt, %r, %ns : tensor<64xi32>
    %t = arith.trunci %r : tensor<64xi32> to tensor<64xi8>
    %q = tt.splat %x : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
    tt.print " all: " {hex = HEX, isSigned = array<i32: 1, 1, 0, 1, 1>} : %c, %h, %b, %t, %n
        : tensor<2x4xbf16>, f16, tensor<64xi1>, tensor<64xi8>, i32
    tt.print " done" {hex = false, isSigned = array<i32>}
"""


@pytest.mark.parametrize("hexadecimal", ["true", "false"])
def test_prints_are_those_of_the_interpreter(hexadecimal: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = kernel(PRINTS.replace("HEX", hexadecimal))
    x = np.zeros(1, np.int32)
    text.interpret((2, 2), x, 40)
    expected = capsys.readouterr().out
    text.launch((2, 2), x, 40, threads=1)
    assert capsys.readouterr().out == expected
    text.launch((2, 2), x, 40, threads=2)
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(expected.splitlines())


def test_an_output_that_breaks_ends_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def write(self, _: str) -> None:
            raise OSError("no space left")

    text = kernel(PRINTS.replace("HEX", "false"))
    monkeypatch.setattr("sys.stdout", Broken())
    with pytest.raises(OSError, match="no space left"):
        text.launch(2, np.zeros(1, np.int32), 1)


POLL = """
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %first = arith.cmpi eq, %pid, %zero : i32
    scf.if %first {
      %seen = tt.atomic_poll acquire, gpu, %x, %one TIMEOUT : !tt.ptr<i32>, i32 -> i1
      %v = arith.select %seen, %n, %zero : i32
      %o = tt.addptr %x, %one : !tt.ptr<i32>, i32
      tt.store %o, %v : !tt.ptr<i32>
    } else {
      tt.atomic_store release, gpu, %x, %one : !tt.ptr<i32>
    }
"""


def test_a_poll_sees_what_another_program_stores() -> None:
    """Program 0 waits for program 1, on another thread."""
    text = POLL.replace("TIMEOUT", "")
    x = np.zeros(2, np.int32)
    kernel(text).launch(2, x, 7, threads=2)
    assert x.tolist() == [1, 7]


def test_a_poll_gives_up_after_its_timeout() -> None:
    text = "%time = arith.constant 50000000 : i64\n" + POLL.replace("TIMEOUT", "timeout %time")
    x = np.zeros(2, np.int32)
    start = time.monotonic_ns()
    kernel(text).launch(1, x, 7)
    assert x.tolist() == [0, 0]
    assert time.monotonic_ns() - start >= 50_000_000
    x[0] = 1
    kernel(text).launch(1, x, 7)
    assert x.tolist() == [1, 7]


def test_a_block_is_polled_lane_by_lane() -> None:
    lines = """
    %time = arith.constant 1000 : i64
    %b = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %p = tt.addptr %b, %r : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %s = tt.atomic_poll acquire, gpu, %p, %ns timeout %time : tensor<64x!tt.ptr<i32>>, tensor<64xi32> -> tensor<64xi1>
    %v = arith.extui %s : tensor<64xi1> to tensor<64xi32>
    tt.store %p, %v : tensor<64x!tt.ptr<i32>>
"""
    x = (np.arange(64, dtype=np.int32) % 3) + 4
    kernel(lines).launch(1, x, 5)
    assert np.array_equal(x, (np.arange(64) % 3 == 1).astype(np.int32))


def test_poison_is_something() -> None:
    lines = """
    %u = ub.poison : tensor<64xi32>
    %s = ub.poison : i32
    %f = arith.constant false
    %w = arith.select %f, %s, %n : i32
    tt.store %x, %w : !tt.ptr<i32>
    %yes = arith.constant dense<true> : tensor<64xi1>
    %b = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %p = tt.addptr %b, %r : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %v = arith.select %yes, %r, %u : tensor<64xi1>, tensor<64xi32>
    tt.store %p, %v : tensor<64x!tt.ptr<i32>>
"""
    x = np.zeros(64, np.int32)
    kernel(lines).launch(1, x, 5)
    assert np.array_equal(x, np.arange(64))
