"""Hints of loops are read, kept and printed, and mean nothing; malformed ones are a mistake at their place."""

from __future__ import annotations

import joinery as jn
import pytest


def text(hints: str, before: str = "") -> str:
    return f"""{before}tt.func @f(%n: i32) {{
  scf.for %i = %n to %n step %n : i32 {{
  }} {hints}
  tt.return
}}"""


LICM = "#llvm.loop_licm<disable = true, versioningDisable = true>"


@pytest.mark.parametrize(
    ("hints", "before", "printed"),
    [
        ("{llvm.loop_annotation = #a}", f"#l = {LICM}\n#a = #llvm.loop_annotation<licm = #l>\n", f"licm = {LICM}"),
        ("{llvm.loop_annotation = #llvm.loop_annotation<licm = <disable = true>>}", "",
         "licm = #llvm.loop_licm<disable = true>"),
        ("{llvm.loop_annotation = #llvm.loop_annotation<unroll = <count = 4 : i32>, mustProgress = true>}", "",
         "unroll = #llvm.loop_unroll<count = 4 : i32>, mustProgress = true"),
        ("{llvm.loop_annotation = #llvm.loop_annotation<>}", "", "#llvm.loop_annotation<>"),
        ("{tt.disallow_acc_multi_buffer, tt.flatten, tt.loop_unroll_factor = 2 : i32, tt.warp_specialize}", "",
         "{tt.disallow_acc_multi_buffer, tt.flatten, tt.loop_unroll_factor = 2 : i32, tt.warp_specialize}"),
    ],
)  # fmt: skip
def test_hints_are_kept(hints: str, before: str, printed: str) -> None:
    kernel = jn.kernel.from_ttir(text(hints, before))
    assert printed in kernel.ttir
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir
    plain = jn.kernel.from_ttir(text(""))
    assert kernel.llvm_ir() == plain.llvm_ir()
    assert kernel.ptx("sm_90a") == plain.ptx("sm_90a")


@pytest.mark.parametrize(
    "hints",
    ["<licm>", "<licm = <disable = true>", "<licm = <disable = true>, licm = true>", "<x = <a = 1>>", "<1 = 2>", "<a = 1,>"],
)
def test_malformed_hints(hints: str) -> None:
    with pytest.raises(jn.UserError, match=r"<text>:3:\d+"):
        jn.kernel.from_ttir(text(f"{{llvm.loop_annotation = #llvm.loop_annotation{hints}}}"))
