"""Finds functions by name. While a module is verified, names are looked up in a table that is made once: a
search through the module for every call would take quadratic time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import SymbolOpInterface

_Tables = dict[Operation, dict[str, Operation]]
_TABLES: ContextVar[_Tables | None] = ContextVar("tables", default=None)


@contextmanager
def symbol_index() -> Iterator[None]:
    """Lets `find_symbol` cache the tables of modules, which must not change meanwhile."""
    token = _TABLES.set({})
    try:
        yield
    finally:
        _TABLES.reset(token)


def find_symbol(module: Operation, reference: SymbolRefAttr) -> Operation | None:
    """Returns the operation of a module that a reference names, or None."""
    found: Operation | None = module
    for name in (reference.root_reference, *reference.nested_references.data):
        found = _table(found).get(name.data) if found is not None else None
    return found


def _table(module: Operation) -> dict[str, Operation]:
    tables = _TABLES.get()
    table = tables.get(module) if tables is not None else None
    if table is None:
        table = {}
        for block in module.regions[0].blocks if module.regions else ():
            for op in block.ops:
                interface = op.get_trait(SymbolOpInterface)
                name = interface.get_sym_attr_name(op) if interface is not None else None
                if isinstance(name, StringAttr):
                    table.setdefault(name.data, op)
        if tables is not None:
            tables[module] = table
    return table
