"""Compares the two readers of texts, and makes wrong texts for both."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import joinery as jn
from joinery.lowering.frontends.ttir.line_reader import read_lines
from joinery.lowering.frontends.ttir.parser import read_module
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.verify import first_problem
from joinery.promotion.errors import UnsupportedError, UserError

ROOT = Path(__file__).resolve().parents[1] / "data" / "ttir"
TEXTS = {path.parent.name: path.read_text() for path in sorted(ROOT.glob("*/kernel.ttir"))}
PLACE = re.compile(r":\d+:\d+")


def difference(one: Any, other: Any) -> str | None:
    """Describes the first difference between two operations and everything in them; None when there is none."""
    pairs: dict[Any, Any] = {}

    def same(left: Any, right: Any, what: str) -> str | None:
        if pairs.setdefault(left, right) is not right:
            return f"another {what}"
        if left.type != right.type or left.name_hint != right.name_hint:
            return f"{what} {left} or {right}"
        return None

    def compare(left: Any, right: Any) -> str | None:
        for name in ("name", "location", "properties", "attributes"):
            if getattr(left, name) != getattr(right, name):
                return f"{left.name}: {name} {getattr(left, name)} or {getattr(right, name)}"
        if type(left) is not type(right) or list(left.properties) != list(right.properties):
            return f"{left.name}: class or order of properties"
        for name in ("operands", "results", "successors", "regions"):
            if len(getattr(left, name)) != len(getattr(right, name)):
                return f"{left.name}: number of {name}"
        for name in ("operands", "results"):
            for pair in zip(getattr(left, name), getattr(right, name), strict=True):
                if (found := same(*pair, name)) is not None:
                    return f"{left.name}: {found}"
        if any(pairs.setdefault(*pair) is not pair[1] for pair in zip(left.successors, right.successors, strict=True)):
            return f"{left.name}: successors"
        for pair in zip(left.regions, right.regions, strict=True):
            if (found := compare_regions(*pair)) is not None:
                return f"{left.name}: {found}"
        return None

    def compare_regions(left: Any, right: Any) -> str | None:
        if len(left.blocks) != len(right.blocks):
            return "number of blocks"
        for first, second in zip(left.blocks, right.blocks, strict=True):
            if pairs.setdefault(first, second) is not second or first.name_hint != second.name_hint:
                return "another block"
            if len(first.args) != len(second.args) or len(first.ops) != len(second.ops):
                return "number of arguments or operations"
            for pair in zip(first.args, second.args, strict=True):
                if (found := same(*pair, "argument")) is not None or pair[0].location != pair[1].location:
                    return found or "location of an argument"
            for pair in zip(first.ops, second.ops, strict=True):
                if (found := compare(*pair)) is not None:
                    return found
        return None

    return compare(one, other)


def judge(text: str) -> str:
    """Reads a text by both readers, verifies and prints it; returns "refused", "invalid" or "valid". An assertion fails where
    the readers disagree; exceptions other than the library's own are not caught."""
    message = ""
    try:
        strict = read_module(text)
    except UserError as error:
        strict, message = None, str(error)
    assert strict is not None or PLACE.search(message), message
    fast = read_lines(text)
    outcome = "refused"
    if fast is not None:
        assert strict is not None, "the line reader accepts what the strict parser refuses"
        found = difference(strict, fast)
        assert found is None, found
    if strict is not None:
        outcome = "invalid"
        if first_problem(strict) is None:
            outcome = "valid"
            print_module(strict, locations=True)
    try:
        kernel = jn.kernel.from_ttir(text)
    except (UserError, UnsupportedError) as error:
        kernel, message = None, str(error)
    assert kernel is None or (outcome == "valid" and kernel.ttir)
    assert kernel is not None or outcome == "valid" or PLACE.search(message), message
    return outcome


