"""Handles operators on strings, which run on the host."""

from __future__ import annotations

from typing import Any

from .....promotion.dtype import string
from ....functions.host.data_sized import fresh_dim, host
from ....functions.host.strings import (
    regex_full_match,
    string_concat,
    string_normalize,
    string_split,
    tf_idf,
)
from ...node import Node, Result
from ...registry import handles


def _require_strings(node: Node, *positions: int) -> None:
    for position in positions:
        node.require(node.dtype(position) is string, f"input {position} is {node.dtype(position)}; strings are expected")


@handles("StringConcat")
def concat(node: Node) -> Result:
    """Join strings one to one."""
    _require_strings(node, 0, 1)
    return string_concat(node[0], node[1])


@handles("StringSplit")
def split(node: Node) -> Result:
    """Split strings at a delimiter, or at white space; return the parts and how many there are."""
    _require_strings(node, 0)
    return string_split(node[0], node.attr("delimiter", None) or "", node.attr("maxsplit", None))


@handles("RegexFullMatch")
def match(node: Node) -> Result:
    """Tell whether a pattern matches the whole of each string."""
    _require_strings(node, 0)
    return regex_full_match(node[0], node.attr("pattern"))


@handles("Tokenizer", domain="com.microsoft")
def tokenize(node: Node) -> Result:
    """Find the parts of strings that match a pattern, with a filler where others have more."""
    _require_strings(node, 0)
    pattern, least = node.attr("tokenexp", None), node.attr("mincharnum")
    if not pattern:
        node.unsupported("a Tokenizer with separators, without a tokenexp", "write a tokenexp of what is between them")
    node.require(least >= 1 and len(node.shape(0)) in (1, 2), f"mincharnum {least}, strings of {len(node.shape(0))} axes")
    return host(
        "tokens", node[0], sizes=(fresh_dim(node.graph, "tokens"),), pattern=pattern, least=least,
        pad=node.attr("pad_value"), marks=bool(node.attr("mark")),
    )  # fmt: skip


@handles("StringNormalizer")
def normalize(node: Node) -> Result:
    """Drop stop words and change the case. The locale, which changes little and is not everywhere, has no bearing."""
    _require_strings(node, 0)
    node.ignore("locale")
    case = node.attr("case_change_action").lower()
    node.require(case in ("none", "lower", "upper"), f"case_change_action {case!r}")
    return string_normalize(node[0], case, bool(node.attr("is_case_sensitive")), node.attr("stopwords", None) or ())


@handles("TfIdfVectorizer")
def vectorize(node: Node) -> Result:
    """Count the terms of a pool."""
    strings, numbers = node.attr("pool_strings", None), node.attr("pool_int64s", None)
    node.require((strings is None) != (numbers is None), "pool_strings or pool_int64s, and not both, must be given")
    pool: list[Any] = numbers if strings is None else strings
    begins, columns = node.attr("ngram_counts"), node.attr("ngram_indexes")
    terms: list[list[Any]] = []
    node.require(len(begins) > 0, "ngram_counts is empty")
    ends = [*begins[1:], len(pool)]
    for length, (begin, end) in enumerate(zip(begins, ends, strict=True), 1):
        node.require(0 <= begin <= end <= len(pool) and (end - begin) % length == 0, f"ngram_counts {begins[:16]}")
        terms += [pool[at : at + length] for at in range(begin, end, length)]
    node.require(len(terms) == len(columns), f"{len(terms)} terms, {len(columns)} in ngram_indexes")
    node.require_few(max(columns, default=0), "the columns of TfIdfVectorizer")
    return tf_idf(
        node[0], terms, (node.attr("min_gram_length"), node.attr("max_gram_length")), node.attr("max_skip_count"),
        node.attr("mode"), columns, node.attr("weights", None),
    )  # fmt: skip
