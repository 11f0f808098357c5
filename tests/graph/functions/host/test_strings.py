"""Operations on strings against Python's own, and models that take and return strings."""

from __future__ import annotations

import re
import time
from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery.graph.reference.patterns import Pattern

from ....support.tiers import examples


def texts(*entries: str) -> Any:
    return np.array(entries, dtype=object)


def results(build: Any, *arrays: Any, dtypes: tuple[str, ...] = ("string",)) -> list[Any]:
    """What a graph computes of vectors: compiled in parts, and as the evaluator says."""
    g = jn.Graph("g", [jn.TensorType(dtype, [f"n{i}_{a}" for a in range(array.ndim)], name=f"x{i}")
                       for i, (dtype, array) in enumerate(zip(dtypes, arrays, strict=True))])  # fmt: skip
    built = build(*g.inputs)
    g.output(*(built if isinstance(built, tuple) else (built,)))
    expected = jn.evaluate(g, *arrays)
    found = jn.compile(g, device="cpu", cache=False)(*arrays)
    pairs = (expected, found) if isinstance(expected, tuple) else ((expected,), (found,))
    for one, other in zip(*pairs, strict=True):
        assert (one.dtype, one.shape, one.tolist()) == (other.dtype, other.shape, other.tolist())
    return list(pairs[0])


def test_strings_are_joined_compared_and_moved() -> None:
    x = texts("a", "béta", "")
    joined, equal, back, both = results(
        lambda s: (jn.string_concat(s, "!"), jn.string_equal(s, texts("a", "b", "")), s[::-1], jn.concat([s, s])), x
    )
    assert (joined.tolist(), equal.tolist()) == (["a!", "béta!", "!"], [True, False, True])
    assert (back.tolist(), both.tolist()) == (["", "béta", "a"], [*x, *x])
    assert results(lambda s: jn.gather(s, np.array([2, 0])), x)[0].tolist() == ["", "a"]
    assert results(lambda s: jn.where(jn.string_equal(s, "a"), s, s.graph.constant("other")), x)[0].tolist() == [
        "a", "other", "other"
    ]  # fmt: skip


def test_parts_and_their_counts() -> None:
    x = texts("a b  c", "", "one")
    parts, counts = results(lambda s: jn.string_split(s), x)
    assert (parts.tolist(), counts.tolist()) == ([["a", "b", "c"], ["", "", ""], ["one", "", ""]], [3, 0, 1])
    parts, counts = results(lambda s: jn.string_split(s, " ", limit=2), x)
    assert (parts.tolist(), counts.tolist()) == ([["a", "b", " c"], ["", "", ""], ["one", "", ""]], [3, 1, 1])
    assert [each.shape for each in results(lambda s: jn.string_split(s), texts())] == [(0, 0), (0,)]


def test_stop_words_and_case() -> None:
    x = texts("Monday", "tuesday", "MONDAY")
    assert results(lambda s: jn.string_normalize(s, "upper", stopwords=["monday"]), x)[0].tolist() == ["TUESDAY"]
    assert results(lambda s: jn.string_normalize(s, "none", True, ["Monday"]), x)[0].tolist() == ["tuesday", "MONDAY"]
    assert results(lambda s: jn.string_normalize(s, stopwords=["monday", "Tuesday"]), x[None])[0].tolist() == [[""]]


def test_numbers_are_written_and_read() -> None:
    values = np.array([1.5, -0.1, np.inf, 3e-9], np.float32)
    (back,) = results(lambda x: jn.parse_numbers(jn.print_numbers(x), jn.float32), values, dtypes=("float32",))
    np.testing.assert_array_equal(back, values)
    assert results(lambda s: jn.parse_numbers(s, jn.int8), texts("-128", "7"))[0].tolist() == [-128, 7]
    for bad in ("x", "128", "1.5"):
        with pytest.raises(jn.UserError, match=r"parse_numbers: a (string|number) .*int8.*\n  built at"):
            results(lambda s: jn.parse_numbers(s, jn.int8), texts(bad))