TYPES = [
    "i32", "f32", "i1", "i64", "index", "none", "()->()", "i0", "i129", "si32", "f80", "tensor<4xi32>", "tensor<4xf32>",
    "tensor<2x2xi1>", "tensor<?xi32>", "tensor<*xf32>", "tensor<0xi32>", "tensor<i32>", "tensor<1048576x1048576xf32>",
    "tensor<4xi32, 1 : i32>", "tensor<4x!tt.ptr<i32>>", "vector<4xi32>", "memref<4xi32>", "tuple<i32, i32>", "complex<f32>",
    "!tt.ptr<f32>", "!tt.ptr<tensor<4xi32>>", "!tt.ptr<i32, 3>",
]  # fmt: skip
NUMBERS = ["0", "-1", "1", "3", "99999999999", "9" * 600, "0x10", "1e5", "1048577", "0x" + "F" * 20, "4x4"]
VALUES = ["%undefined", "%_", "%_0", "%a#1", "%0#7"]
CHARACTERS = '(){}[]<>%#@^!"\\,:=-/.0123456789abcxyz_ \n\t\r\0é\u2028٣²\x0b\x0c$*?|'
LOCATIONS = [
    "", " loc(unknown)", ' loc("a":1:2)', " // loc(#loc)", " loc(#loc1)", " loc(fused[#loc, #loc])", ' loc("a//b")',
    ' loc(callsite("a" at "b"))', " loc(#loc77777)", " loc",
]  # fmt: skip
ENDS = [" {a = 1 : i32}", " // note", "{", "}", " {", " attributes {x}", " : i32", " %0", "\\", '"', " ({", "})", "^bb7:"]
LINES = ["module {", "}", "tt.return", "^bb0:", "scf.yield", '"', "} else {", "tt.func @q() {", "scf.if %0 {",
         '#loc1 = loc("x")', "#a = 1 : i32", "!t = i32", "cf.br ^bb1", "%z = arith.constant dense<1> : tensor<4xi32>",
         "{-# #-}", '%q:2 = "tt.reduce"(%0) <{axis = 0 : i32}> ({', "// hello", "module @a attributes {b} {",
         "%f = arith.constant 1.0 : f32", '"builtin.module"() ({', "}) : () -> ()"]  # fmt: skip
WORD = r"[%#@^!]?[\w.]+|\S"
TYPE = r"tensor<[^ ]*>|!tt.ptr<\w+>|\b[if]\d+\b|index"


def _replace(rng: random.Random, line: str, pattern: str, choices: list[str]) -> str:
    found = list(re.finditer(pattern, line))
    if not found:
        return line
    match = rng.choice(found)
    return line[: match.start()] + rng.choice(choices) + line[match.end() :]


def mutate(rng: random.Random, text: str, others: list[str]) -> str:
    """Returns the text with one to three errors."""
    for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
        lines = text.split("\n")
        at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
        kind = rng.choice(
            ["delete", "double", "swap", "cut", "flip", "number", "type", "type", "value", "value", "word", "location", "end",
             "copy", "drop", "foreign", "line"]
        )  # fmt: skip
        if kind == "delete":
            del lines[at]
        elif kind == "double":
            lines.insert(to, lines[at])
        elif kind == "swap":
            lines[at], lines[to] = lines[to], lines[at]
        elif kind == "cut":
            lines = text[: rng.randrange(len(text) + 1)].split("\n")
        elif kind == "flip":
            place = rng.randrange(len(text) + 1)
            lines = (text[:place] + rng.choice(CHARACTERS) + text[place + rng.randrange(2) :]).split("\n")
        elif kind == "number":
            lines[at] = _replace(rng, lines[at], r"\d+", NUMBERS)
        elif kind == "type":
            lines[at] = _replace(rng, lines[at], TYPE, TYPES)
        elif kind == "value":
            lines[at] = _replace(rng, lines[at], r"%[\w.$-]+", VALUES + re.findall(r"%[\w.$-]+", text))
        elif kind == "word":
            lines[at] = _replace(rng, lines[at], r"\S+", re.findall(WORD, rng.choice(others)) or [""])
        elif kind == "location":
            lines[at] = _replace(rng, lines[at], r" loc\(.*\)$", LOCATIONS)
        elif kind == "end":
            lines[at] += rng.choice(ENDS)
        elif kind == "copy":
            lines[at:at] = lines[to : to + rng.randrange(6)]
        elif kind == "drop":
            del lines[at : at + rng.randrange(6)]
        elif kind == "foreign":
            other = rng.choice(others).split("\n")
            start = rng.randrange(len(other))
            lines[at:at] = other[start : start + rng.randrange(1, 5)]
        else:
            lines[at] = rng.choice(LINES)
        text = "\n".join(lines) or "\n"
    return text
