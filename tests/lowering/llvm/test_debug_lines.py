"""Line tables of kernels from texts: what `loc(…)` of a text says reaches LLVM, PTX, the assembler's code and the simulator."""

from __future__ import annotations

import re
from pathlib import Path

import joinery as jn
import llvmlite.binding as llvm
import numpy as np
import pytest
from joinery.lowering.llvm.metadata import MAX_FILE, Metadata, SourceLine
from joinery.lowering.ptx.module_parser import parse_module
from joinery.runtime.ptxsim.checks.findings import PtxCheckError

from ...support.corpus import ROOT
from ...support.lines import assemble, line_rows, lines_of, sections, without_lines

CORPUS = sorted(ROOT.glob("*/kernel.ttir"))
FILES = CORPUS[::24]
BOTH_TIERS = [pytest.param(path, marks=() if path in FILES else pytest.mark.slow) for path in CORPUS]
KERNEL = """
#loc = loc("kernel.py":10:0)
module {{
  tt.func public @scale(%p: !tt.ptr<f32> loc("p"(#loc)), %n: i32 {{tt.divisibility = 16 : i32}} loc("n"(#loc))) {{
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32> loc(#loc1)
    %q = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>> loc(#loc1)
    %a = tt.addptr %q, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32> loc(#loc1)
    %x = tt.load %a : tensor<64x!tt.ptr<f32>> loc(#loc2)
    %y = math.exp %x : tensor<64xf32> loc({location})
    tt.store %a, %y : tensor<64x!tt.ptr<f32>> loc(#loc5)
    tt.return loc(#loc6)
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc("kernel.py":11:8)
#loc2 = loc("x"(#loc3))
#loc3 = loc("kernel.py":12:12)
#loc4 = loc("helper.py":40:4)
#loc5 = loc("kernel.py":14:4)
#loc6 = loc("kernel.py":15:4)
"""


def kernel(location: str = '"kernel.py":13:12', debug: bool = True) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(KERNEL.format(location=location), debug=debug)


def loc_lines(ptx: str) -> list[tuple[int, int, int]]:
    return [(int(m[1]), int(m[2]), int(m[3])) for m in re.finditer(r"^\s*\.loc\s+(\d+) (\d+) (\d+)$", ptx, re.M)]


def test_locations_of_a_text_reach_ptx_with_their_columns() -> None:
    found = loc_lines(kernel().ptx("sm_80"))
    assert {(line, column) for _, line, column in found} == {(10, 0), (11, 8), (12, 12), (13, 12), (14, 4)}
    assert '.file\t1 "kernel.py"' in kernel().ptx("sm_80")
    parsed = parse_module(kernel().ptx("sm_80")).functions["scale"]
    assert {found for found in parsed.locations if found} == {("kernel.py", line) for line in range(10, 15)}


def test_inlined_code_has_the_callees_line(tmp_path: Path) -> None:
    called = kernel("callsite(#loc4 at #loc1)")
    ptx = called.ptx("sm_80")
    files = dict(re.findall(r'\.file\s+(\d+) "([^"]*)"', ptx))
    assert {(files[str(file)], line) for file, line, _ in loc_lines(ptx)} > {("helper.py", 40), ("kernel.py", 12)}
    assert 40 in {line for _, line in line_rows(assemble(ptx, "sm_80", tmp_path))}


def test_of_fused_locations_the_first_counts() -> None:
    assert (13, 1) in {place[1:] for place in loc_lines(kernel('fused["kernel.py":13:1, "kernel.py":99:1]').ptx("sm_80"))}


def test_locations_of_a_text_reach_the_hosts_object(tmp_path: Path) -> None:
    code = kernel()._lowered(None).object_code()
    (tmp_path / "kernel.o").write_bytes(code)
    assert lines_of(tmp_path / "kernel.o", "jn_kernel") >= {10, 13, 14}  # the load became an operand
    assert sections(code) == sections(kernel(debug=False)._lowered(None).object_code())


@pytest.mark.one_in(8)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_instructions_of_the_corpus_are_the_same_with_lines(path: Path) -> None:
    plain, debug = (jn.kernel.from_ttir(path, debug=on) for on in (False, True))
    assert plain.ptx("sm_80") == without_lines(debug.ptx("sm_80"))
    assert sections(plain._lowered(None).object_code()) == sections(debug._lowered(None).object_code())


def test_lines_are_there_after_passes_of_the_users_choice() -> None:
    k, plain = kernel(), kernel(debug=False)
    host, gpu = k.pipeline(), k.pipeline("sm_80")
    assert k.llvm_ir(passes=host) == k.llvm_ir()
    assert k.asm(passes=host) == k.asm()
    assert k.llvm_ir("sm_80", passes=gpu) == k.llvm_ir("sm_80")
    assert loc_lines(k.ptx("sm_80", passes=gpu)) == loc_lines(k.ptx("sm_80"))
    assert "!DILocation" in k.llvm_ir(passes=host)
    assert "!DILocation" in k.llvm_ir("sm_80", passes=gpu)
    assert loc_lines(k.ptx("sm_80", passes=gpu))
    assert "!dbg" not in plain.llvm_ir(passes=host) + plain.llvm_ir("sm_80", passes=gpu)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("path", BOTH_TIERS, ids=lambda path: path.parent.name)
