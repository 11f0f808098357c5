"""Holds the data that a rule set is made from: read from a mapping or a file, checked, and written back.

Exactly one of four keys says how pairs join: `edges` (a lattice), `table` (rows of results, null where there
is no join), `steps` (an ordered list of rules, `ordered.py`) or `order: "value-preserving"` (derived from the
value sets of the dtypes). The others say which dtypes Python and NumPy scalars take, and what operations that
do not simply join return.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

from .dataclass import dataclass
from .dtype import DType, raise_unknown
from .errors import UserError
from .literals import LiteralRules
from .ordered import KINDS, Step, read_steps

MAX_BYTES = 1 << 20
Value = TypeVar("Value", str, bool)
Cells = Mapping[tuple[DType, DType], DType]
Division = Literal["floor", "truncate"]
NumpyScalars = Literal["weak", "strong"]

_KEYS = {
    "name", "description", "source", "edges", "elements", "table", "steps", "order", "never_above", "weak", "literals",
    "division", "zero_dim", "numpy_scalars", "inexact", "quotient", "mean", "accumulate", "errata",
}  # fmt: skip
_USED_WITH = {"elements": ("edges", "steps", "order"), "never_above": ("order",)}


@dataclass(frozen=True, slots=True)
class Erratum:
    """A cell of a published table that contradicts its mirror cell.

    `printed` is the cell (lhs, rhs), `mirrored` the cell (rhs, lhs); `reading` is what the publication's prose asks for.
    """

    lhs: DType
    rhs: DType
    printed: DType
    mirrored: DType
    reading: DType


@dataclass(frozen=True, slots=True)
class Definition:
    """The data of a rule set.

    `cells` is None unless a table was given; `dtypes` lists the dtypes of the table, or the elements, in
    their order. Raises `UserError` for a bad name and for weak elements, kinds or `never_above` entries that
    do not fit the rest.
    """

    name: str
    literals: LiteralRules
    description: str = ""
    source: str = ""
    dtypes: tuple[DType, ...] = ()
    edges: tuple[tuple[DType, DType], ...] = ()
    cells: Cells | None = None
    steps: tuple[Step, ...] = ()
    order: str = ""
    never_above: tuple[DType, ...] = ()
    weak: Mapping[DType, DType] = field(default_factory=dict)
    division: Division = "floor"
    zero_dim: bool = False
    numpy_scalars: NumpyScalars = "weak"
    inexact: Mapping[DType, DType] = field(default_factory=dict)
    quotient: DType | None = None
    mean: DType | None = None
    accumulate: Mapping[DType, DType] = field(default_factory=dict)
    errata: tuple[Erratum, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise UserError(
                f"rule set: the name must be printable text, and not empty, not {self.name!r}; fix: give it one like 'mine'"
            )
        for element, dtype in self.weak.items():
            if not element.is_weak or dtype.is_abstract:
                raise UserError(
                    f"rule set {self.name!r}: 'weak' gives {element} the dtype {dtype}; expected one of weak_int, weak_float, "
                    "weak_complex, and a dtype that tensors can have"
                )
        kinds = {KINDS[dtype.kind]: dtype for dtype in self.dtypes}
        for step in self.steps:
            left_out = [kind for kind in kinds if step.rule == "kind" and kind not in step.order]
            if left_out:
                raise UserError(
                    f"rule set {self.name!r}: 'steps': the order of kinds lacks {left_out[0]!r}, which {kinds[left_out[0]]} is"
                )
        weak = [dtype for dtype in self.dtypes if self.order and dtype.is_weak]
        unknown = [dtype for dtype in self.never_above if dtype not in self.dtypes]
        if weak or unknown:
            raise UserError(
                f"rule set {self.name!r}: "
                + (f"'order': {weak[0]} has no values" if weak else f"'never_above': {unknown[0]} is not among the elements")
            )

    def to_dict(self) -> dict[str, object]:
        """Return plain data that `read` turns back into an equivalent definition."""
        names = [dtype.name for dtype in self.dtypes]
        data: dict[str, object] = {"name": self.name, "description": self.description, "source": self.source}
        if self.cells is not None:
            rows = {
                a.name: [None if (cell := self.cells.get((a, b))) is None else cell.name for b in self.dtypes]
                for a in self.dtypes
            }
            data["table"] = {"dtypes": names, "rows": rows}
        elif self.steps:
            data["elements"] = names
            data["steps"] = [_step_dict(step) for step in self.steps]
        elif self.order:
            data |= {"elements": names, "order": self.order, "never_above": [d.name for d in self.never_above]}
        else:
            data |= {"elements": names, "edges": [[a.name, b.name] for a, b in self.edges]}
        data["literals"] = _literals_dict(self.literals)
        for key in ("weak", "inexact", "accumulate"):
            data[key] = {a.name: b.name for a, b in getattr(self, key).items()}
        for key in ("quotient", "mean"):
            dtype = getattr(self, key)
            data[key] = dtype.name if dtype is not None else ""
        data |= {"division": self.division, "zero_dim": self.zero_dim}
        data["numpy_scalars"] = "strong" if self.numpy_scalars == "strong" else ""
        data["errata"] = [
            {key: getattr(erratum, key).name for key in ("lhs", "rhs", "printed", "mirrored", "reading")}
            for erratum in self.errata
        ]
        return {key: value for key, value in data.items() if value not in ("", [], {}, False)}


def _step_dict(step: Step) -> dict[str, object]:
    data: dict[str, object] = {"rule": step.rule}
    if step.rule == "kind":
        data["order"] = list(step.order)
    if step.sets:
        data["sets"] = [{"of": sorted(d.name for d in members), "is": result.name} for members, result in step.sets]
    return data


def _literals_dict(literals: LiteralRules) -> dict[str, object]:
    data: dict[str, object] = {
        key: [dtype.name for dtype in getattr(literals, key)] for key in ("integers", "floats", "complexes")
    }
    cells: dict[str, dict[str, str | None]] = {}
    for (dtype, kind), result in literals.cells.items():
        cells.setdefault(kind, {})[dtype.name] = None if result is None else result.name
    return {key: value for key, value in (data | {"cells": cells}).items() if value}


class _Reader:
    """Reads the parts of a definition from a mapping; each error names the rule set and the key."""

    def __init__(self, data: Mapping[str, object], origin: str) -> None:
        self.data, self.origin = data, origin

    def fail(self, text: str) -> NoReturn:
        raise UserError(f"{self.origin}: {text}")

    def get(self, key: str, default: Value) -> Value:
        """Return the value of a key, which must have the type of `default`: str or bool."""
        value = self.data.get(key, default)
        if not isinstance(value, type(default)):
            self._wrong_type(key, value)
        return value

    def list_of(self, key: str) -> Sequence[object]:
        value = self.data.get(key, ())
        if not isinstance(value, (list, tuple)):
            self._wrong_type(key, value)
        return value

    def mapping_of(self, key: str) -> Mapping[str, object]:
        value = self.data.get(key, {})
        if not isinstance(value, Mapping):
            self._wrong_type(key, value)
        return value

    def _wrong_type(self, key: str, value: object) -> NoReturn:
        self.fail(f"{key!r} has the wrong type: {type(value).__name__}")

    def dtype(self, value: object, key: str) -> DType:
        try:
            return DType(value) if isinstance(value, (str, DType)) else raise_unknown(value)
        except UserError as error:
            self.fail(f"{key!r}: {error}")

    def dtypes(self, key: str, values: object = None) -> tuple[DType, ...]:
        values = self.list_of(key) if values is None else values
        if not isinstance(values, (list, tuple)):
            self.fail(f"{key!r} needs a list of dtypes, not {values!r}")
        found = [self.dtype(value, key) for value in values]
        for dtype in found:
            if found.count(dtype) > 1:
                self.fail(f"{key!r} lists {dtype} twice")
        return tuple(found)

    def mapping(self, key: str) -> dict[DType, DType]:
        entries = self.mapping_of(key)
        return {self.dtype(a, key): self.dtype(b, key) for a, b in entries.items()}

    def edges(self) -> tuple[tuple[DType, DType], ...]:
        edges = []
        for edge in self.list_of("edges"):
            if not isinstance(edge, (list, tuple)) or len(edge) != 2:
                self.fail(f"'edges': {edge!r} is no pair [smaller, larger]")
            edges.append((self.dtype(edge[0], "edges"), self.dtype(edge[1], "edges")))
        return tuple(edges)

    def table(self) -> tuple[tuple[DType, ...], dict[tuple[DType, DType], DType] | None]:
        if "table" not in self.data:
            return (), None
        table = self.mapping_of("table")
        names, lines = table.get("dtypes"), table.get("rows")
        if not isinstance(names, (list, tuple)) or not isinstance(lines, Mapping):
            self.fail("'table' needs 'dtypes' (a list) and 'rows' (a list of results per dtype)")
        if len(table) > 2:
            self.fail(f"'table' has unknown keys: {', '.join(sorted(map(str, set(table) - {'dtypes', 'rows'})))}")
        dtypes = self.dtypes("table", names)
        rows = {self.dtype(name, "table"): row for name, row in lines.items()}
        for dtype in (*dtypes, *rows):
            row = rows.get(dtype)
            if dtype not in dtypes or not isinstance(row, (list, tuple)) or len(row) != len(dtypes):
                self.fail(f"'table': {dtype} needs one row of {len(dtypes)} cells (null where there is no join)")
        cells = {}
        for a, row in rows.items():
            for b, cell in zip(dtypes, row, strict=True):
                if cell is not None:
                    cells[a, b] = self.dtype(cell, "table")
        return dtypes, cells

    def literals(self) -> LiteralRules:
        data = self.mapping_of("literals")
        unknown = set(data) - {"integers", "floats", "complexes", "cells"}
        if unknown:
            self.fail(f"'literals' has unknown keys: {', '.join(sorted(map(str, unknown)))}")
        ladders = [
            self.dtypes("literals", data.get(key, default))
            for key, default in (("integers", ("int64",)), ("floats", ("float32",)), ("complexes", ()))
        ]
        given = data.get("cells", {})
        if not isinstance(given, Mapping):
            self.fail(f"'literals': 'cells' has the wrong type: {type(given).__name__}")
        cells: dict[tuple[DType, str], DType | None] = {}
        for kind, row in given.items():
            if kind not in ("bool", "int", "float", "complex") or not isinstance(row, Mapping):
                self.fail(f"'literals': cells of {kind!r}; expected bool, int, float or complex, each with dtypes")
            for name, cell in row.items():
                cells[self.dtype(name, "literals"), kind] = None if cell is None else self.dtype(cell, "literals")
        try:
            return LiteralRules(ladders[0], ladders[1], ladders[2], cells)
        except UserError as error:
            self.fail(f"'literals': {error}")

    def steps(self) -> tuple[Step, ...]:
        try:
            return read_steps(self.list_of("steps"))
        except UserError as error:
            self.fail(f"'steps': {error}")


def read(data: Mapping[str, object], origin: str = "rule set") -> Definition:
    """Return the definition that plain data describes.

    Raises `UserError` for unknown keys, wrong types, unknown dtypes and missing cells; `origin` opens the
    message.
    """
    if not isinstance(data, Mapping):
        raise UserError(f"{origin}: expected a mapping with 'name' and one of 'edges', 'table', 'steps', 'order'")
    reader = _Reader(data, origin)
    unknown = sorted(set(data) - _KEYS, key=str)
    if unknown:
        reader.fail(f"unknown keys: {', '.join(map(str, unknown))}; known: {', '.join(sorted(_KEYS))}")
    name = reader.get("name", "")
    if not name.strip():
        reader.fail("'name' is missing")
    reader.origin = f"{origin} {name!r}"
    ways = [key for key in ("edges", "table", "steps", "order") if key in data]
    if len(ways) != 1:
        reader.fail(f"expected exactly one of 'edges', 'table', 'steps', 'order', found {', '.join(ways) or 'none'}")
    idle = [key for key in ("elements", "never_above") if key in data and ways[0] not in _USED_WITH[key]]
    if idle:
        reader.fail(f"{idle[0]!r} means nothing beside {ways[0]!r}; it goes with {' or '.join(_USED_WITH[idle[0]])}")
    dtypes, cells = reader.table()
    division = reader.get("division", "floor")
    if division not in ("floor", "truncate"):
        reader.fail(f"'division' is {division!r}; expected 'floor' or 'truncate'")
    numpy_scalars = reader.get("numpy_scalars", "weak")
    if numpy_scalars not in ("weak", "strong"):
        reader.fail(f"'numpy_scalars' is {numpy_scalars!r}; expected 'weak' or 'strong'")
    order = reader.get("order", "")
    if ways == ["order"] and order != "value-preserving":
        reader.fail(f"'order' is {order!r}; expected 'value-preserving'")
    quotient, mean = reader.get("quotient", ""), reader.get("mean", "")
    errata = []
    for entry in reader.list_of("errata"):
        if not isinstance(entry, Mapping) or set(entry) != {"lhs", "rhs", "printed", "mirrored", "reading"}:
            reader.fail("'errata': each needs lhs, rhs, printed, mirrored and reading")
        errata.append(Erratum(**{key: reader.dtype(value, "errata") for key, value in entry.items()}))
    steps = reader.steps()
    if ways == ["steps"] and not steps:
        reader.fail("'steps' lists no rule")
    return Definition(
        name=name,
        literals=reader.literals(),
        description=reader.get("description", ""),
        source=reader.get("source", ""),
        dtypes=dtypes or reader.dtypes("elements"),
        edges=reader.edges(),
        cells=cells,
        steps=steps,
        order=order,
        never_above=reader.dtypes("never_above"),
        weak=reader.mapping("weak"),
        division="truncate" if division == "truncate" else "floor",
        zero_dim=reader.get("zero_dim", False),
        numpy_scalars="strong" if numpy_scalars == "strong" else "weak",
        inexact=reader.mapping("inexact"),
        quotient=reader.dtype(quotient, "quotient") if quotient else None,
        mean=reader.dtype(mean, "mean") if mean else None,
        accumulate=reader.mapping("accumulate"),
        errata=tuple(errata),
    )


def read_file(path: str | os.PathLike[str]) -> Definition:
    """Read a definition from a .json or .toml file of at most 1 MiB.

    Raises `UserError`, which names the file, for anything else.
    """
    file = _path(path)
    loaders: dict[str, Callable[[str], Mapping[str, object]]] = {".json": _json, ".toml": _toml}
    loader = loaders.get(file.suffix.lower())
    if loader is None:
        raise UserError(f"rule set file {file}: expected a name that ends in .json or .toml")
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UserError(f"rule set file {file}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise UserError(f"rule set file {file}: larger than {MAX_BYTES} bytes; no promotion table is")
    try:
        data = loader(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"rule set file {file}: byte {error.start} is not UTF-8; fix: save the file as UTF-8") from None
    except RecursionError:
        raise UserError(f"rule set file {file}: nested too deeply; no promotion table is") from None
    except ValueError as error:
        raise UserError(f"rule set file {file}: {error}") from None
    try:
        return read(data)
    except UserError as error:
        raise UserError(f"rule set file {file}: {error}") from None


def _path(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise UserError(f"rule set file: expected a path, not {path!r}") from None


def _json(text: str) -> Mapping[str, object]:
    data: Mapping[str, object] = json.loads(text, object_pairs_hook=_without_repeats)
    return data


def _toml(text: str) -> Mapping[str, object]:
    import tomllib  # imported here because few definitions are TOML

    return tomllib.loads(text)


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as a dict.

    Raises `ValueError` for a repeated key, of which `dict` would keep only the last.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return found


def write_file(definition: Definition, path: str | os.PathLike[str]) -> None:
    """Write a .json file that `read_file` reads back as an equal definition.

    An earlier file is replaced atomically. Raises `UserError` when the name does not end in .json or the file
    cannot be written.
    """
    file = _path(path)
    if file.suffix.lower() != ".json":
        raise UserError(f"rule set file {file}: only .json is written; it can be read like .toml")
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(definition.to_dict(), indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, file)
    except (OSError, ValueError) as error:
        with suppress(OSError, ValueError):
            temporary.unlink()
        raise UserError(f"rule set file {file}: {getattr(error, 'strerror', None) or error}") from None


def names_of(dtypes: Sequence[DType]) -> str:
    return ", ".join(dtype.name for dtype in dtypes)
