"""Reads the text form of a graph (see `printing.py`).

The text may be untrusted: sizes, counts and depths are bounded, nothing is evaluated, and the result passes
the verifier, which recomputes every dtype and shape through the op table and derives what must hold at
launch. Every mistake is a `UserError`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn, cast

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DTYPES, DType, string
from ...promotion.errors import InternalError, UserError
from ...promotion.rules import RuleSet
from ..constants import array_digest
from ..dims.dim import Dim, Extent
from ..graph import Graph
from ..location import UNKNOWN, NodeLocation
from ..ops.attributes import Attributes, fixed
from ..ops.table import op_named
from ..reference.budget import Budget
from ..region import Region
from ..symbol import Symbol
from ..types import as_dtype, as_extent
from ..verify import verify
from .printing import INLINE_BYTES

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<dim><[^<>]*>)|(?P<symbol>%\d+)|(?P<comment>\#.*)'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?P<word>[A-Za-z_][A-Za-z0-9_.]*)|(?P<mark>//|\*\*|[-+*%=(){}\[\]:,]))"
)
DEFAULT = Budget()
_MAX_TEXT = 1 << 28
_MAX_DEPTH = 8
_MAX_TUPLE = 1 << 16


def from_text(text: str, arrays: Mapping[str, Array] | None = None, budget: Budget | None = DEFAULT) -> Graph:
    """Return the graph of a text, given the arrays that it refers to by SHA-256.

    What its ops need at launch is derived from the ops; `check` lines of the text are checked as well, and
    cannot weaken that. budget: what a run may need, None for no limit. What depends on symbolic sizes is
    checked by every run.

    Raises `UserError` for anything malformed or beyond the budget.
    """
    if not isinstance(text, str):
        fix = "from_text(*pair), as to_text returns text and arrays" if isinstance(text, tuple) else "pass the text of a graph"
        raise UserError(f"graph text: expected text, not {type(text).__name__}; fix: {fix}")
    if len(text) > _MAX_TEXT:
        raise UserError(f"graph text: {len(text)} characters, more than {_MAX_TEXT}")
    lines = [
        (number, line)
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip() and line.strip()[0] != "#"
    ]
    if not lines:
        raise UserError("graph text: it is empty")
    reader = _Reader(arrays or {}, budget)
    for number, line in lines:
        reader.read(number, line)
    return reader.finish()


def stored_graph(text: str, arrays: Mapping[str, Array], budget: Budget | None = DEFAULT) -> Graph:
    """Return the graph of a saved model's text, as `from_text` does. Raises `UserError` for one without outputs, too."""
    graph = from_text(text, arrays, budget)
    if not graph.finished:
        raise UserError(f"graph {graph.name!r} has no output; fix: save the model again")
    return graph


