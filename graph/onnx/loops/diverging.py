"""Makes the nodes behind an If part of its branches, whose types differ: behind it, nothing has one type."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Sequence as Ordered
from dataclasses import replace

import numpy as np

from ...functions.building import apply
from ...functions.host.data_sized import host
from ...ops.control import regions_of
from ...symbol import Symbol
from ..model import Body, NodeDef, Parameter
from ..values import Known

REFUSED = "require"
"""The row that ends a run for one value of a condition."""


def ends_runs(symbols: Iterable[Symbol]) -> bool:
    """Return whether some of the operations, or of those in their regions, may end a run."""
    return any(each.op.name == REFUSED or any(ends_runs(region.symbols) for region in regions_of(each)) for each in symbols)


def taking(node: NodeDef, choice: bool) -> tuple[NodeDef, str, Known]:
    """Return an If that takes one branch, and the constant that is its condition, with its name."""
    name = f"{node.inputs[0]} is {choice}"
    return replace(node, inputs=(name,)), name, Known(np.array(choice))


def continued(node: NodeDef, rest: Ordered[NodeDef], names: Collection[str]) -> NodeDef:
    """Return an If whose branches are those of another one, with the nodes behind it. names: what it returns."""
    arms = {}
    outputs = tuple([Parameter(name, "", 0, None) for name in names])
    for branch, choice in (("then_branch", True), ("else_branch", False)):
        chosen, name, constant = taking(node, choice)
        nodes = (chosen, *rest)
        body = Body(f"{node.name} {branch}", nodes, (), outputs, {name: constant}, sum([_size(each) for each in nodes]))
        arms[branch] = replace(node.attributes[branch], value=body)
    captured = {name for each in (node, *rest) for name in (*each.inputs, *each.captured)}
    return replace(node, outputs=tuple(names), attributes={**node.attributes, **arms}, captured=frozenset(captured),
                   is_region=False, row="host_branch", is_condition=False)  # fmt: skip


def _size(node: NodeDef) -> int:
    return 1 + sum([each.value.size for each in node.attributes.values() if isinstance(each.value, Body)])


def required(value: Symbol, flag: Symbol, choice: bool, problem: str) -> Symbol:
    """Return a value, if a condition is what it has to be; else the run ends with an error."""
    holds = flag if choice else apply("logical_not", flag)
    return host(REFUSED, value, holds, problem=problem)
