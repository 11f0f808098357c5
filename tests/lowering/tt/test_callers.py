"""Errors and findings of a function that is called name the lines of the calls around it, inlined or not."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

CALLS = """
module {
  tt.func public @f(%x: !tt.ptr<i32>, %n: i32) {
    tt.call @outer(%x, %n) : (!tt.ptr<i32>, i32) -> () loc("main.py":30:1)
    tt.return
  }
  tt.func private @outer(%p: !tt.ptr<i32>, %n: i32) attributes {noinline = true} {
    tt.call @inner(%p, %n) : (!tt.ptr<i32>, i32) -> () loc("lib.py":20:1)
    tt.return
  }
  tt.func private @inner(%p: !tt.ptr<i32>, %n: i32) attributes {noinline = true} {
    %q = tt.addptr %p, %n : !tt.ptr<i32>, i32
    %c = arith.constant 100 : i32
    %b = arith.cmpi slt, %n, %c : i32
    tt.assert %b, "small" : i1 loc("lib.py":9:1)
    tt.store %q, %n : !tt.ptr<i32> loc("lib.py":10:1)
    tt.return
  }
}
"""
INLINED = """
#inner = loc("lib.py":10:1)
#check = loc("lib.py":9:1)
#outer = loc("lib.py":20:1)
#main = loc("main.py":30:1)
#calls = loc(callsite(#outer at #main))
module {
  tt.func public @f(%x: !tt.ptr<i32>, %n: i32) {
    %q = tt.addptr %x, %n : !tt.ptr<i32>, i32
    %c = arith.constant 100 : i32
    %b = arith.cmpi slt, %n, %c : i32
    tt.assert %b, "small" : i1 loc(callsite(#check at #calls))
    tt.store %q, %n : !tt.ptr<i32> loc(callsite(#inner at #calls))
    tt.return
  }
}
"""
CALLED = "\n  called from lib.py:20\n  called from main.py:30"


@pytest.mark.parametrize("text", [CALLS, INLINED], ids=["calls", "inlined"])
@pytest.mark.parametrize("run", ["checked", "interpreted"])
def test_errors_name_the_callers(text: str, run: str) -> None:
    kernel = jn.kernel.from_ttir(text)

    def launch(n: int) -> Any:
        x = np.zeros(4, np.int32)
        if run == "interpreted":
            return kernel.interpret(1, x, n)
        return kernel.launch(1, x, n, check_bounds=True)

    launch(3)
    with pytest.raises(jn.UserError, match="element 5 of array 'x' is written") as raised:
        launch(5)
    assert "lib.py:10" in str(raised.value)
    assert str(raised.value).endswith(CALLED)
    assert raised.value.origin == "lib.py:10"
    with pytest.raises(jn.KernelAssertionError, match=r"at lib\.py:9 fails") as failed:
        launch(100)
    assert str(failed.value).endswith(f"small{CALLED}")


@pytest.mark.parametrize("text", [CALLS, INLINED], ids=["calls", "inlined"])
def test_findings_name_the_callers(text: str) -> None:
    (found,) = jn.kernel.from_ttir(text).sanitize(1, np.zeros(4, np.int32), 5).findings
    assert found.line == "lib.py:10:1 called at lib.py:20:1 called at main.py:30:1"


def test_kept_code_names_the_callers(tmp_path: Any) -> None:
    cache = jn.CompileCache(tmp_path)
    for _ in range(2):
        kernel = jn.kernel.from_ttir(INLINED, cache=cache)
        with pytest.raises(jn.UserError, match=r"called from lib\.py:20"):
            kernel.launch(1, np.zeros(4, np.int32), 4, check_bounds=True)


def test_an_operation_of_the_kernel_itself_has_no_callers() -> None:
    kernel = jn.kernel.from_ttir(INLINED.replace("callsite(#inner at #calls)", '"main.py":31:1'))
    with pytest.raises(jn.UserError, match=r"main\.py:31") as raised:
        kernel.launch(1, np.zeros(4, np.int32), 5, check_bounds=True)
    assert "called" not in str(raised.value)


def test_calls_around_calls_are_bounded() -> None:
    """Locations come from strangers, and may share parts, so that they have more lines than characters."""
    names = "\n".join(f"#l{i} = loc(callsite(#l{i - 1} at #l{i - 1}))" for i in range(1, 6))
    text = INLINED.replace("callsite(#inner at #calls)", "#l5")
    kernel = jn.kernel.from_ttir(f"#l0 = loc(\"deep.py\":1:1)\n{names}\n{text}")
    with pytest.raises(jn.UserError, match=r"deep\.py:1") as raised:
        kernel.launch(1, np.zeros(4, np.int32), 5, check_bounds=True)
    assert str(raised.value).count("called from") == 16
