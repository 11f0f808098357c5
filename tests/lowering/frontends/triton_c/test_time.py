"""Reading a text is fast, and costs nothing where no text is read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from joinery.lowering.frontends.triton_c.text import build, read

from ....support.python_calls import calls

DATA = Path(__file__).resolve().parents[3] / "data" / "triton_c"
MAX_CALLS = 1500
"""Most calls of functions for a line, from text to verified block IR: 100 lines of 1050 take 25 ms on a processor of 2023."""


def test_a_line_takes_as_many_calls_in_long_kernels_as_in_short_ones() -> None:
    match = re.search(r"(.*?ldc\) \{\n)(.*)\}\n", (DATA / "e4_product.tc").read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    head, body = match.groups()
    defines = {"TYPE": "half", "TM": "64", "TN": "64", "TK": "32", "ACT": "1"}
    found = []
    for copies in (1, 6, 24):  # the first one makes what later ones use, too
        text = head + f"{{\n{body}}}\n" * copies + "}\n"
        found.append(calls(lambda text=text: build(read(text, defines=defines))) / text.count("\n"))
    _, short, long = found
    assert 100 < short < MAX_CALLS
    assert long < 1.1 * short


def test_nothing_of_the_front_end_loads_before_a_text_is_read() -> None:
    code = """
import sys, warnings
import joinery as jn
jn.kernel.from_triton_c, jn.TritonCWarning
text = "tt.func public @put(%o: !tt.ptr<i32>, %n: i32) { tt.store %o, %n : !tt.ptr<i32> tt.return }"
jn.kernel.from_ttir(text + chr(10), cache=False).ttir
print([name for name in sys.modules if "triton_c" in name])
jn.kernel.from_triton_c("__global__ void f() {}" + chr(10), cache=False)
print(any("triton_c" in name for name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nTrue\n"
