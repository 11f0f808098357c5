"""PTX statements: what is read, how names are resolved, and what hostile text gets."""

from __future__ import annotations

import joinery as jn
import pytest
from joinery.lowering.ptx.instructions import decode
from joinery.lowering.ptx.parser import MAX_DEPTH, MAX_STATEMENTS, parse_body
from joinery.lowering.ptx.syntax import (
    Address,
    Directive,
    Float,
    Instruction,
    Integer,
    Label,
    Name,
    Pair,
    Register,
    Scope,
    Sink,
    Special,
    Vector,
)


def test_a_body_with_everything() -> None:
    body = parse_body(
        """
        .reg .pred p<2>;  // two predicates
        .reg .b32 %r<4>, t; /* more
        than one line */
        loop:
        @!p1 setp.lt.s32 p0|_, %r0, -5;
        mov.b64 {%r1, %r2}, 0d3FF0000000000000;
        .loc 1 65 1
        ld.shared::cta.b32 t, [%r3+-8];
        mov.u32 t, %tid.x;
        add.f32 t, 0f3F800000, 1.5;
        bra loop;
        .pragma "nounroll";
        .shared .align 4 .b8 s[16];
        """
    )
    label, setp, pack, load, special, add, branch, directive = body.statements
    assert label == Label("loop", 5)
    assert setp == Instruction(
        "setp", ("lt", "s32"), (Pair(Register("p0"), Sink()), Register("%r0"), Integer(-5)), Register("p1", True), 6
    )
    assert isinstance(pack, Instruction)
    assert pack.operands == (Vector((Register("%r1"), Register("%r2"))), Float(0x3FF0000000000000, 64))
    assert isinstance(load, Instruction)
    assert load.modifiers == ("shared::cta", "b32")
    assert load.operands[1] == Address(Register("%r3"), -8, ())
    assert isinstance(special, Instruction)
    assert special.operands[1] == Special("%tid.x")
    assert isinstance(add, Instruction)
    assert add.operands[1:] == (Float(0x3F800000, 32), Float(0x3FF8000000000000, 64))
    assert isinstance(branch, Instruction)
    assert branch.operands == (Name("loop"),)
    assert isinstance(directive, Directive)
    assert body.registers["p1"] == "pred"
    assert body.registers["%r3"] == "b32"