def test_the_text_after_a_pass_is_that_of_its_stage(path: Path) -> None:
    k = jn.kernel.from_ttir(path)
    stages = k.stages()
    assert {name: k.ttir_after(name) for name in k.passes} == stages
    assert k.ttir_through(k.pipeline()) == stages[k.passes[-1]]
    assert ("loc(" in k.ttir) == all("loc(" in text for text in stages.values())


def test_a_text_without_locations_has_no_line_table() -> None:
    text = re.sub(r"#loc\d* = .*|loc\(.*?\)\)?(?=[,)\n])", "", KERNEL.format(location="unknown"))
    assert "loc(" not in text
    plain, debug = (jn.kernel.from_ttir(text, debug=on) for on in (False, True))
    assert plain.ptx("sm_80") == debug.ptx("sm_80")
    assert plain.llvm_ir() == debug.llvm_ir()


def test_without_debug_there_are_no_lines() -> None:
    plain = kernel(debug=False)
    assert ".loc" not in plain.ptx("sm_80")
    assert "!dbg" not in plain.llvm_ir()


def test_locations_print_and_read_back() -> None:
    text = kernel().ttir
    assert jn.kernel.from_ttir(text).ttir == text
    assert 'loc("x"("kernel.py":12:12))' in text
    assert '%n: i32 {tt.divisibility = 16 : i32} loc("n"("kernel.py":10:0))' in text, "as MLIR prints it"
    assert "loc(" not in kernel().text(locations=False)


def test_the_simulator_names_the_kernels_line() -> None:
    with pytest.raises(PtxCheckError, match=r"bounds: .*\[kernel\.py:12\]"):
        kernel().launch(1, np.ones(8, np.float32), 8, device="ptxsim")


def test_unsupported_operations_name_the_kernels_line() -> None:
    text = KERNEL.format(location="#loc4").replace(
        "    tt.store",
        "    %b = tt.atomic_rmw fadd, acq_rel, gpu, %a, %y : (tensor<64x!tt.ptr<f32>>, tensor<64xf32>) -> "
        "tensor<64xf32> loc(#loc4)\n    tt.store",
    )
    with pytest.raises(jn.UnsupportedError, match=r"helper\.py:40"):
        jn.kernel.from_ttir(text, numerics="reproducible").llvm_ir()


HOSTILE = {
    "quotes": r'a \22quoted\22 name.py',
    "backslash": r"dir\\kernel.py",
    "text": "m\u00f6del \u2603.py",
    "escaped": r"m\C3\B6del.py",
    "broken": r"m\C3del.py",
    "control": r"a\0Ab\09c\00d\1B[31m.py",
    "comment": "/* */ // ; { } ) .py",
    "long": "x" * 3_000_000,
    "empty": "",
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_of_a_file_is_escaped(name: str, tmp_path: Path) -> None:
    text = KERNEL.format(location=f'"{HOSTILE[name]}":13:12')
    if name == "broken":  # no text
        with pytest.raises(jn.UserError):
            jn.kernel.from_ttir(text, debug=True)
        return
    k = jn.kernel.from_ttir(text, debug=True)
    llvm.parse_assembly(k.llvm_ir()).verify()
    ptx = k.ptx("sm_80")
    assert len(ptx) < 20_000
    assert ptx.isascii()
    assert all(line.count('"') == 2 for line in ptx.split("\n") if ".file" in line)
    assert {line for _, line in line_rows(assemble(ptx, "sm_80", tmp_path))} >= {12, 13, 14}
    values = np.zeros(64, np.float32)
    k.launch(1, values, 64)
    k.launch(1, values, 64, device="ptxsim")
    assert np.allclose(values, np.e)


@pytest.mark.parametrize("place", ["999999999:3", "4294967296:3", "99999999999999999999:3", "0:0", "13:65536", "13:4294967299"])
def test_any_number_is_a_line(place: str, tmp_path: Path) -> None:
    k = kernel(f'"kernel.py":{place}')
    llvm.parse_assembly(k.llvm_ir()).verify()
    assemble(k.ptx("sm_80"), "sm_80", tmp_path)


def test_long_names_keep_their_end() -> None:
    metadata = Metadata("LineTablesOnly")
    metadata.subprogram("f", SourceLine("\u00fc" * 5000 + "/model.py", 3))
    (file,) = [node for node in metadata.nodes if node.startswith("!DIFile")]
    shown = re.fullmatch(r'!DIFile\(filename: "\.\.\.(.*)", directory: ""\)', file)
    assert shown is not None
    name = re.sub(rb"\\(..)", lambda m: bytes.fromhex(m[1].decode()), shown[1].encode()).decode()
    assert name.endswith("\u00fc/model.py")
    assert MAX_FILE - 4 <= len(name.encode()) + 3 <= MAX_FILE
