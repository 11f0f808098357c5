"""Holds the rows that run on the host between compiled parts: sizes that values decide, and strings.

Such a row has no lowering: a plan that contains one is run in stages (docs/design/017-onnx.md). Its parameters are one JSON
object, `options`; `extents` names the sizes of the result that are known only when it has run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...promotion.dtype import DType, bool_, float32, int64, string, uint8, uint32
from ...promotion.errors import UserError
from ...promotion.literals import Operand
from ...promotion.result_rules import Promotion, ResultRule
from ...promotion.rules import RuleSet, dtype_of
from ..checks import Checks, ShapeError
from ..dims.dim import Dim, Extent
from ..protocols import GraphLike, SymbolLike
from ..types import MAX_RANK, Shape
from .attributes import Attributes, parsed_options
from .opdef import Demand, OpDef, ShapeFunction
from .shape import broadcast_shapes

MAX_PATTERN = 4096
"""Most characters of a pattern that strings are matched with."""


def is_host(operands: Sequence[DType], kind: str, result: DType) -> bool:
    """Return whether a symbol is computed on the host: by a row of this file, or because it moves strings."""
    return kind == "host" or result is string or string in operands


def needs_host(graph: GraphLike[SymbolLike]) -> bool:
    """Return whether a graph may have symbols that are computed on the host."""
    return any(symbol.op.kind == "host" or symbol.dtype is string for symbol in graph.symbols)


# -- promotion ---------------------------------------------------------------------------------------------------------


def _rule(name: str, summary: str, takes: Callable[[DType], bool], expected: str, result: DType | None) -> ResultRule:
    """Return a rule that casts nothing: operands that are taken as they are, and a result of one dtype (None: the given one,
    else that of the first operand)."""

    def decide(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
        own = tuple([dtype_of(operand) for operand in operands])
        for each in own:
            if not takes(each):
                raise UserError(f"{op}: not defined for {each}; fix: pass {expected}")
        return Promotion(own, result or dtype or own[0])

    return ResultRule(name, summary, decide)


_TEXT = lambda dtype: dtype is string  # noqa: E731
_TO_TEXT = _rule("STRINGS", "operands are strings, and so is the result", _TEXT, "strings", string)
_TO_BOOL = _rule("STRINGS_TO_BOOL", "operands are strings; the result is bool", _TEXT, "strings", bool_)
_TO_COUNT = _rule("STRINGS_TO_COUNT", "operands are strings; the result is int64", _TEXT, "strings", int64)
_TO_HASH = _rule("STRINGS_TO_HASH", "operands are strings; the result is uint32", _TEXT, "strings", uint32)
_TO_FLOAT = _rule("TERMS", "the operand holds strings or integers; the result is float32",
                  lambda dtype: dtype is string or dtype.is_integer, "strings or integers", float32)  # fmt: skip
_TO_ANY = _rule("ENCODED", "the operand keeps its dtype; the result has `dtype`", lambda dtype: True, "a tensor", None)
_NUMBERS = lambda dtype: dtype.has_arithmetic or dtype is string  # noqa: E731
_POSITIONS = _rule("POSITIONS", "the operand keeps its dtype; the result is int64, positions", _NUMBERS, "numbers", int64)
_IS_INT64 = lambda dtype: dtype is int64  # noqa: E731
_TO_SIZE = _rule("SIZE", "the operand is an int64 scalar; the result is bool", _IS_INT64, "an int64 scalar", bool_)
_IN_RANGE = _rule("IN_RANGE", "positions keep their dtype; their axis's size is an integer", lambda dtype: dtype.is_integer,
                  "integers", None)  # fmt: skip
_IF_TRUE = _rule("IF_TRUE", "the first operand keeps its dtype; the second one is bool", lambda dtype: True, "tensors", None)
_PARTS = _rule("PARTS", "the operand keeps its dtype; values have it too, positions and counts are int64", _NUMBERS,
               "numbers or strings", None)  # fmt: skip
_PARSED = _rule("PARSED", "the operand holds strings; the result has `dtype`", _TEXT, "strings", None)
_PRINTED = _rule("PRINTED", "the operand holds numbers; the result are strings", lambda dtype: dtype is not string, "numbers",
                 string)  # fmt: skip
_BOXES = _rule("BOXES", "operands are float32; the result is int64, positions", lambda dtype: dtype is float32, "float32",
               int64)  # fmt: skip
_PICTURE = _rule("PICTURE", "the operand holds the bytes of a file; the result is uint8", lambda dtype: dtype is uint8,
                 "bytes as uint8", uint8)  # fmt: skip


# -- shapes ------------------------------------------------------------------------------------------------------------


def _options(attrs: Attributes, **kinds: Callable[[Any], bool]) -> Mapping[str, Any]:
    """Return the options of a row. Raises `ShapeError` unless they are exactly these, with such values."""
    found = parsed_options(attrs["options"])
    if found.keys() != kinds.keys():
        raise ShapeError(f"options {sorted(found)}, the op has {sorted(kinds)}")
    for name, holds in kinds.items():
        if not holds(found[name]):
            raise ShapeError(f"option {name} is {json.dumps(found[name])[:80]}", "a value that the op takes")
    return found


def _fresh(attrs: Attributes, count: int) -> tuple[Dim, ...]:
    """Return the names of sizes that the values decide."""
    extents = attrs["extents"]
    if len(extents) != count or len({extent.name for extent in extents}) < count:
        raise ShapeError(f"{len(extents)} names of sizes", f"{count} distinct ones")
    return extents


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


def _list_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(holds, value))


def _one_of(*texts: str) -> Callable[[Any], bool]:
    return lambda value: type(value) is str and value in texts


def _is_entry(value: Any) -> bool:
    return type(value) in (str, int, float)


def text_shape(attrs: Attributes) -> Shape:
    """Return the shape of a constant of strings."""
    found = _options(attrs, texts=_list_of(_is_text), shape=_list_of(_is_count))
    shape = tuple(found["shape"])
    if math.prod(shape) != len(found["texts"]) or len(shape) > MAX_RANK:
        raise ShapeError(f"{len(found['texts'])} strings of shape {shape}", "as many strings as the shape has elements")
    return shape


def _broadcast(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return broadcast_shapes(shapes, checks)


def _split_options(attrs: Attributes) -> None:
    _options(attrs, delimiter=_is_text, limit=lambda value: value is None or (type(value) is int and value > 0))


def _split(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _split_options(attrs)
    return (*shapes[0], *_fresh(attrs, 1))


def _split_count(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _split_options(attrs)
    return shapes[0]


def _match(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _options(attrs, pattern=lambda value: _is_text(value) and len(value) <= MAX_PATTERN)
    return shapes[0]


def _hash(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _options(attrs, seed=lambda value: _is_count(value) and value < 1 << 32)
    return shapes[0]


def _is_pattern(value: Any) -> bool:
    return _is_text(value) and len(value) <= MAX_PATTERN


def _tokens(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _options(attrs, pattern=_is_pattern, least=_is_count, pad=_is_text, marks=_is_flag)
    return (*shapes[0], *_fresh(attrs, 1))


def _normalize(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    (shape,) = shapes
    _options(attrs, case=_one_of("none", "lower", "upper"), case_sensitive=_is_flag, stopwords=_list_of(_is_text))
    if len(shape) not in (1, 2):
        raise ShapeError(f"{len(shape)} axes", "shape (n,) or (1, n)", "take one row at a time")
    rows = [checks.require_equal(shape[0], 1, "the number of rows of strings")] if len(shape) == 2 else []
    return (*rows, *_fresh(attrs, 1))


def _tf_idf(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    (shape,) = shapes
    found = _options(
        attrs, mode=_one_of("TF", "IDF", "TFIDF"), shortest=_is_count, longest=_is_count, skips=_is_count,
        pool=_list_of(_list_of(_is_entry)), positions=_list_of(_is_count), weights=_list_of(_is_number),
    )  # fmt: skip
    grams = len(found["pool"])
    if len(found["positions"]) != grams or len(found["weights"]) not in (0, grams):
        raise ShapeError(f"{grams} terms, {len(found['positions'])} positions, {len(found['weights'])} weights")
    if len(shape) not in (1, 2):
        raise ShapeError(f"{len(shape)} axes", "shape (n,) or (rows, n)")
    return (*shape[:-1], max(found["positions"], default=-1) + 1)


def _encode(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    found = _options(attrs, keys=_list_of(_is_entry), values=_list_of(_is_entry), default=_is_entry)
    if len(found["keys"]) != len(found["values"]):
        raise ShapeError(f"{len(found['keys'])} keys, {len(found['values'])} values", "one value for each key")
    wants = str if attrs["dtype"] is string else (int, float)
    if not all(isinstance(value, wants) for value in (*found["values"], found["default"])):
        raise ShapeError(f"the values are not all of {attrs['dtype']}")
    return shapes[0]


def _unchanged(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return shapes[0]


def _nonzero(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    return (len(shapes[0]), *_fresh(attrs, 1))


def _rows(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    if shapes[0]:
        raise ShapeError(f"{len(shapes[0])} axes", "a scalar", "take one element")
    return (*_fresh(attrs, 1), 0)


def _in_range(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _options(attrs, operation=_is_text, axis=_is_count)
    if shapes[1]:
        raise ShapeError(f"a size with {len(shapes[1])} axes", "a scalar", "take one element")
    return shapes[0]


def _require(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _options(attrs, problem=_is_text)
    if shapes[1]:
        raise ShapeError(f"a condition with {len(shapes[1])} axes", "a scalar", "take one element")
    return shapes[0]


def _condition_dtype(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    if dtypes[1] is not bool_:
        raise ShapeError(f"a condition of {dtypes[1]}", "bool", "compare it with a number")


def _unique(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    (shape,) = shapes
    found = _options(attrs, axis=_is_count, sorted=_is_flag, part=_one_of("values", "first", "inverse", "counts"))
    (count,), axis = _fresh(attrs, 1), found["axis"]
    if axis >= len(shape):
        raise ShapeError(f"axis {axis} of {len(shape)}", "an axis of the operand")
    if found["part"] == "values":
        return (*shape[:axis], count, *shape[axis + 1 :])
    return (shape[axis],) if found["part"] == "inverse" else (count,)


def _suppression(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    _options(attrs, limit=_is_count, iou=_is_number, score=_is_number, centered=_is_flag)
    boxes, scores = shapes
    if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4:
        raise ShapeError(f"boxes {boxes}, scores {scores}", "boxes (batches, n, 4), scores (batches, classes, n)")
    checks.require_equal(boxes[0], scores[0], "the number of batches of boxes and scores")
    checks.require_equal(boxes[1], scores[2], "the number of boxes and of scores")
    return (*_fresh(attrs, 1), 3)


def _part_dtype(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    wanted = dtypes[0] if parsed_options(attrs["options"])["part"] == "values" else int64
    if attrs["dtype"] is not wanted:
        raise ShapeError(f"its dtype is {attrs['dtype']}", f"{wanted}")


def _key_dtype(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    wants = str if dtypes[0] is string else (int, float)
    if not all(isinstance(key, wants) for key in parsed_options(attrs["options"])["keys"]):
        raise ShapeError(f"the keys are not all of {dtypes[0]}", "keys of the operand's dtype")


def _term_dtype(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    wants = str if dtypes[0] is string else int
    if not all(isinstance(entry, wants) for term in parsed_options(attrs["options"])["pool"] for entry in term):
        raise ShapeError(f"the terms are not all of {dtypes[0]}", "terms of the operand's dtype")


def _to_numbers(dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> None:
    if not attrs["dtype"].has_arithmetic:
        raise ShapeError(f"numbers of {attrs['dtype']}", "a dtype with arithmetic", "dtype=float32")


_CHANNELS: Mapping[str, Extent] = {"RGB": 3, "BGR": 3, "Grayscale": 1}


def _picture(shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
    found = _options(attrs, pixels=_one_of(*_CHANNELS))
    if len(shapes[0]) != 1:
        raise ShapeError(f"{len(shapes[0])} axes", "the bytes of one file, of shape (n,)")
    return (*_fresh(attrs, 2), _CHANNELS[found["pixels"]])


# -- rows --------------------------------------------------------------------------------------------------------------


def _row(
    name: str, arity: int, doc: str, promote: ResultRule, infer: ShapeFunction, attrs: tuple[str, ...] = ("options",),
    onnx: tuple[str, int] | None = None, demand: Demand | None = None, is_internal: bool = False,
) -> OpDef:  # fmt: skip
    traits = frozenset(("any_dtype", "internal") if is_internal else ("any_dtype",))
    return OpDef(name, "host", arity, doc, promote, infer, attrs=attrs, demand=demand, traits=traits, onnx=onnx)


_SIZED = ("options", "extents")

STRINGS = (
    _row("string_concat", 2, "Strings joined one to one, as numpy.strings.add.", _TO_TEXT, _broadcast, (),
         ("StringConcat", 20)),
    _row("string_equal", 2, "Whether strings are equal.", _TO_BOOL, _broadcast, ()),
    _row("string_split", 1, "The parts of each string between delimiters (runs of white space if it is empty), with \"\" where "
         "others have more.", _TO_TEXT, _split, _SIZED, ("StringSplit", 20)),
    _row("string_split_count", 1, "How many parts `string_split` makes of each string.", _TO_COUNT, _split_count),
    _row("regex_full_match", 1, "Whether the whole string matches a pattern of RE2's syntax.", _TO_BOOL, _match,
         onnx=("RegexFullMatch", 20)),
    _row("tokens", 1, "The parts of each string that match a pattern of RE2's syntax, each the longest that begins there; a "
         "filler where others have more.", _TO_TEXT, _tokens, _SIZED, is_internal=True),
    _row("string_hash", 1, "MurmurHash3 (x86, 32 bits) of each string in UTF-8.", _TO_HASH, _hash, is_internal=True),
    _row("string_normalize", 1, "Strings without stop words, in lower or upper case; one \"\" if none is left.", _TO_TEXT,
         _normalize, _SIZED, ("StringNormalizer", 10)),
    _row("tf_idf", 1, "How often, or with what weight, the terms of a pool occur in each row.", _TO_FLOAT, _tf_idf,
         onnx=("TfIdfVectorizer", 9), demand=_term_dtype),
    _row("encode_labels", 1, "The value of each element's key in a table; a default for others. NaN is a key like others.",
         _TO_ANY, _encode, ("options", "dtype"), demand=_key_dtype),
    _row("parse_numbers", 1, "Numbers of `dtype` that strings write in decimal.", _PARSED, _unchanged, ("dtype",),
         demand=_to_numbers),
    _row("print_numbers", 1, "The shortest text of each number that is read back as the same one.", _PRINTED, _unchanged, ()),
)  # fmt: skip

DATA_SIZED = (
    _row("nonzero", 1, "The positions of elements that are not 0, one column each, in row-major order; as numpy.nonzero.",
         _POSITIONS, _nonzero, ("extents",), ("NonZero", 13)),
    _row("empty_rows", 1, "As many rows without elements as an integer says, none for a negative one: a size that is computed.",
         _TO_SIZE, _rows, ("extents",), is_internal=True),
    _row("positions_in_range", 2, "Positions, if an axis of the size that the second operand is has all of them; else the run "
         "ends with an error.", _IN_RANGE, _in_range, is_internal=True),
    _row("require", 2, "The first operand, if the second is true; else the run ends with an error.", _IF_TRUE, _require,
         demand=_condition_dtype, is_internal=True),
    _row("unique", 1, "The distinct slices along an axis: their values, the position of the first of each, for each slice "
         "which one it is, or how many there are; sorted, or in order of appearance.", _PARTS, _unique, (*_SIZED, "dtype"),
         ("Unique", 11), _part_dtype),
    _row("non_max_suppression", 2, "(batch, class, box) of the boxes that overlap no better one of their class by more than "
         "`iou`, at most `limit` of each class.", _BOXES, _suppression, _SIZED, ("NonMaxSuppression", 11)),
    _row("image_decode", 1, "The pixels (height, width, channels) of a picture in a file's bytes.", _PICTURE, _picture, _SIZED,
         ("ImageDecoder", 20)),
)  # fmt: skip

ROWS = (*STRINGS, *DATA_SIZED)