def test_scopes_have_their_own_registers() -> None:
    body = parse_body("{ .reg .b32 a; { .reg .b64 a; mov.b64 a, 1; } mov.b32 a, 2; } { .reg .b16 a; mov.b16 a, 3; }")
    outer, last = body.statements
    assert isinstance(outer, Scope)
    assert isinstance(last, Scope)
    inner, after = outer.statements
    assert isinstance(inner, Scope)
    names = [s.operands[0] for s in (*inner.statements, after, *last.statements) if isinstance(s, Instruction)]
    types = [body.registers[name.name] for name in names if isinstance(name, Register)]
    assert types == ["b64", "b32", "b16"]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("0x7fff7fff", 0x7FFF7FFF), ("0x7773U", 0x7773), ("-2147483648", -(1 << 31)), ("017", 15), ("0b101", 5), ("0", 0),
        ("12U", 12),
    ],
)
def test_integers(literal: str, value: int) -> None:
    (statement,) = parse_body(f".reg .b32 a; mov.b32 a, {literal};").statements
    assert isinstance(statement, Instruction)
    assert statement.operands[1] == Integer(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: '{' without '}'"),
        ("\n\n}", "line 3: '}' without '{'"),
        ("{" * (MAX_DEPTH + 5), "nested deeper"),
        ("mov.b32 a, " + "{" * 100, "nested deeper"),
        ("mov.b32 a, " + "[" * 100, "nested deeper"),
        (".reg .b32 a;" * 2, "register a is declared twice"),
        (".reg .v4 a;", "no register type"),
        (".reg .b32 a", "expected ';'"),
        (".reg .b32 %r<x>;", "how many registers"),
        ("add.s32 a, b", "expected ';' at the end of add.s32"),
        ("add.s32 a, ;", "expected an operand"),
        ("add.s32 a,, b;", "expected an operand"),
        ("@p mov.b32 a, b;", "declared predicate"),
        ("@ mov.b32 a, b;", "declared predicate"),
        ("1 + 2;", "expected an instruction, found '1'"),
        ("mov.b32 a, \x01;", "no token"),
        ("/* never", "comment that does not end"),
        ("mov.b32 a, 09;", "no octal"),
        ("mov.b32 a, " + "9" * 80 + ";", "too long"),
        ("mov.b32 a, !5;", "predicate register"),
        ("mov.b32 a, -b;", "stands before a number"),
        (".shared .b8 x[4]", "does not end with ';'"),
        ("x;" * (MAX_STATEMENTS + 2), "more than"),
        ("a" * (1 << 21), "characters"),
        ("f " + "a," * 2000, "operands"),
    ],
)
def test_hostile_text_gets_a_line(text: str, message: str) -> None:
    with pytest.raises(jn.UserError, match="PTX") as caught:
        parse_body(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("add.s32 a, a;", jn.UserError, "2 operands, expected 3"),
        ("add.s64 a, a, a;", jn.UserError, "register a is b32, expected 64 bits"),
        ("add.s32 5, a, a;", jn.UserError, "literal 5 is no destination"),
        ("add.s32 a, b, a;", jn.UserError, "b is no register of this text"),
        ("add.s32 a, 0f3F800000, a;", jn.UserError, "a float literal for s32"),
        ("add.f64 w, 0f3F800000, w;", jn.UserError, "32-bit float literal for f64"),
        ("add.s32 a, !a, a;", jn.UserError, "!a is no predicate"),
        ("mov.b64 w, {a, w};", jn.UserError, "expected a register of 32 bits"),
        ("mov.b64 w, {a, a, a};", jn.UserError, "3 registers do not make b64"),
        ("mov.b64 {a, a}, {a, a};", jn.UserError, "a vector on both sides"),
        ("setp.lt.and.s32 p, a, a;", jn.UserError, "a third source"),
        ("setp.lt.s32 p, a, a, p;", jn.UserError, "a third source"),
        ("add.s32 a|a, a, a;", jn.UserError, "two destinations"),
        ("add.q32 a, a, a;", jn.UnsupportedError, "combination of modifiers"),
        ("add.s32.s32 a, a, a;", jn.UnsupportedError, "combination of modifiers"),
        ("add.rn.rz.f32 a, a, a;", jn.UnsupportedError, "combination of modifiers"),
        ("mul.s32 a, a, a;", jn.UnsupportedError, "combination of modifiers"),
        ("setp.equ.s32 p, a, a;", jn.UnsupportedError, "combination of modifiers"),
        ("frob.b32 a, a;", jn.UnsupportedError, "no such instruction"),
        ("prtm.b32 a, a, a, a;", jn.UnsupportedError, "near: prmt"),
        ("ld.global.b32 a, [w];", jn.UnsupportedError, "ld.global.b32: reaches for memory"),
        ("bar.sync 0;", jn.UnsupportedError, "bar.sync: reaches for other threads"),
        ("bra x;", jn.UnsupportedError, "bra: reaches for control"),
        ("mov.u32 a, %tid.x;", jn.UnsupportedError, "the special register %tid.x"),
        ("mov.u32 a, %laneid;", jn.UnsupportedError, "the special register %laneid"),
    ],
)
def test_instructions_that_do_not_fit(statement: str, error: type[Exception], message: str) -> None:
    body = parse_body(".reg .b32 a; .reg .b64 w; .reg .pred p;\n" + statement)
    (instruction,) = body.statements
    assert isinstance(instruction, Instruction)
    with pytest.raises(error, match="PTX line 2") as caught:
        decode(instruction, body.registers)
    assert message in str(caught.value)


def test_modifiers_stand_in_any_order() -> None:
    body = parse_body(".reg .b32 a; add.rn.ftz.f32 a, a, a; add.ftz.rn.f32 a, a, a;")
    first, second = (decode(s, body.registers) for s in body.statements if isinstance(s, Instruction))
    assert first.flags == second.flags == {"rn", "ftz"}
