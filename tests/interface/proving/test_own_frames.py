"""What is proven does not depend on how deep the caller is, and terms that outgrow everything are refused."""

from __future__ import annotations

import sys
import threading
from typing import Any

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.interface.proving.own_frames import own_frames

CHAIN = "".join(
    f"  %a{at} = arith.maxsi %b{at}, %zero : i32\n  %b{at + 1} = arith.xori %a{at}, %zero : i32\n" for at in range(40)
)
TEXT = f"""
tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {{
  %zero = arith.constant 0 : i32
  %value = arith.constant 1.0 : f32
  %p = tt.get_program_id x : i32
  %b0 = arith.addi %p, %zero : i32
{CHAIN}
  %inside = arith.cmpi slt, %b40, %n : i32
  %at = tt.addptr %x, %b40 : !tt.ptr<f32>, i32
  tt.store %at, %value, %inside : !tt.ptr<f32>
  tt.return
}}
"""


def verdicts(deep: int) -> Any:
    if deep:
        return verdicts(deep - 1)
    proof = jn.kernel.from_ttir(TEXT).prove(["n >= 1"], {"x": "n"}, "n")
    return proof.as_json()


def test_verdicts_do_not_depend_on_the_depth_of_the_caller() -> None:
    before = sys.getrecursionlimit()
    shallow = verdicts(0)
    assert '"bounds": "proven"' in shallow
    assert verdicts(before - 250) == shallow
    assert sys.getrecursionlimit() == before


def test_the_limit_is_put_back_by_the_last_of_several() -> None:
    before = sys.getrecursionlimit()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with own_frames():
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=other)
    with own_frames():
        thread.start()
        assert inside.wait(20)
        assert sys.getrecursionlimit() > before
    assert sys.getrecursionlimit() >= before
    leave.set()
    thread.join()
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize(
    ("assume", "extent", "grid", "message"),
    [
        ((), "n+" * 500 + "n", "n", "more than 200 operations"),
        ((), "n", "n" + "+0" * 495, "more than 200 operations"),
        (("n == " + "+".join(["0"] * 300),), "n", "n", "more than 200 operations"),
        (("n <= " + "*".join(["2**128"] * 112),), "n", "n", "numbers that are too large"),
    ],
)
def test_what_outgrows_everything_is_refused(assume: tuple[str, ...], extent: str, grid: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        jn.kernel.from_ttir(TEXT).prove(assume, {"x": extent}, grid)
