"""Names and messages come from users: whatever they are, they are names and messages and no code."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.cli.text import wrapped
from joinery.lowering.llvm.ir import Function
from joinery.lowering.llvm.module import Module
from joinery.lowering.llvm.nvptx.symbols import symbol_of
from joinery.promotion.errors import InternalError

NAMES = (
    "x() { ret void } define void @evil", 'a"b', "a b", "é", "名", "a\\b", "a.b", "0x1", "%a", "@", "_", "$", "{", "};", "/*",
    "//", "llvm.trap", "llvm.nvvm.read.ptx.sreg.tid.x", "malloc", "free", "jn_parallel", "jn_text0", "jn_math_exp2_float_float",
    "memcpy", "main", "vprintf", "__assertfail", "__nv_expf", "WARP_SZ", "entry", "add", "tid", ".visible", "x" * 300,
)  # fmt: skip


def quoted(name: str) -> str:
    """As MLIR writes strings."""
    octets = name.encode()
    return "".join(chr(o) if 32 <= o < 127 and o not in b'"\\' else f"\\{o:02X}" for o in octets)


def text_of(name: str) -> str:
    return f"""module {{
  tt.func public @"{quoted(name)}"(%p: !tt.ptr<f32>, %o: !tt.ptr<f32>) {{
    %x = tt.load %p : !tt.ptr<f32>
    %y = math.erf %x : f32
    %z = arith.constant 0.0 : f32
    %c = arith.cmpf oge, %x, %z : f32
    tt.assert %c, "below zero" : i1
    tt.print " y: " {{hex = false, isSigned = array<i32: 1>}} : %y : f32
    tt.store %o, %y : !tt.ptr<f32>
    tt.return
  }}
}}"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", NAMES)
def test_any_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    k = jn.kernel.from_ttir(text_of(name))
    assert k.name == name
    assert jn.kernel.from_ttir(k.ttir).name == name
    ptx = k.ptx("sm_80")
    (entry,) = re.findall(r"\.entry ([^(]*)\(", ptx)
    assert re.fullmatch(r"[A-Za-z][\w$]*|[_$][\w$]+", entry, re.ASCII)
    assert "evil" not in ptx.replace(entry, "")
    for device in ("cpu", "ptxsim"):
        out = np.zeros(1, np.float32)
        k.launch(1, np.ones(1, np.float32), out, device=device)
        np.testing.assert_allclose(out, 0.8427008, rtol=1e-6)
        assert "y: 0.84270" in capsys.readouterr().out
        with pytest.raises(jn.KernelAssertionError, match="below zero"):
            k.launch(1, -np.ones(1, np.float32), out, device=device)
        capsys.readouterr()


@pytest.mark.parametrize("name", ["", "a\nb", "\0", "\x1b[2J", "a\u202eb", "\x7f", "x" * 5000])
def test_names_that_cannot_be_shown(name: str) -> None:
    with pytest.raises(jn.UserError, match=r"(?s)the name.*at: <text>:2:3"):
        jn.kernel.from_ttir(text_of(name))


def test_symbols_differ_as_names_do() -> None:
    assert symbol_of("softmax_kernel") == "softmax_kernel"
    assert len({symbol_of(name) for name in (*NAMES, "a_b", symbol_of("a b"))}) == len(NAMES) + 2
    assert all(len(symbol_of(name)) < 256 for name in NAMES)


@pytest.mark.parametrize("name", ["", "a b", "é", "x()", 'a"', "a\nb", "1a"])
def test_nothing_else_gets_into_the_code(name: str) -> None:
    with pytest.raises(InternalError, match="no name"):
        Function(Module(), name, [])
    with pytest.raises(InternalError, match="no name"):
        Module().declare(name, "void", [])


def test_terminals_show_what_would_control_them() -> None:
    assert wrapped("a\x1b[2J\x9bb\x7fc\nd") == "a\\x1b[2J\\x9bb\\x7fc\nd"


MESSAGE = '"a\\22, i32 0)\\0A  ret void }  %d %n %s \\\\"'


@pytest.mark.parametrize("device", ["cpu", "ptxsim"])
def test_messages_are_shown_as_they_are_in_one_line(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Quotes and formats mean nothing in them, and a line end is escaped: none of their lines passes for another message."""
    k = jn.kernel.from_ttir(f"""tt.func public @k(%n: i32) {{
      tt.print {MESSAGE} {{hex = false, isSigned = array<i32: 1>}} : %n : i32
      %z = arith.constant 0 : i32
      %c = arith.cmpi sge, %n, %z : i32
      tt.assert %c, {MESSAGE} : i1
      tt.return
    }}""")
    shown = 'a", i32 0)\\n  ret void }  %d %n %s \\'
    k.launch(1, 5, device=device)
    assert capsys.readouterr().out == f"pid (0, 0, 0) idx (){shown}5\n"
    with pytest.raises(jn.KernelAssertionError, match=re.escape(shown)):
        k.launch(1, -5, device=device)


@pytest.mark.parametrize(
    "line",
    ['tt.print " a\\00b" {hex = false, isSigned = array<i32>}', 'tt.assert %c, "a\\00b" : i1', 'cf.assert %c, "a\\00b"'],
)
def test_messages_with_a_zero_byte(line: str) -> None:
    """A device would show what comes before it."""
    k: Any = jn.kernel.from_ttir(f"tt.func public @k(%c: i1) {{\n  {line}\n  tt.return\n}}")
    with pytest.raises(jn.UnsupportedError, match="zero byte"):
        k.ptx("sm_80")
