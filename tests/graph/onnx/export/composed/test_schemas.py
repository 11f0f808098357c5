"""Each node that is written is one that its operator's schema allows, in every opset: attributes, operands, ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import joinery as jn
import onnx
import pytest

from .....conformance.onnx_suite.backend import Prepared
from .....support.onnx_export.agreement import exported
from .....support.onnx_export.forms import forms
from .....support.tiers import both_tiers, share

OPSETS = range(18, 29)


def nodes(model: Any) -> Iterator[tuple[Any, dict[str, int]]]:
    """The nodes of a model, of its functions and subgraphs, with the opsets that they are of."""
    pending = [(list(model.graph.node), {entry.domain: entry.version for entry in model.opset_import})]
    pending += [(list(each.node), {entry.domain: entry.version for entry in each.opset_import}) for each in model.functions]
    while pending:
        some, versions = pending.pop()
        for node in some:
            yield node, versions
            pending += [(list(each.g.node), versions) for each in node.attribute if each.type == onnx.AttributeProto.GRAPH]


def against_schema(model: Any) -> list[str]:
    """What a schema does not allow. ONNX's checker says so too, of most of it."""
    own = {function.name for function in model.functions}
    found = []
    for node, versions in nodes(model):
        if node.domain == "joinery":
            found += [] if node.op_type in own else [f"{node.op_type} is no function of the model"]
            continue
        schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
        where = f"{node.op_type} of opset {versions[node.domain]}"
        found += [f"{where} is deprecated"] if schema.deprecated else []
        given = {each.name: each.type for each in node.attribute}
        found += [f"{where} has no attribute {name}" for name in given if name not in schema.attributes]
        for name, attribute in schema.attributes.items():
            if name in given and given[name] != attribute.type.value:
                found.append(f"{name} of {where} is no {given[name]}")
            if attribute.required and name not in given:
                found.append(f"{where} needs {name}")
        for what, count, least, most in (("inputs", len(node.input), schema.min_input, schema.max_input),
                                         ("outputs", len(node.output), schema.min_output, schema.max_output)):  # fmt: skip
            if not least <= count <= most:
                found.append(f"{where} with {count} {what}")
    return found


def problems(graph: Any, opset: int) -> list[str]:
    """What schemas do not allow in the model of a graph; nothing if it needs a newer opset, as the error says."""
    told = ""
    try:
        return against_schema(exported(graph, opset=opset))
    except jn.UnsupportedError as error:
        told = str(error)
    return [] if "fix: opset=" in told else [told]


@pytest.mark.one_in(12)
@both_tiers
@pytest.mark.parametrize("opset", OPSETS)
def test_functions_become_nodes_that_their_schemas_allow(opset: int, in_full: bool) -> None:
    for form in share(list(forms()), opset, 23, in_full):
        for size in (4, "n"):
            assert not problems(form.graph(size), opset), (form.name, size)


@pytest.mark.slow
@pytest.mark.parametrize("opset", OPSETS)
def test_models_of_the_suite_become_nodes_that_their_schemas_allow(opset: int) -> None:
    count = 0
    for name, graph in suite():
        assert not problems(graph, opset), name
        count += 1
    assert count > 1800


class Imported(Exception):
    """A graph of the suite, before it is run."""


class _Importing(Prepared):
    def results(self, imported: Any, arrays: list[Any]) -> tuple[Any, ...]:
        raise Imported(imported.graph)


def suite() -> Iterator[tuple[str, Any]]:
    """The graphs of ONNX's own cases for nodes, specialised where they need it."""
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        if case.model is None:
            continue
        try:
            _Importing(case.model, None).run(case.data_sets[0][0])
        except Imported as imported:
            if imported.args[0].finished:
                yield case.name, imported.args[0]
        except (jn.UserError, jn.UnsupportedError):
            continue
