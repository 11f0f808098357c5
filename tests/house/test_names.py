"""Names that gave way to the field's terms (`docs/glossary.md`) stay out of the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("promotion", "graph", "lowering", "runtime", "interface")
RETIRED = {
    "AHEAD": "PIPELINED", "Ahead": "PipelinedLoop", "Circumstances": "LaunchSpecialization",
    "Demands": "DemandedElements", "Described": "DescriptorArgument", "DescribedTensor": "MappedTensor",
    "Elected": "ThreadPredicate", "GpuKernels": "GpuKernelCompiler", "GpuPlace": "GpuBackend", "Held": "Distributed",
    "Lowered": "HostModule, GpuModules", "MadeDescriptor": "HoistableDescriptor", "OwnStages": "Backend", "Places": "AliasSet",
    "Provenance": "AliasAnalysis", "Roots": "LoopNests", "Rounds": "ConsumerLoop", "TAME": "IN_RANGE",
    "Unusual": "FallBackToParser", "Word": "Index", "Words": "IndexBuilder", "byproducts": "reused_values",
    "circumstances": "launch specialization", "elected": "predicate", "first_words": "argument_offsets",
    "is_natural": "is_known_non_negative", "load_word": "load_bits", "made_descriptors": "hoistable_descriptors",
    "make_total": "legalize_division", "no_collection": "gc_paused", "provenance": "aliases", "store_word": "store_bits",
    "with_natural": "with_known_non_negative", "word_of": "encode_argument, to_bits",
}  # fmt: skip
"""Name -> what is said now."""
PREFIXES = {"MOST_": "MAX_", "LEAST_": "MIN_"}
VAGUE = {
    "place": "location, position, index or coordinate", "word": "identifier, bits or argument",
    "words": "identifiers, bits or arguments", "turn": "iteration",
}  # fmt: skip
"""Names with several meanings -> what a thing is called by what it is; out of the layers that are named below."""
PLAIN_LAYERS = ("promotion", "graph")


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a module defines or uses, with its line."""
    for node in ast.walk(tree):
        for field in ("name", "id", "attr", "arg", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name, getattr(node, "lineno", 0)


def retired(text: str, layer: str = "") -> list[str]:
    """The retired names of a module, as readable lines."""
    known = RETIRED | VAGUE if layer in PLAIN_LAYERS else RETIRED
    found = []
    for name, line in names(ast.parse(text)):
        bare = name.lstrip("_")
        instead = known.get(bare) or next((new for old, new in PREFIXES.items() if bare.startswith(old)), None)
        if instead is not None:
            found.append(f"{line}: {name}; the term is {instead}")
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_the_code_uses_the_terms_of_the_glossary(layer: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / layer).rglob("*.py"))
        for line in retired(path.read_text(encoding="utf-8"), layer)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    ["class Words: ...", "def f(provenance): ...", "x._held = Held()", "from a import b as make_total", "_MOST_KNOWN = 1"],
)
def test_a_retired_name_is_found(text: str) -> None:
    assert retired(text)


def test_names_that_only_contain_a_retired_one_are_not() -> None:
    assert not retired("keywords = swords(almost, the_rounds)\nclass PasswordsKept: ...")


def test_vague_names_are_found_in_the_layers_that_have_none() -> None:
    assert retired("place = 1", "graph") == ["1: place; the term is location, position, index or coordinate"]
    assert not retired("place = 1", "lowering")
