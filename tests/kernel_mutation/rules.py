"""What may be made wrong in the text of a kernel: one rule for each kind of change.

A rule yields (what was changed, the changed text). It need not look at dominance or types beyond a line: a text that does not
verify is counted and left out.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

Changes = Iterator[tuple[str, str]]
_NAME = r"%[\w.]+(?:#\d+)?"
_SHAPED = r"tensor<[\dx]+x"
_DEFINED = re.compile(rf"^ *({_NAME}) = (arith|tt)\.(\w+)\b([^\n]*?) : ([^\n]*?)(?: loc\([^\n]*)?$", re.MULTILINE)
_AS_TYPED = frozenset(
    (
        *("constant", "addi", "subi", "muli", "divsi", "remsi", "andi", "ori", "xori", "minsi", "maxsi"),
        *("get_program_id", "make_range"),
    )
)
"""Operations whose only written type is that of their result."""
_MOST_OTHERS = 5
"""Values that one operand is exchanged for."""


class Mutant(NamedTuple):
    kind: str
    change: str
    text: str


def _replaced(text: str, found: re.Match[str], by: str) -> str:
    return text[: found.start()] + by + text[found.end() :]


def _exchanged(text: str, pattern: str, *others: str) -> Changes:
    """Every place of a pattern as each of the templates."""
    for found in re.finditer(pattern, text):
        for other in others:
            by = found.expand(other)
            if by != found[0]:
                yield f"{found[0]} -> {by}", _replaced(text, found, by)


def _line(found: re.Match[str]) -> str:
    return found[0].strip().partition(" loc(")[0]


@functools.lru_cache(maxsize=4)
def _values(text: str) -> dict[str, list[tuple[int, str]]]:
    """(place, name) of integers by type: parameters, and what lines define whose type is easily read."""
    found: dict[str, list[tuple[int, str]]] = {}
    for each in re.finditer(r"(%[\w.]+): (i32|i64)\b", text):
        found.setdefault(each[2], []).append((each.start(), each[1]))
    for each in _DEFINED.finditer(text):
        name, operation, types = each[1], each[3], each[5]
        if operation == "cmpi":
            of = re.sub(r"i\d+(>?)$", r"i1\1", types)
        elif operation in ("splat", "expand_dims", "broadcast") and "->" in types:
            of = types.rpartition("-> ")[2]
        elif operation in ("extsi", "extui", "trunci"):
            of = types.rpartition(" to ")[2]
        elif operation in _AS_TYPED:
            of = types
        else:
            continue
        if re.fullmatch(r"(tensor<[\dx]+x)?i(1|32|64)>?", of):
            found.setdefault(of, []).append((each.start(), name))
    return found


def _others(text: str, place: int, of: str, but: str) -> list[str]:
    """Values of a type that stand before a place, the nearest first, but for one of them."""
    names = [name for at, name in _values(text).get(of, ()) if at < place and name != but]
    return list(dict.fromkeys(reversed(names)))[:_MOST_OTHERS]


def _comparisons_by_one(text: str) -> Changes:
    for here, other in (("slt", "sle"), ("sle", "slt"), ("sgt", "sge"), ("sge", "sgt"), ("ult", "ule"), ("ule", "ult")):
        yield from _exchanged(text, rf"arith\.cmpi {here}, ", f"arith.cmpi {other}, ")


def _comparisons_dropped(text: str) -> Changes:
    yield from _exchanged(text, rf"arith\.cmpi (?:[su][lg][te]|ne), ({_NAME}), {_NAME}", r"arith.cmpi eq, \1, \1")


def _comparisons_turned(text: str) -> Changes:
    yield from _exchanged(text, rf"arith\.cmpi ([su])l([te]), ({_NAME}), ({_NAME})", r"arith.cmpi \1g\2, \3, \4")
    yield from _exchanged(text, rf"arith\.cmpi ([su])g([te]), ({_NAME}), ({_NAME})", r"arith.cmpi \1l\2, \3, \4")
    yield from _exchanged(text, r"arith\.cmpi eq, ", "arith.cmpi ne, ")
    yield from _exchanged(text, r"arith\.cmpi ne, ", "arith.cmpi eq, ")


def _signedness(text: str) -> Changes:
    yield from _exchanged(text, r"arith\.cmpi s([lg][te])", r"arith.cmpi u\1")
    yield from _exchanged(text, r"arith\.cmpi u([lg][te])", r"arith.cmpi s\1")
    for name in ("div", "rem"):
        yield from _exchanged(text, rf"arith\.{name}si\b", f"arith.{name}ui")
        yield from _exchanged(text, rf"arith\.{name}ui\b", f"arith.{name}si")
    yield from _exchanged(text, r"arith\.(min|max)si\b", r"arith.\1ui")
    yield from _exchanged(text, r"arith\.shrsi\b", "arith.shrui")
    yield from _exchanged(text, r"arith\.shrui\b", "arith.shrsi")


def _extensions(text: str) -> Changes:
    yield from _exchanged(text, r"arith\.extsi\b", "arith.extui")
    yield from _exchanged(text, r"arith\.extui\b", "arith.extsi")


def _halves_of_masks(text: str) -> Changes:
    pattern = rf"arith\.(andi|ori) ({_NAME}), ({_NAME}) : ({_SHAPED}i1>|i1)"
    yield from _exchanged(text, pattern, r"arith.\1 \2, \2 : \4", r"arith.\1 \3, \3 : \4")
    yield from _exchanged(text, pattern.replace("andi|ori", "andi"), r"arith.ori \2, \3 : \4")


def _masks_dropped(text: str) -> Changes:
    yield from _exchanged(text, rf"(tt\.load {_NAME}), {_NAME}(?:, {_NAME})?", r"\1")
    yield from _exchanged(text, rf"(tt\.store {_NAME}, {_NAME}), {_NAME}", r"\1")
    atomic = rf"(tt\.atomic_rmw \w+, \w+, \w+, {_NAME}, {_NAME}), {_NAME} : \((.*), (?:{_SHAPED})?i1>?\) ->"
    yield from _exchanged(text, atomic, r"\1 : (\2) ->")
    for found in re.finditer(r"boundaryCheck = array<i32: ([\d, ]+)>", text):
        axes = found[1].split(", ")
        for axis in axes:
            kept = ", ".join(each for each in axes if each != axis)
            by = f"boundaryCheck = array<i32: {kept}>" if kept else "boundaryCheck = array<i32>"
            yield f"{found[0]}: not {axis}", _replaced(text, found, by)


def _masks_exchanged(text: str) -> Changes:
    for start in (rf"tt\.load {_NAME}", rf"tt\.store {_NAME}, {_NAME}"):
        for found in re.finditer(rf"({start}, )({_NAME})([^\n]* : (?:tensor<([\dx]+)x)?!tt\.ptr)", text):
            of = f"tensor<{found[4]}xi1>" if found[4] else "i1"
            for other in _others(text, found.start(), of, found[2]):
                yield f"{found[1]}{found[2]} -> {other}", _replaced(text, found, f"{found[1]}{other}{found[3]}")


def _products(text: str) -> Changes:
    integers = rf"({_SHAPED})?i(32|64)\b"
    yield from _exchanged(text, rf"arith\.muli(?= {_NAME}, {_NAME} : {integers})", "arith.addi", "arith.subi")
    yield from _exchanged(text, r"arith\.div([su])i\b", r"arith.rem\1i")
    yield from _exchanged(text, r"arith\.rem([su])i\b", r"arith.div\1i")
    yield from _exchanged(text, r"arith\.minsi\b", "arith.maxsi")
    yield from _exchanged(text, r"arith\.maxsi\b", "arith.minsi")


def _sums(text: str) -> Changes:
    yield from _exchanged(text, r"arith\.addi\b", "arith.subi")
    yield from _exchanged(text, r"arith\.subi\b", "arith.addi")
    yield from _exchanged(text, rf"arith\.subi ({_NAME}), ({_NAME})", r"arith.subi \2, \1")
    yield from _exchanged(text, rf"arith\.(addi|muli) ({_NAME}), ({_NAME})", r"arith.\1 \2, \2", r"arith.\1 \3, \3")


def _constants(text: str) -> Changes:
    for found in re.finditer(r"arith\.constant (dense<)?(-?\d+)(>)? : ((?:tensor<[\dx]+x)?i(?:32|64)>?)", text):
        value = int(found[2])
        for other in sorted({value + 1, value - 1, value // 2, value * 2} - {value}):
            changed = f"arith.constant {found[1] or ''}{other}{found[3] or ''} : {found[4]}"
            yield f"{found[0]} -> {other}", _replaced(text, found, changed)


def _strides(text: str) -> Changes:
    """A number that the kernel is given in place of another one, wherever one is used."""
    for of in ("i32", "i64"):
        numbers = re.findall(rf"(%[\w.]+): {of}\b", text)
        uses = rf"(tt\.splat |arith\.(?:muli|addi|subi|divsi|remsi|cmpi \w+,|extsi)[^\n]*?)({_NAME})(?=[^\n]* : {of}\b)"
        for found in re.finditer(uses, text):
            for name in numbers:
                if found[2] in numbers and name != found[2]:
                    yield f"{found[0]} -> {name}", _replaced(text, found, found[1] + name)


def _programs(text: str) -> Changes:
    for axis in "xyz":
        others = [f"tt.get_program_id {each} : i32" for each in "xyz" if each != axis]
        yield from _exchanged(text, rf"tt\.get_program_id {axis} : i32", *others, "arith.constant 0 : i32")
        number = rf"tt\.get_num_programs {axis} : i32"
        yield from _exchanged(text, number, "arith.constant 1 : i32", f"tt.get_program_id {axis} : i32")


def _offsets(text: str) -> Changes:
    for found in re.finditer(r"tt\.make_range \{end = (\d+) : i32, start = (\d+) : i32\}", text):
        for by in (1, int(found[1]) - int(found[2])):
            ends = f"end = {int(found[1]) + by} : i32, start = {int(found[2]) + by} : i32"
            yield f"{found[0]} + {by}", _replaced(text, found, f"tt.make_range {{{ends}}}")


def _addresses(text: str) -> Changes:
    for found in re.finditer(rf"(tt\.addptr {_NAME}, )({_NAME})( : .*?, )((?:{_SHAPED})?i\d+>?)", text):
        for other in _others(text, found.start(), found[4], found[2]):
            yield f"{found[1]}{found[2]} -> {other}", _replaced(text, found, f"{found[1]}{other}{found[3]}{found[4]}")


def _arrays(text: str) -> Changes:
    given = re.findall(r"(%[\w.]+): (!tt\.ptr<\w+>)", text)
    kinds = dict(given)
    for found in re.finditer(rf"(tt\.(?:splat|addptr|load|store) )({_NAME})\b(?=[, ])", text):
        for name, kind in given:
            if name != found[2] and kinds.get(found[2]) == kind:
                yield f"{found[0]} -> {name}", _replaced(text, found, found[1] + name)


def _resized(text: str, size: int, other: int) -> str:
    def dimensions(found: re.Match[str]) -> str:
        shape = ["" if not each else str(other) if int(each) == size else each for each in found[2].split("x")]
        return found[1] + "x".join(shape)

    text = re.sub(r"(tensor(?:desc)?<)((?:\d+x)+)", dimensions, text)
    return re.sub(rf"end = {size} : i32, start = 0 ", f"end = {other} : i32, start = 0 ", text)


def _tiles(text: str) -> Changes:
    """Tiles of a size twice and half as long, with the constants of that size and without."""
    for size in sorted({int(each) for each in re.findall(r"make_range \{end = (\d+) : i32, start = 0 ", text)}):
        for other in (size * 2, size // 2):
            changed = _resized(text, size, other)
            yield f"tiles of {size} -> {other}, constants as they are", changed
            constants = re.sub(rf"(arith\.constant (?:dense<)?){size}\b", rf"\g<1>{other}", changed)
            yield f"tiles and constants of {size} -> {other}", constants


def _loops(text: str) -> Changes:
    for found in re.finditer(rf"scf\.for ({_NAME}) = ({_NAME}) to ({_NAME}) step ({_NAME})(?=[^\n]*?(?: : (i\d+))? \{{)", text):
        variable, parts = found[1], [found[2], found[3], found[4]]
        for place, part in enumerate(("low", "end", "step")):
            for other in _others(text, found.start(), found[5] or "index", parts[place]):
                low, end, step = [other if at == place else each for at, each in enumerate(parts)]
                yield f"{found[0]}: {part} {other}", _replaced(text, found, f"scf.for {variable} = {low} to {end} step {step}")


def _branches(text: str) -> Changes:
    integers = rf"arith\.select ({_NAME}), ({_NAME}), ({_NAME})(?= : [^\n]*i\d+>?(?: loc|$))"
    yield from _exchanged(text, integers, r"arith.select \1, \3, \2", r"arith.select \1, \2, \2")
    block = r"(\^\w+(?:\([^)]*\))?)"
    branch = rf"cf\.cond_br ({_NAME}), {block}, {block}"
    yield from _exchanged(text, branch, r"cf.cond_br \1, \3, \2", r"cf.br \2", r"cf.br \3")
    for found in re.finditer(rf"(scf\.(?:if|condition)[ (]+)({_NAME})", text):
        for other in _others(text, found.start(), "i1", found[2]):
            yield f"{found[0]} -> {other}", _replaced(text, found, found[1] + other)


def _atomics(text: str) -> Changes:
    """Read-modify-writes as a load and a store, and of programs of one cluster alone."""
    yield from _exchanged(text, r"(tt\.atomic_(?:rmw \w+,|cas|load|store) \w+, )(?:gpu|sys)", r"\1cta")
    pattern = rf"^( *)({_NAME}) = tt\.atomic_rmw \w+, \w+, \w+, ({_NAME}), ({_NAME})(, {_NAME})? : \((.*?ptr<\w+>>?), [^\n]*"
    for found in re.finditer(pattern, text, re.MULTILINE):
        space, name, pointer, value, mask, of = found.groups(default="")
        plain = f"{space}{name} = tt.load {pointer}{mask} : {of}\n{space}tt.store {pointer}, {value}{mask} : {of}"
        yield f"{_line(found)} -> load and store", _replaced(text, found, plain)


def _barriers(text: str) -> Changes:
    for found in re.finditer(r"^ *(?:gpu\.barrier|ttg\.barrier|tt\.debug_barrier)\b[^\n]*\n", text, re.MULTILINE):
        yield f"{_line(found)} removed", _replaced(text, found, "")


RULES: dict[str, Callable[[str], Changes]] = {
    "comparison by one": _comparisons_by_one,
    "comparison dropped": _comparisons_dropped,
    "comparison turned": _comparisons_turned,
    "signedness": _signedness,
    "extension": _extensions,
    "half of a mask": _halves_of_masks,
    "mask dropped": _masks_dropped,
    "mask exchanged": _masks_exchanged,
    "product": _products,
    "sum": _sums,
    "constant": _constants,
    "stride exchanged": _strides,
    "program": _programs,
    "offset": _offsets,
    "address exchanged": _addresses,
    "array exchanged": _arrays,
    "tile changed": _tiles,
    "loop": _loops,
    "branch": _branches,
    "atomic": _atomics,
    "barrier removed": _barriers,
}


def _changed(text: str) -> Iterator[Mutant]:
    seen = {text}
    for kind, rule in RULES.items():
        for change, changed in rule(text):
            if changed not in seen:
                seen.add(changed)
                yield Mutant(kind, change, changed)


@functools.lru_cache(maxsize=256)
def mutants(text: str) -> tuple[Mutant, ...]:
    """All single changes of a text, each changed text once."""
    return tuple(_changed(text))


def paired(text: str, rng: random.Random) -> Mutant:
    """Two changes, one after the other; the kinds are drawn first, so that rare ones have their share."""
    first = _drawn(text, rng)
    second = _drawn(first.text, rng)
    return Mutant("two changes", f"{first.change}; {second.change}", second.text)


def _drawn(text: str, rng: random.Random) -> Mutant:
    every = list(_changed(text))
    kind = rng.choice(sorted({each.kind for each in every}))
    return rng.choice([each for each in every if each.kind == kind])
