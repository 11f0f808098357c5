"""Mutates by structure: texts by tokens and lines, JSON values by their tree, bytes by fields and blocks."""

from __future__ import annotations

import copy
import re
from typing import Any

from .choices import Choices

_STRING, _NAME, _NUMBER = (
    r'"(?:[^"\\\n]|\\.)*"',
    r"[%@^#!]?[A-Za-z_][\w.$]*|[%@^#!]\d+",
    r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?",
)
TOKEN = re.compile(rf"{_STRING}|{_NAME}|{_NUMBER}|->|\s+|.", re.DOTALL)
NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "8", "64", "65", "255", "256", "1024", "65536", "2147483647", "2147483648", "-2147483648",
    "4294967296", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "99999999999999999999999999",
    "0.5", "-0.0", "1e400", "0x7F800000",
)  # fmt: skip
STRINGS = ('""', '"x"', '"a b"', '"é"', '"\\n"', '"\\\\"', '"%d"', '"' + "y" * 300 + '"', '"../x"', '"nan"')
WORDS = (
    "n",
    "f32",
    "f16",
    "i1",
    "i64",
    "float16",
    "bfloat16",
    "int8",
    "bool",
    "float8_e4m3fn",
    "int4",
    "x",
    "true",
)
TREES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 63, 64, 2**31, 2**53, 2**63, 2**64, 10**40, 0.5, -0.0, 1e308, "", "x", "float32", "n",
    "n*m", "2*n - 7", "é\n\"", "x" * 5000, [], {}, [0], [[]], {"": None}, ["float32"],
)  # fmt: skip
DEEP = 400
FAMILIES: tuple[tuple[str, ...], ...] = (
    tuple([f"arith.{name}" for name in (
        "addi", "subi", "muli", "andi", "ori", "xori", "divsi", "divui", "remsi", "remui", "shli", "shrsi", "shrui", "maxsi",
        "maxui", "minsi", "minui",
    )]),
    tuple([f"arith.{name}" for name in ("addf", "subf", "mulf", "divf")]),
    ("arith.negf", "math.absf", "math.sqrt", "math.floor", "math.ceil", "math.trunc", "math.roundeven"),
    ("arith.extsi", "arith.extui"), ("arith.sitofp", "arith.uitofp"), ("arith.fptosi", "arith.fptoui"),
    tuple([f"arith.cmpi {name}," for name in ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")]),
    tuple([f"arith.cmpf {name}," for name in ("oeq", "olt", "ole", "one", "ord", "ueq", "ult", "uge", "une", "uno")]),
    tuple([f" = {name}(" for name in ("add", "sub", "mul", "div", "minimum", "maximum", "mod", "rem", "floor_div")]),
    tuple([f" = {name}(" for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")]),
    tuple([f" = {name}(" for name in ("negate", "abs", "sqrt", "exp", "log", "sin", "tanh", "floor", "round", "relu", "sign")]),
    tuple([f" = {name}(" for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "mean")]),
)  # fmt: skip
"""Operations that may replace each other: the result is mostly valid, and means something else."""
OPERATION = re.compile("|".join(re.escape(name) for family in FAMILIES for name in sorted(family, key=len, reverse=True)))


def mutated_text(choices: Choices, text: str, most: int = 3) -> str:
    """Makes few changes, mostly such that the result may be valid: a text that is refused at once tests little."""
    for _ in range(min(most, choices.one(1, 1, 1, 2, 3))):
        text = choices.weighted(
            ((8, _tokens), (8, _everywhere), (8, _operation), (6, _shifted), (4, _lines), (1, _other), (1, _nested))
        )(choices, text)
    return text


def _everywhere(choices: Choices, text: str) -> str:
    """Replaces one number or word by another wherever it occurs: extents and types stay consistent."""
    tokens = TOKEN.findall(text)
    found = [token for token in dict.fromkeys(tokens) if _sort(token) in ("number", "word")]
    if not found:
        return text
    token = choices.one(*found)
    alike = [other for other in found if _sort(other) == _sort(token)]
    other = choices.one(*alike, *(NUMBERS[:9] if _sort(token) == "number" else WORDS))
    return "".join([other if each == token else each for each in tokens])


def _operation(choices: Choices, text: str) -> str:
    """Replaces one operation by another of its family."""
    places = list(OPERATION.finditer(text))
    if not places:
        return text
    place = choices.one(*places)
    family = next(family for family in FAMILIES if place[0] in family)
    return text[: place.start()] + choices.one(*family) + text[place.end() :]


def _shifted(choices: Choices, text: str) -> str:
    """Adds one amount to all numbers between the braces of a line, or after its first: a slice of the same
    length elsewhere."""
    lines = text.splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if re.search(r"\{.*\d", line)]
    if not places:
        return text
    at, amount = choices.one(*places), choices.one(1, -1, 2, 7, -7, 1000, 2**31, 2**63)
    head, brace, rest = lines[at].partition("{")
    inside, closing, tail = rest.partition("}")
    inside = re.sub(r"(?<![\w.\"-])-?\d+(?![\w.])", lambda found: str(int(found[0]) + amount), inside)
    lines[at] = head + brace + inside + closing + tail
    return "".join(lines)


def _tokens(choices: Choices, text: str) -> str:
    tokens = TOKEN.findall(text)
    places = [at for at, token in enumerate(tokens) if not token.isspace()]
    if not places:
        return text
    at = choices.one(*places)
    token = tokens[at]
    alike = [other for other in dict.fromkeys(tokens) if _sort(other) == _sort(token)]
    how = choices.below(8)
    if how == 0:
        tokens[at] = ""
    elif how == 1:
        tokens[at] = token * 2
    elif how == 2:
        other = choices.one(*places)
        tokens[at], tokens[other] = tokens[other], token
    elif _sort(token) == "number" and how < 7:
        near = [str(int(token) + step) for step in (1, -1, 2, int(token))] if token.isdigit() else []
        tokens[at] = choices.one(*near, *near, *near, *NUMBERS, *alike)
    elif _sort(token) == "string" and how < 7:
        tokens[at] = choices.one(*STRINGS, *alike)
    elif _sort(token) == "word" and how == 3:
        tokens[at] = choices.one(*WORDS)
    else:
        tokens[at] = choices.one(*alike)
    return "".join(tokens)


def _sort(token: str) -> str:
    if token[0] == '"':
        return "string"
    if token[0].isdigit():
        return "number"
    if token[0] in "%@^#!" and len(token) > 1:
        return token[0]
    return "word" if token[0].isalpha() else "sign"


def _lines(choices: Choices, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at, other = choices.below(len(lines)), choices.below(len(lines))
    how = choices.below(4)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(other, lines[at])
    elif how == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        del lines[min(at, other) : min(max(at, other), min(at, other) + 5)]
    return "".join(lines)


def _other(choices: Choices, text: str) -> str:
    """Inserts a character anywhere."""
    at = choices.below(len(text) + 1)
    return (
        text[:at]
        + choices.one(" ", "\n", ",", "(", ")", "{", "}", "<", ">", "-", "\0", "é", '"', "//", "x" * 200)
        + text[at:]
    )


def _nested(choices: Choices, text: str) -> str:
    at = choices.below(len(text) + 1)
    left, right = choices.one(
        ("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"), ("tensor<2x", ">"), ("!tt.ptr<", ">")
    )
    depth = choices.one(2, DEEP, 40 * DEEP)
    return text[:at] + left * depth + text[at : at + 1] + right * depth + text[at + 1 :]


def mutated_tree(choices: Choices, value: Any) -> Any:
    value = copy.deepcopy(value)
    for _ in range(choices.one(1, 1, 1, 2, 3)):
        places = list(_places(value))
        if not places:
            return choices.one(*TREES)
        container, key = choices.one(*places)
        how = choices.below(10)
        current = container[key]
        if how >= 8:  # another value of the same sort
            alike = [donor[place] for donor, place in places if type(donor[place]) is type(current)]
            container[key] = copy.deepcopy(choices.one(*alike))
        elif how == 0:
            del container[key]
        elif how == 1 and isinstance(container, list):
            container.insert(key, current)
        elif how == 1:
            container[f"{key}{choices.one('', '_', '2')}"] = current
        elif how == 2:
            donor, place = choices.one(*places)
            container[key] = copy.deepcopy(donor[place])
        elif how == 3 and isinstance(current, str):
            container[key] = mutated_text(choices, current, 1)
        elif how == 4 and isinstance(current, int) and not isinstance(current, bool):
            container[key] = current + choices.one(1, -1, 8, -64, 2**32, -(2**63))
        elif how == 5:
            nested: Any = current
            for _ in range(choices.one(1, 50, DEEP)):
                nested = [nested]
            container[key] = nested
        else:
            container[key] = copy.deepcopy(choices.one(*TREES))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Returns every (container, key) of a tree."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        container = pending.pop()
        keys = (
            list(container)
            if isinstance(container, dict)
            else range(len(container))
            if isinstance(container, list)
            else ()
        )
        for key in keys:
            found.append((container, key))
            pending.append(container[key])
    return found


def mutated_bytes(choices: Choices, data: bytes) -> bytes:
    for _ in range(choices.one(1, 1, 2, 3)):
        at = choices.below(max(1, len(data)))
        how = choices.below(5)
        if how == 0:
            data = data[:at]
        elif how == 1:
            data = data[:at] + bytes([choices.below(256)]) + data[at + 1 :]
        elif how == 2:
            data = (
                data[:at]
                + choices.one(b"\xff" * 8, b"\0" * 8, (2**63).to_bytes(8, "little"))
                + data[at + 8 :]
            )
        elif how == 3:
            data = data + bytes(choices.one(1, 64, 4096))
        else:
            data = data[:at] + data[at + choices.one(1, 8, 64) :]
    return data
