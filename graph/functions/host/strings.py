"""Provides operations on strings, which run on the host: tensors of strings are arrays of Python's `str`."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import graph_of
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import DTypeLike, as_dtype
from ..building import as_symbols, symbol_of
from .data_sized import fresh_dim, host


def _pair(op: str, x: TensorLike | str, y: TensorLike | str) -> tuple[Symbol, ...]:
    """Return operands as symbols; a string, or an array of strings, may be one of them."""
    graph = graph_of(op, x, y)
    return as_symbols(op, *[each if isinstance(each, Symbol) else graph.constant(each) for each in (x, y)])


def string_concat(x: TensorLike | str, y: TensorLike | str) -> Symbol:
    """Join strings one to one; an operand may be a string."""
    return host("string_concat", *_pair("string_concat", x, y))


def string_equal(x: TensorLike | str, y: TensorLike | str) -> Symbol:
    """Tell whether strings are equal; an operand may be a string."""
    return host("string_equal", *_pair("string_equal", x, y))


def string_split(x: TensorLike, delimiter: str = "", limit: int | None = None) -> tuple[Symbol, Symbol]:
    """Return the parts of each string along a new last axis, filled up with "", and how many parts there are.

    An empty delimiter stands for runs of white space; `limit` is the most splits of a string.
    """
    symbol = symbol_of("string_split", x)
    parts = host("string_split", symbol, sizes=(fresh_dim(symbol.graph, "parts"),), delimiter=delimiter, limit=limit)
    return parts, host("string_split_count", symbol, delimiter=delimiter, limit=limit)


def string_split_count(x: TensorLike, delimiter: str = "", limit: int | None = None) -> Symbol:
    """Return how many parts `string_split` makes of each string."""
    return host("string_split_count", symbol_of("string_split_count", x), delimiter=delimiter, limit=limit)


def regex_full_match(x: TensorLike, pattern: str) -> Symbol:
    """Tell whether a pattern matches the whole of each string.

    The syntax is RE2's, and matching takes time linear in the string; references to groups and looking around are refused.
    """
    return host("regex_full_match", symbol_of("regex_full_match", x), pattern=pattern)


def string_hash(x: TensorLike, seed: int = 0) -> Symbol:
    """Return MurmurHash3 (x86, 32 bits) of each string in UTF-8, as uint32."""
    return host("string_hash", symbol_of("string_hash", x), seed=seed)


def string_normalize(
    x: TensorLike,
    case: str = "none",
    case_sensitive: bool = False,
    stopwords: Sequence[str] = (),
) -> Symbol:
    """Drop stop words from a vector of strings, or a matrix with one row, and change the case of the others.

    case: "none", "lower" or "upper".
    """
    symbol = symbol_of("string_normalize", x)
    size = fresh_dim(symbol.graph, "words")
    return host(
        "string_normalize", symbol, sizes=(size,), case=case, case_sensitive=case_sensitive, stopwords=list(stopwords)
    )


def tf_idf(
    x: TensorLike,
    terms: Sequence[Sequence[str] | Sequence[int]],
    lengths: tuple[int, int],
    skips: int = 0,
    mode: str = "TF",
    positions: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> Symbol:
    """Count terms in each row of strings or integers: float32 of shape (rows, largest position + 1).

    Args:
        terms: runs of entries that are looked for.
        lengths: fewest and most entries of those that are.
        skips: how many entries may be left out between two of a term, the same number everywhere.
        mode: "TF" counts, "IDF" gives the weight of a term that occurs, "TFIDF" count times weight.
        positions: the column of each term; by default their order.
        weights: of each term; by default 1.
    """
    columns = range(len(terms)) if positions is None else positions
    return host(
        "tf_idf", symbol_of("tf_idf", x), mode=mode, shortest=lengths[0], longest=lengths[1], skips=skips,
        pool=[list(term) for term in terms], positions=list(columns), weights=[float(weight) for weight in weights or ()],
    )  # fmt: skip


def encode_labels(
    x: TensorLike,
    keys: Sequence[str] | Sequence[int] | Sequence[float],
    values: Sequence[str] | Sequence[int] | Sequence[float],
    default: str | float,
    dtype: DTypeLike,
) -> Symbol:
    """Return the value of each element's key, or `default`; of equal keys the last one counts, and NaN equals NaN."""
    return host(
        "encode_labels", symbol_of("encode_labels", x), dtype=as_dtype(dtype),
        keys=list(keys), values=list(values), default=default,
    )  # fmt: skip


def parse_numbers(x: TensorLike, dtype: DTypeLike) -> Symbol:
    """Return the numbers that strings write in decimal. A string that writes none makes the run fail."""
    return host("parse_numbers", symbol_of("parse_numbers", x), dtype=as_dtype(dtype))


def print_numbers(x: TensorLike) -> Symbol:
    """Return each number as the shortest string that is read back as the same one."""
    return host("print_numbers", symbol_of("print_numbers", x))
