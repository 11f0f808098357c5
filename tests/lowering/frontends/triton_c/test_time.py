"""Reading a text is fast, and costs nothing where no text is read."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from joinery.lowering.frontends.triton_c.text import build, read

from ....support.durations import scale, unit_of_work

DATA = Path(__file__).resolve().parents[3] / "data" / "triton_c"
LIMIT = 25e-3
"""Seconds of processor time for a kernel of 100 lines, from text to verified block IR, after the first one."""


def test_a_kernel_of_100_lines_takes_25_milliseconds() -> None:
    match = re.search(r"(.*?ldc\) \{\n)(.*)\}\n", (DATA / "e4_product.tc").read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    head, body = match.groups()
    text = head + f"{{\n{body}}}\n" * 6 + "}\n"
    lines = text.count("\n")
    assert lines > 85
    defines = {"TYPE": "half", "TM": "64", "TN": "64", "TK": "32", "ACT": "1"}
    taken = []
    for _ in range(12):
        start = time.process_time()
        build(read(text, defines=defines))
        taken.append(time.process_time() - start)
    assert min(taken[1:]) * 100 / lines < LIMIT * scale(unit_of_work())


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