def test_terms_are_counted() -> None:
    x = np.array([[1, 2, 1, 2], [2, 2, 2, 1]])
    options: dict[str, Any] = {"terms": [[1], [1, 2], [2, 2]], "lengths": (1, 2), "skips": 1}
    (counts,) = results(lambda v: jn.tf_idf(v, **options), x, dtypes=("int64",))
    assert (counts.tolist(), counts.dtype) == ([[2, 2, 1], [1, 0, 3]], np.float32)
    (weighted,) = results(
        lambda v: jn.tf_idf(v, **options, mode="TFIDF", weights=[1, 0.5, 2], positions=[2, 0, 0]), x, dtypes=("int64",)
    )
    assert weighted.tolist() == [[3, 0, 2], [6, 0, 1]]


def test_labels_are_looked_up() -> None:
    nan = float("nan")
    (found,) = results(lambda x: jn.encode_labels(x, [nan, 1.0, 1.0], ["n", "a", "b"], "?", "string"),
                       np.array([1, 2, np.nan], np.float32), dtypes=("float32",))  # fmt: skip
    assert found.tolist() == ["b", "?", "n"]
    assert results(lambda s: jn.encode_labels(s, ["a"], [2], -1, jn.int64), texts("a", "b"))[0].tolist() == [2, -1]


CHARACTERS = "ab01 _-\n"
ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", "[0-1_]", "", "^", "$", r"\b"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        inner.map(lambda each: f"(?:{each})?"),
        inner.map(lambda each: f"(?:{each})*"),
        inner.map(lambda each: f"(?:{each}){{1,3}}"),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150))
@given(PATTERNS, st.text(CHARACTERS, max_size=6))
def test_patterns_match_what_python_matches(pattern: str, text: str) -> None:
    flags = re.ASCII
    ends_early = text.endswith("\n") and "$" in pattern  # Python's $ matches before a last newline, RE2's does not
    if not ends_early:
        assert Pattern(pattern).matches(text) == (re.fullmatch(pattern, text, flags) is not None)


def test_matching_takes_linear_time() -> None:
    g = jn.Graph("g", [jn.TensorType("string", ("n",), name="s")])
    g.output(jn.regex_full_match(g.inputs[0], "(a*)*(a|aa)+b"))
    start = time.process_time()
    assert jn.evaluate(g, texts("a" * 2000, "a" * 2000 + "b")).tolist() == [False, True]
    assert time.process_time() - start < 5


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)a", "(?<!a)b", "(", "a{5000}", "(?:(?:a{900}){900})"])
def test_patterns_that_are_refused(pattern: str) -> None:
    g = jn.Graph("g", [jn.TensorType("string", ("n",), name="s")])
    g.output(jn.regex_full_match(g.inputs[0], pattern))
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=r"regex_full_match: .*fix: "):
        jn.evaluate(g, texts("aa"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s, x: s + s, "add: not defined for strings"),
        (lambda s, x: jn.sum(s), "not defined for strings"),
        (lambda s, x: jn.exp(s), "not defined for strings"),
        (lambda s, x: s.cast(jn.float32), "stored, viewed and bit-cast"),
        (lambda s, x: jn.concat([s, x]), "strings and numbers have no join"),
        (lambda s, x: jn.string_concat(s, x), "not defined for float32; fix: pass strings"),
        (lambda s, x: jn.regex_full_match(s, "a" * 5000), "option pattern"),
        (lambda s, x: jn.encode_labels(s, [1], [2], 3, jn.int64), "keys are not all of string"),
        (lambda s, x: jn.encode_labels(s, ["a"], ["b"], 3, jn.int64), "values are not all of int64"),
        (lambda s, x: jn.tf_idf(s, [[1]], (1, 1)), "terms are not all of string"),
        (lambda s, x: jn.tf_idf(x, [[1]], (1, 1)), "not defined for float32"),
    ],
)
def test_mistakes(build: Any, message: str) -> None:
    g = jn.Graph("g", [jn.TensorType("string", ("n",), name="s"), jn.TensorType(jn.float32, ("n",), name="x")])
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=message):
        build(*g.inputs)


def test_strings_survive_texts() -> None:
    g = jn.Graph("g", [jn.TensorType("string", ("n",), name="s")])
    g.output(jn.string_concat(jn.string_split(g.inputs[0], "\t")[0], np.array("\n\"ü%\\")))
    again = jn.from_text(*jn.to_text(g))
    assert again.canonical_key() == g.canonical_key()
    assert jn.evaluate(again, texts("a\tb")).tolist() == [['a\n"ü%\\', 'b\n"ü%\\']]