class _Line:
    """The tokens of one line."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text = number, text
        self.tokens: list[tuple[str, str]] = []
        self.position = 0
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                self.fail(f"unexpected {text[at:].strip()[:10]!r}")
            if match.lastgroup != "comment":
                self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
            at = match.end()

    def fail(self, problem: str) -> NoReturn:
        raise UserError(f"graph text, line {self.number}: {problem}\n  {self.text.strip()[:200]}")

    def peek(self) -> tuple[str, str]:
        return (
            self.tokens[self.position] if self.position < len(self.tokens) else ("end", "the end of the line")
        )

    def accept(self, text: str) -> bool:
        kind, found = self.peek()
        if found != text or kind not in ("mark", "word"):
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.peek()[1]!r}")

    def take(self, kind: str) -> str:
        found, text = self.peek()
        if found != kind:
            self.fail(f"expected a {kind}, found {text!r}")
        self.position += 1
        return text

    def string(self) -> str:
        try:
            found = str(json.loads(self.take("string")))
        except ValueError:
            self.fail("malformed string")
        if not found.isprintable():  # names go to listings, messages and file names
            self.fail(f"{found!r} has characters that cannot be printed")
        return found

    def integer(self) -> int:
        text = self.take("number")
        if not text.lstrip("-").isdigit() or len(text) > 40:
            self.fail(f"expected an integer, found {text!r}")
        return int(text)

    def done(self) -> None:
        if self.position < len(self.tokens):
            self.fail(f"unexpected {self.peek()[1]!r}")


class _Open(NamedTuple):
    """A graph whose lines go on behind those of a region."""

    graph: Graph
    regions: list[Region]
    outputs: list[Symbol]
    names: list[str]


class _Reader:
    def __init__(self, arrays: Mapping[str, Array], budget: Budget | None) -> None:
        self.arrays, self.budget = arrays, budget
        self.graph: Graph | None = None
        self.outer: list[_Open] = []
        self.regions: list[Region] = []
        self.outputs: list[Symbol] = []
        self.names: list[str] = []

    def read(self, number: int, text: str) -> None:
        line = _Line(number, text)
        try:
            self._statement(line)
        except (UserError, InternalError) as error:
            if str(error).startswith("graph text"):
                raise
            line.fail(str(error))

    def _statement(self, line: _Line) -> None:
        if self.graph is None:
            line.expect("graph")
            name = line.string()
            line.expect("semantics")
            semantics = line.string()
            line.expect("policy")
            policy = line.string()
            own = self._rules(line, semantics) if line.accept("rules") else semantics
            self.graph = Graph(name, (), own, policy)
        elif line.accept("region"):
            self._open(line, line.string())
        elif line.accept("end"):
            self._close(line)
        elif line.accept("check"):
            lhs, rhs = self._extents(line, 2)
            self.graph.shape_checks.add(lhs, rhs, line.string())
        elif line.accept("output"):
            self.outputs.append(self._symbol(line, self.graph))
            self.names.append(line.string())
        else:
            self._definition(line, self.graph)
        line.done()

    def _open(self, line: _Line, name: str) -> None:
        """Begin a region of the graph."""
        if len(self.outer) >= _MAX_DEPTH:
            line.fail(f"regions are nested deeper than {_MAX_DEPTH}")
        graph = self.graph
        if graph is not None:
            self.outer.append(_Open(graph, self.regions, self.outputs, self.names))
            self.graph = Region(graph, "region")
            self.graph.name = name
            self.regions, self.outputs, self.names = [], [], []

    def _close(self, line: _Line) -> None:
        """End a region, which belongs to the next symbol of the graph around it."""
        region = self.graph
        if not self.outer or not isinstance(region, Region):
            line.fail("there is no region to end")
        if not self.outputs or self.regions:
            line.fail(f"the region {'has no output' if not self.outputs else 'ends in a region of no symbol'}")
        region.standing = tuple(region.shape_checks.entries)
        Graph.output(region, *self.outputs, names=self.names)  # with the checks that its lines state
        self.graph, self.regions, self.outputs, self.names = self.outer.pop()
        self.regions.append(region)

    def finish(self) -> Graph:
        graph = self.graph
        if graph is None:
            raise UserError(
                'graph text: there is no header; expected: graph "name" semantics "max" policy "lattice"'
            )
        if self.outer or self.regions:
            raise UserError(f"graph text: {'a region has no end' if self.outer else 'the last region belongs to no symbol'}")
        graph.standing, graph.budget = tuple(graph.shape_checks.entries), self.budget
        try:
            if self.outputs:
                graph.output(*self.outputs, names=self.names)
            else:
                verify(graph)
        except (UserError, InternalError) as error:
            raise UserError(f"graph text: {error}") from None
        return graph

    def _symbol(self, line: _Line, graph: Graph) -> Symbol:
        number = int(line.take("symbol")[1:16])
        if number >= len(graph.symbols):
            line.fail(f"%{number} is not defined before this line")
        return graph.symbols[number]

    def _definition(self, line: _Line, graph: Graph) -> None:
        target = line.take("symbol")
        if target != f"%{len(graph.symbols)}":
            line.fail(f"expected %{len(graph.symbols)}, found {target}: symbols are numbered in order")
        line.expect("=")
        row = op_named(line.take("word"))
        operands: list[Symbol] = []
        if line.accept("(") and not line.accept(")"):
            operands.append(self._symbol(line, graph))
            while line.accept(","):
                operands.append(self._symbol(line, graph))
            line.expect(")")
        raw = self._attributes(line)
        line.expect(":")
        dtype = DType(line.take("word"))
        shape = tuple([as_extent(extent) for extent in self._extents(line)])
        attrs = {name: self._array(line, value, dtype, shape) for name, value in raw.items()}
        if "regions" in row.attrs:
            attrs["regions"], self.regions = tuple(self.regions), []
        if self.regions:
            line.fail(f"{row.name} has no regions")
        if set(attrs) != set(row.attrs):
            line.fail(
                f"{row.name} has the attributes {', '.join(row.attrs) or 'none'}, found {', '.join(attrs) or 'none'}"
            )
        weak = DType(line.take("word")) if line.accept("weak") else None
        implicit = line.string() if line.accept("implicit") else None
        location = NodeLocation(line.string(), line.integer(), line.string()) if line.accept("at") else UNKNOWN
        name = attrs.get("name")
        if name is not None and not isinstance(name, str):
            line.fail(f"the name {name!r} is no text")
        checked = cast(Attributes, attrs)  # by the verifier, against the row
        graph.restore(row, operands, fixed(checked), dtype, shape, location, implicit, weak)

    def _rules(self, line: _Line, name: str) -> RuleSet:
        """Read a rule set that is written out, because it is no preset."""
        try:
            data = json.loads(line.string())
        except (ValueError, RecursionError) as error:
            line.fail(f"rules: {error}")
        found = RuleSet.from_dict(data)
        if found.name != name:
            line.fail(f"rules of {found.name!r} in a graph of semantics {name!r}")
        return found

    # -- values --------------------------------------------------------------------------------------------------------

    def _extents(self, line: _Line, count: int | None = None) -> tuple[Extent, ...]:
        """Read extents such as `[batch, 2*seq + 1]`, split at the commas outside parentheses."""
        line.expect("[")
        parts: list[list[str]] = [[]]
        depth = 0
        after_mark = False
        while True:
            kind, text = line.peek()
            if kind == "end":
                line.fail("expected ']'")
            line.position += 1
            if text == "]" and kind == "mark":
                break
            depth += (text == "(") - (text == ")")
            if text == "," and depth == 0:
                parts.append([])
            else:
                apart = after_mark == (kind == "mark")  # two words or marks may be one without a space between them
                parts[-1].append(f" {text}" if apart else text)
            after_mark = kind == "mark"
        if parts == [[]]:
            parts = []
        if count is not None and len(parts) != count:
            line.fail(f"expected {count} extents, found {len(parts)}")
        return tuple([Dim.parse("".join(part)) for part in parts])

    def _attributes(self, line: _Line) -> dict[str, object]:
        attrs: dict[str, object] = {}
        if not line.accept("{") or line.accept("}"):
            return attrs
        while True:
            name = line.take("word")
            if name in attrs:
                line.fail(f"attribute {name} is given twice")
            line.expect("=")
            attrs[name] = self._value(line, 0)
            if line.accept("}"):
                return attrs
            line.expect(",")

    def _value(self, line: _Line, depth: int) -> object:
        if depth > _MAX_DEPTH:
            line.fail(f"nested deeper than {_MAX_DEPTH}")
        kind, text = line.peek()
        if kind == "string":
            return line.string()
        if kind == "dim":
            line.position += 1
            return Dim.parse(text[1:-1])
        if kind == "number":
            return line.integer() if text.lstrip("-").isdigit() else float(line.take("number"))
        if line.accept("("):
            return self._tuple(line, depth)
        identifier = line.take("word")
        if identifier in ("true", "false"):
            return identifier == "true"
        if identifier == "float":
            return self._special_float(line)
        if identifier == "complex":
            return self._complex(line, depth)
        if identifier in ("hex", "sha256"):
            return (identifier, line.string())
        if identifier in DTYPES or identifier == string.name:
            return DType(identifier)
        line.fail(f"unknown value {identifier!r}")

    def _tuple(self, line: _Line, depth: int) -> tuple[object, ...]:
        values: list[object] = []
        if line.accept(")"):
            return ()
        while True:
            values.append(self._value(line, depth + 1))
            if len(values) > _MAX_TUPLE:
                line.fail(f"a tuple of more than {_MAX_TUPLE} entries")
            if line.accept(")"):
                return tuple(values)
            line.expect(",")

    def _complex(self, line: _Line, depth: int) -> complex:
        line.expect("(")
        parts = self._tuple(line, depth)
        match parts:
            case (float(real), float(imaginary)):
                return complex(real, imaginary)
            case _:
                line.fail(f"expected the real and the imaginary part as floats, found {len(parts)} values")

    @staticmethod
    def _special_float(line: _Line) -> float:
        line.expect("(")
        negative = line.accept("-")
        identifier = line.take("word")
        line.expect(")")
        if identifier not in ("inf", "nan"):
            line.fail(f"expected inf or nan, found {identifier!r}")
        return math.nan if identifier == "nan" else -math.inf if negative else math.inf

    def _array(self, line: _Line, value: object, dtype: DType, shape: Sequence[Extent]) -> object:
        """Return an array from its bytes or digest, checked against the type of the statement.

        Other values as they are.
        """
        if not (isinstance(value, tuple) and len(value) == 2 and value[0] in ("hex", "sha256")):
            return value
        if not all(isinstance(extent, int) for extent in shape):
            line.fail("a constant has a static shape")
        sizes = tuple([extent for extent in shape if isinstance(extent, int)])
        count = math.prod(sizes)
        if value[0] == "sha256":
            array = self.arrays.get(value[1])
            if array is None:
                line.fail(f"the array {value[1][:16]}… is not among those given")
            array = np.ascontiguousarray(array).reshape(array.shape)
            if array_digest(array).hexdigest() != value[1]:
                line.fail(f"the array {value[1][:16]}… does not have that digest")
            if as_dtype(array.dtype).numpy != dtype.numpy or array.shape != sizes:
                if array.nbytes == count * dtype.numpy.itemsize and count:  # arrays of equal bytes are stored once
                    return array.reshape(-1).view(np.uint8).view(dtype.numpy).reshape(sizes)
                line.fail(f"the array is {array.dtype} {array.shape}, the line says {dtype} {sizes}")
            array = array.view()
        else:
            expected = count * dtype.itemsize
            if expected > INLINE_BYTES or len(value[1]) != 2 * expected:
                line.fail(
                    f"{dtype} {sizes} takes {expected} bytes (at most {INLINE_BYTES} inline), found {len(value[1]) // 2}"
                )
            try:
                array = np.frombuffer(bytes.fromhex(value[1]), dtype=dtype.numpy).reshape(sizes)
            except ValueError:
                line.fail("malformed bytes")
        array.flags.writeable = False
        return array
