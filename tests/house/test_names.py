"""Names that gave way to the field's terms (`docs/glossary.md`) stay out of code, printed IR and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from ..support.syntax import nodes_of

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
RETIRED = {
    "demands": "DemandedElements", "gpu kernels": "GpuKernelCompiler", "lowered": "HostModule, GpuModules",
    "made descriptor": "HoistableDescriptor", "made descriptors": "hoistable_descriptors", "make total": "legalize_division",
    "no collection": "gc_paused", "own stages": "Backend", "roots": "LoopNests", "rounds": "ConsumerLoop",
    "unusual": "FallBackToParser",
}  # fmt: skip
"""Parts of a whole name → what is said now. Classes have these names, or whatever has them when they are several words."""
RETIRED_PARTS = {
    "word": "name, bits, argument, slot, modifier or register", "place": "location, position, index, coordinate or address",
    "placed": "what it is now", "turn": "iteration", "held": "distributed value, registers", "settle": "materialize, wait",
    "settled": "final", "settling": "waiting", "described": "descriptor", "advancing": "pointer induction",
    "provenance": "alias set", "circumstance": "launch specialization", "byproduct": "spilled value",
    "elected": "thread predicate", "tame": "in range", "natural": "known non-negative",
    "ahead": "software pipelining, prefetch",
}  # fmt: skip
"""Part of a name, without a plural's s → the terms of the field, of which one fits."""
ALLOWED = {
    "in place": "of memory that is read and overwritten",
    "last place": "units in the last place",
    "quarter turn": "an angle",
    "tensor map words": "64 bits each, in memory",
    "status words": "64 bits each, in memory",
    "bank words": "32 bits each, in the banks of shared memory",
    "source word": "32 bits that a shuffle moves",
    "pi words": "32 or 64 bits each of 1/pi and 2/pi",
    "break long words": "an argument of textwrap.wrap",
}  # fmt: skip
"""Compounds that are the field's own → what they mean."""
PROSE = {
    r"\btame[ds]?\b": "in range", r"\bmade total\b": "legalized", r"\*\*held\*\*": "distributed values",
    r"\b[Pp]rovenance\b": "alias set", r"\b[Bb]y-?products?\b": "spilled value",
    r"\b[Cc]ircumstances\b": "launch specialization", r"\b[Ee]lected\b": "thread predicate",
    r"\bheld (?:values?|blocks?)\b": "distributed value",
}  # fmt: skip
"""Pattern of a term that only joinery had → what is said now. In prose, to place, to turn and a word are plain English."""


def parts(name: str) -> list[str]:
    """The words that a name is made of, in lower case: of `heldWords_of`, held, words, of."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


@cache
def instead(name: str) -> str | None:
    """What is said now for a name that is made of retired ones; None for other names."""
    found = " ".join(parts(name))
    bare = name.lstrip("_")
    if found in RETIRED and (" " in found or bare[:1].isupper()) and not bare.isupper():
        return RETIRED[found]
    if bare.isupper() and (bound := {"most": "MAX", "least": "MIN"}.get(found.partition(" ")[0])) is not None:
        return bound
    for compound in ALLOWED:
        found = re.sub(rf"\b{compound}\b", "", found)
    known = (RETIRED_PARTS.get(part) or RETIRED_PARTS.get(part.removesuffix("s")) for part in found.split())
    return next((term for term in known if term is not None), None)


@cache
def fields_with_names(kind: type[ast.AST]) -> list[str]:
    return [field for field in ("name", "id", "attr", "arg", "asname", "rest", "module") if field in kind._fields]


def names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Every name that a module defines or uses, and every attribute of the IR in its texts, with its line."""
    for node in nodes:
        line = getattr(node, "lineno", 0)
        for field in fields_with_names(type(node)):
            name = getattr(node, field)
            if isinstance(name, str):
                yield name, line
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from ((name, line) for name in node.names)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((name, line) for name in attributes(node.value))


def attributes(text: str) -> list[str]:
    """The names of joinery's attributes in a text: what follows `joinery.`."""
    return re.findall(r"\bjoinery\.([a-z_]+)", text)


def prose(text: str) -> Iterator[tuple[str, str, int]]:
    """(what stands there, term, line) of terms that only joinery had."""
    for pattern, term in PROSE.items():
        for match in re.finditer(pattern, text):
            yield match.group(), term, text.count("\n", 0, match.start()) + 1


def retired(text: str, nodes: Iterable[ast.AST]) -> list[str]:
    """The retired names of a module, as readable lines."""
    found = [(name, term, line) for name, line in names(nodes) if (term := instead(name)) is not None]
    return [f"{line}: {name}; the term is {term}" for name, term, line in [*found, *prose(text)]]


def retired_in_page(text: str) -> list[str]:
    """The retired terms of a page, and the retired names in its code spans, as readable lines."""
    found = list(prose(text))
    for number, line in enumerate(text.splitlines(), start=1):
        for span in re.findall(r"`([^`]+)`", line):
            plain = re.findall(r"(?<![-\w])[A-Za-z_]\w*", span)
            written = [name for name in plain if name == span or "_" in name or not name.islower()]
            found += [(name, term, number) for name in [*written, *attributes(span)] if (term := instead(name)) is not None]
    return [f"{line}: {name}; the term is {term}" for name, term, line in found]


@pytest.mark.parametrize("layer", LAYERS)
def test_the_code_uses_the_terms_of_the_glossary(layer: str) -> None:
    found = []
    for path in sorted((ROOT / layer).rglob("*.py")):
        name = path.relative_to(ROOT)
        found += [f"{name}:{line}" for line in retired(path.read_text(encoding="utf-8"), nodes_of(path))]
        found += [f"{name}: the term is {term}" for part in name.with_suffix("").parts if (term := instead(part))]
    assert not found, "\n".join(found)


def test_the_pages_use_the_terms_of_the_glossary() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in PAGES for line in retired_in_page(path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "class Words: ...", "class WordsOf: ...", "held_words = 1", "def f(provenance): ...", "x._held = Held()",
        "from a import b as make_total", "_MOST_KNOWN = 1", "for turns in x: ...", "def _is_one_turn(): ...", "_per_turn()",
        "f(described=1)", "advancing = {}", "provenance_of(x)", "x.settle()", "from .places import x", "global _place",
        "match x:\n    case {**words}: ...", "TAME = 'joinery.tame'", "x = 'joinery.ahead'", "'it is tame'", "class Roots: ...",
        "class MadeDescriptor: ...", "# divisions are made total",
    ],
)  # fmt: skip
def test_a_retired_name_is_found(text: str) -> None:
    assert retired(text, ast.walk(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "keywords = swords(almost, rounds)\nclass PasswordsKept: ...", "update_in_place(last_place, TENSOR_MAP_WORDS)",
        "least = turned(roots)", "replaced = displaced", "'joinery.in_range'", "# what has no word for its place",
    ],
)  # fmt: skip
def test_other_names_are_not(text: str) -> None:
    assert not retired(text, ast.walk(ast.parse(text)))


@pytest.mark.parametrize(
    "text", ["* **held**: registers", "quotients are tame", "`joinery.natural`", "see `held_words`", "`Places.of`"]
)
def test_a_retired_term_of_a_page_is_found(text: str) -> None:
    assert retired_in_page(text)


def test_plain_english_in_a_page_is_not() -> None:
    assert not retired_in_page("Arrays are written in place (`--in-place`); blocks take turns, and one word is 64 bits.")
