"""Computes the rows on strings, which are arrays of Python's `str`."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import string
from ....promotion.errors import UserError
from ...constants import MAX_TEXT_BYTES, TEXT_ENTRY, require_few_texts, text_bytes
from ...ops.attributes import parsed_options
from ..patterns import Pattern
from ..registry import BoundSymbol, row

_POINTER = 8


def _options(symbol: BoundSymbol) -> Mapping[str, Any]:
    return parsed_options(symbol.attrs["options"])


def _texts(entries: Sequence[object], shape: Sequence[int]) -> Array:
    """Return objects as an array; NumPy itself would look inside them."""
    array: Array = np.empty(len(entries), dtype=object)
    for position, entry in enumerate(entries):
        array[position] = entry
    return array.reshape(shape)


def _mapped(function: Callable[[Any], object], x: Array) -> list[object]:
    return [function(entry) for entry in x.reshape(-1).tolist()]


@row("text_constant")
def text_constant(symbol: BoundSymbol) -> Array:
    options = _options(symbol)
    return _texts(options["texts"], options["shape"])


@row("string_concat")
def string_concat(symbol: BoundSymbol, x: Array, y: Array) -> Array:
    left, right = np.broadcast_arrays(x, y)
    require_few_texts("string_concat", concatenated_bytes(x, y))
    return _texts([a + b for a, b in zip(left.reshape(-1).tolist(), right.reshape(-1).tolist(), strict=True)], left.shape)


def concatenated_bytes(x: Array, y: Array) -> int:
    """Return about how much memory the strings of two arrays take once they are joined one to one."""
    count = math.prod(np.broadcast_shapes(x.shape, y.shape))
    if not count:
        return 0
    return sum([text_bytes(each) * (count // each.size) for each in (x, y)])


@row("string_equal")
def string_equal(symbol: BoundSymbol, x: Array, y: Array) -> Array:
    return np.asarray(x == y, np.bool_)


@row("string_hash")
def string_hash(symbol: BoundSymbol, x: Array) -> Array:
    seed = _options(symbol)["seed"]
    return np.array(_mapped(lambda text: _murmur(text.encode("utf-8", "surrogatepass"), seed), x), np.uint32).reshape(x.shape)


def _murmur(data: bytes, seed: int) -> int:
    """Return MurmurHash3_x86_32."""
    mask, found = 0xFFFFFFFF, seed

    def mixed(block: int) -> int:
        block = block * 0xCC9E2D51 & mask
        return (block << 15 | block >> 17) * 0x1B873593 & mask

    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        found ^= mixed(int.from_bytes(data[start : start + 4], "little"))
        found = ((found << 13 | found >> 19) & mask) * 5 + 0xE6546B64 & mask
    if data[whole:]:
        found ^= mixed(int.from_bytes(data[whole:], "little"))
    found ^= len(data)
    for by, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ found >> by) * factor & mask
    return found ^ found >> 16


@row("string_split")
def string_split(symbol: BoundSymbol, x: Array) -> Array:
    parts = _parts(symbol, x)
    width = max(map(len, parts), default=0)
    require_few_texts("string_split", len(parts) * width * _POINTER)
    return _texts([entry for each in parts for entry in (*each, *[""] * (width - len(each)))], (*x.shape, width))


@row("string_split_count")
def string_split_count(symbol: BoundSymbol, x: Array) -> Array:
    return np.array([len(each) for each in _parts(symbol, x)], np.int64).reshape(x.shape)


def _parts(symbol: BoundSymbol, x: Array) -> list[list[str]]:
    options = _options(symbol)
    delimiter, limit = options["delimiter"] or None, options["limit"]
    found, left = [], MAX_TEXT_BYTES // TEXT_ENTRY
    for entry in x.reshape(-1).tolist():
        parts = entry.split(delimiter, left if limit is None else min(limit, left))
        left -= len(parts)
        if left < 0:
            require_few_texts("string_split", MAX_TEXT_BYTES + 1)
        found.append(parts)
    return found


@row("regex_full_match")
def regex_full_match(symbol: BoundSymbol, x: Array) -> Array:
    pattern = _pattern(_options(symbol)["pattern"])
    return np.array(_mapped(pattern.matches, x), np.bool_).reshape(x.shape)


@row("tokens")
def tokens(symbol: BoundSymbol, x: Array) -> Array:
    options = _options(symbol)
    pattern, least = _pattern(options["pattern"]), options["least"]
    parts = [[part for part in pattern.parts(entry) if len(part) >= least] for entry in x.reshape(-1).tolist()]
    if options["marks"] and any(parts):  # where no text has a part, there are no marks, either
        parts = [["\x02", *each, "\x03"] for each in parts]
    width = max(map(len, parts), default=0)
    return _texts([entry for each in parts for entry in (*each, *[options["pad"]] * (width - len(each)))], (*x.shape, width))


@functools.lru_cache(maxsize=64)
def _pattern(text: str) -> Pattern:
    return Pattern(text)


@row("string_normalize")
def string_normalize(symbol: BoundSymbol, x: Array) -> Array:
    """Drop stop words, compared as written or in lower case, and change the case of the others."""
    options = _options(symbol)
    seen: Callable[[str], str] = str if options["case_sensitive"] else str.lower
    dropped = {seen(entry) for entry in options["stopwords"]}
    changes: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "none": str}
    change = changes[options["case"]]
    kept = [change(entry) for entry in x.reshape(-1).tolist() if seen(entry) not in dropped] or [""]
    return _texts(kept, (*x.shape[:-1], len(kept)))


@row("tf_idf")
def tf_idf(symbol: BoundSymbol, x: Array) -> Array:
    """Count terms of n entries that are 1 … `skips` + 1 apart; single entries are counted once."""
    options = _options(symbol)
    pool = {tuple(term): number for number, term in enumerate(options["pool"])}
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    result = np.zeros((len(rows), max(options["positions"], default=-1) + 1), np.float32)
    weights = options["weights"] or [1.0] * len(pool)
    lengths = sorted({len(term) for term in pool if options["shortest"] <= len(term) <= options["longest"]})
    for number, entries in enumerate(rows.tolist()):
        counts: Counter[int] = Counter()
        for length in lengths:  # of terms that there are: attributes may state any number of lengths, and of skips
            farthest = min(options["skips"] + 1, (len(entries) - 1) // (length - 1)) if length > 1 else 1
            for step in range(1, farthest + 1):
                for start in range(len(entries) - (length - 1) * step):
                    found = pool.get(tuple(entries[start : start + (length - 1) * step + 1 : step]))
                    if found is not None:
                        counts[found] += 1
        for term, count in counts.items():
            value = {"TF": float(count), "IDF": weights[term], "TFIDF": count * weights[term]}[options["mode"]]
            result[number, options["positions"][term]] += value
    return result.reshape(*x.shape[:-1], result.shape[1])


@row("encode_labels")
def encode_labels(symbol: BoundSymbol, x: Array) -> Array:
    """Look values up; of equal keys the last one counts."""
    options = _options(symbol)
    source = symbol.inputs[0].dtype
    convert: Callable[[Any], Any] = str if source is string else source.numpy.type
    table: dict[object, object] = {}
    missing: object = options["default"]
    nan_value = missing
    for key, value in zip(options["keys"], options["values"], strict=True):
        if isinstance(key, float) and math.isnan(key):
            nan_value = value
        else:
            with np.errstate(all="ignore"):
                table[convert(key)] = value
    entries = list(x.reshape(-1)) if source is not string else x.reshape(-1).tolist()
    found = [nan_value if entry != entry else table.get(entry, missing) for entry in entries]
    if symbol.dtype is string:
        return _texts(found, x.shape)
    return np.array(found, np.float64 if symbol.dtype.is_float else np.int64).astype(symbol.dtype.numpy).reshape(x.shape)


@row("parse_numbers")
def parse_numbers(symbol: BoundSymbol, x: Array) -> Array:
    dtype, texts = symbol.dtype, x.reshape(-1).tolist()
    try:
        if any("_" in text or not text.isascii() for text in texts):  # only Python reads these as numbers
            raise ValueError
        numbers = [float(text) if dtype.is_float else int(text) for text in texts]
    except (ValueError, OverflowError):
        raise UserError(f"parse_numbers: a string is no number of {dtype}; fix: pass strings such as '12'") from None
    if not dtype.is_float and not all(dtype.contains_integer(int(number)) for number in numbers):
        raise UserError(f"parse_numbers: a number does not fit {dtype}; fix: a wider dtype")
    with np.errstate(all="ignore"):
        return np.array(numbers, np.float64 if dtype.is_float else object).astype(dtype.numpy).reshape(x.shape)


@row("print_numbers")
def print_numbers(symbol: BoundSymbol, x: Array) -> Array:
    dtype = symbol.inputs[0].dtype
    if dtype.is_integer or dtype.is_bool:
        return _texts([str(int(entry)) for entry in x.reshape(-1).tolist()], x.shape)
    return _texts([str(entry) for entry in x.reshape(-1)], x.shape)
