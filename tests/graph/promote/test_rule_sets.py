"""Graphs under every rule set: no op has a promotion rule of its own, weak values, what_if, actions on losses, result types."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.table import OPS
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text
from joinery.promotion import DTYPES, PRESETS, RuleSet, presets, register, rules

BINARY = [row for row in OPS.values() if row.kind == "map" and row.arity == 2]
UNARY = [row for row in OPS.values() if row.kind == "map" and row.arity == 1 and row.promote.name.startswith("JOIN")]
LITERALS: dict[str, Any] = {"int": 1, "float": 1.5, "bool": True}


def graph_of(*dtypes: str, semantics: Any = "max", **options: Any) -> jn.Graph:
    return jn.Graph("g", [jn.TensorType(d, (2,), f"x{i}") for i, d in enumerate(dtypes)], semantics=semantics, **options)


def outcome(graph: jn.Graph, row: Any, operands: list[Any]) -> tuple[Any, Any] | None:
    """(dtypes inside the op, result dtype), None where it is refused."""
    try:
        promotion = graph.promotion(row, operands)
    except (jn.UserError, jn.UnsupportedError):
        return None
    return promotion.casts, promotion.result


def expected(name: str, row: Any, rule: str, joined: Any, count: int) -> tuple[Any, Any] | None:
    """The same from the table alone: `joined` is what the table says of the operands, None for no join."""
    rule_set = rules(name)
    if joined is None:
        return None
    inside = rule_set.concrete(joined)
    if rule in ("JOIN_FLOAT", "JOIN_QUOTIENT") and not (inside.is_float or inside.is_complex):
        quotient = rule_set.definition.quotient if rule == "JOIN_QUOTIENT" else None
        mapped = rule_set.definition.inexact.get(inside)
        if joined.is_weak:
            inside = rule_set.concrete(jn.DType("weak_float"))
        elif quotient is not None or mapped is not None:
            inside = quotient or mapped
        else:
            inside = rule_set.table()[inside, rule_set.literals.floats[0]]
    if rule == "INTEGER_JOIN" and not (inside.is_integer or inside.is_bool):
        return None
    if inside is None or not row.accepts(inside):
        return None
    result = jn.DType("bool") if rule == "JOIN_TO_BOOL" else inside
    return (inside,) * count, result


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", PRESETS)
def test_no_op_has_a_rule_of_its_own(name: str) -> None:
    """Every binary op on every pair of dtypes, in both orders, and every unary op, against the table."""
    rule_set = rules(name)
    table = rule_set.table()
    dtypes = [d for d in rule_set.dtypes if not d.is_abstract]
    graph = graph_of(*[d.name for d in dtypes], semantics=name)
    symbols = dict(zip(dtypes, graph.inputs, strict=True))
    for a, b in itertools.product(dtypes, repeat=2):
        for row in BINARY:
            if row.promote.name in ("JOIN", "JOIN_FLOAT", "JOIN_QUOTIENT", "JOIN_TO_BOOL"):
                found = outcome(graph, row, [symbols[a], symbols[b]])
                assert found == expected(name, row, row.promote.name, table[a, b], 2), (row, a, b)
        for row in (OPS["where"], OPS["concat"]):
            flag = graph.inputs[dtypes.index(DTYPES["bool"])] if DTYPES["bool"] in dtypes else None
            operands = [symbols[a], symbols[b]]
            found = outcome(graph, row, [flag, *operands] if row.name == "where" else operands)
            joined = table[a, b]
            takes_flag = row.name == "where"
            if joined is None or (takes_flag and flag is None) or not row.accepts(rule_set.concrete(joined)):
                assert found is None
            else:
                assert found is not None
                assert found[1] is rule_set.concrete(joined), (row, a, b)
    for a in dtypes:
        for row in UNARY:
            assert outcome(graph, row, [symbols[a]]) == expected(name, row, row.promote.name, a, 1), (row, a)


@pytest.mark.parametrize("name", PRESETS)
def test_literals_take_what_promote_says(name: str) -> None:
    rule_set = rules(name)
    for dtype in [d for d in rule_set.dtypes if not d.is_abstract and d.has_arithmetic]:
        graph = graph_of(dtype.name, semantics=name)
        (x,) = graph.inputs
        for kind, value in LITERALS.items():
            try:
                wanted = rule_set.promote(dtype, value)
            except jn.UserError:
                with pytest.raises(jn.UserError):
                    graph.promotion("equal", [x, value])
                continue
            for operands in ([x, value], [value, x]):
                assert graph.promotion("equal", operands).casts == (wanted, wanted), (dtype, kind)


# -- weak values -------------------------------------------------------------------------------------------------------


def test_weak_values_give_way() -> None:
    graph = graph_of("uint64", "int8", "float16", semantics="jax")
    big, small, half = graph.inputs
    total = big + small
    assert (total.dtype, total.weak) == (jn.float64, jn.DType("weak_float"))
    assert (total + half).dtype is jn.float16
    assert (half * total).weak is None
    assert jn.exp(total).weak is jn.DType("weak_float")
    assert jn.max(total).weak is jn.DType("weak_float")
    assert total.reshape(1, 2).weak is jn.DType("weak_float")
    assert total.cast("float64").weak is None
    assert (total.cast("float64") + half).dtype is jn.float64
    assert (total < 1).weak is None
    assert (small + 1.5).weak is jn.DType("weak_float")
    assert (small + 1.5 + half).dtype is jn.float16
    assert (small + 1).dtype is jn.int8
    scalar = graph.scalar(2)
    assert (scalar.dtype, (scalar + small).dtype) == (jn.int64, jn.int8)
    assert (graph.scalar(2, "int64") + small).dtype is jn.int64
    assert graph.scalar(2, "int64") is graph.scalar(2, "int64")
    assert "weak_float gives way to any float dtype" in total.why()
    assert graph_of("int8").inputs[0].weak is None


def test_no_tensor_has_an_abstract_dtype() -> None:
    for name in ("weak_int", "weak_float", "wide_int", "complex32"):
        with pytest.raises(jn.UserError, match=f"{name} is in promotion tables only"):
            jn.TensorType(name, (2,))
        with pytest.raises(jn.UserError, match="promotion tables"):
            graph_of("int8").inputs[0].cast(name)


def test_rank_0_counts_only_when_its_kind_is_higher() -> None:
    types = [jn.TensorType("int8", (2,)), jn.TensorType("int64", ()), jn.TensorType("float64", ())]
    graph = jn.Graph("g", types, semantics="torch")
    vector, integer, number = graph.inputs
    assert (vector + integer).dtype is jn.int8
    assert (integer + vector).dtype is jn.int8
    assert (vector + number).dtype is jn.float64
    assert (integer + number).dtype is jn.float64
    assert (integer + integer).dtype is jn.int64
    assert (vector + np.float32(2)).dtype is jn.float32
    other = jn.Graph("g", [jn.TensorType("int8", (2,)), jn.TensorType("int64", ())])
    assert (other.inputs[0] + other.inputs[1]).dtype is jn.int64


def test_division_follows_the_rule_set() -> None:
    for name in PRESETS:
        graph = graph_of("int32", "int32", semantics=name)
        x, y = graph.inputs
        truncates = name.startswith("triton")
        assert (x // y).op.name == ("trunc_div" if truncates else "floor_div")
        assert (7 % x).op.name == ("rem" if truncates else "mod")
        assert jn.floor_div(x, y).op.name == "floor_div"


# -- text --------------------------------------------------------------------------------------------------------------


def test_weak_values_and_own_rules_survive_the_text_form() -> None:
    graph = graph_of("uint64", "int8", semantics="jax")
    graph.output(graph.inputs[0] + graph.inputs[1], graph.inputs[1] + 1.5)
    text, arrays = to_text(graph)
    again = from_text(text, arrays)
    assert to_text(again)[0] == text
    assert [s.weak for s in again.outputs] == [s.weak for s in graph.outputs]
    mine = rules("max").with_edges(name="mine").without("bfloat16", name="mine")
    graph = graph_of("int8", "float16", semantics=mine)
    graph.output(graph.inputs[0] + graph.inputs[1])
    text, arrays = to_text(graph)
    assert from_text(text, arrays).rules == mine
    assert to_text(from_text(text, arrays))[0] == text
    with pytest.raises(jn.UserError, match=r"graph text.*unknown keys: bad"):
        from_text(text.replace('\\"edges\\"', '\\"bad\\"'), arrays)
    with pytest.raises(jn.UserError, match="graph text"):
        from_text(text.replace(' rules "{', ' rules "[[{'), arrays)
    with pytest.raises(jn.UserError, match="cannot be weak_int"):
        from_text(*[to_text(again)[0].replace("weak weak_float", "weak weak_int"), {}])


def test_own_rules_reach_saved_models(tmp_path: Any) -> None:
    mine = RuleSet.from_edges("mine", [("int8", "int16"), ("int16", "float32")])
    graph = graph_of("int8", "float32", semantics=mine)
    graph.output(graph.inputs[0] + graph.inputs[1])
    path = tmp_path / "m.joinery"
    jn.compile(graph, cache=False).save(path)
    found = jn.load(path)(np.int8([1, 2]), np.float32([0.5, 1]))
    np.testing.assert_array_equal(found, np.float32([1.5, 3]))


def test_registered_rule_sets_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_registered", {})
    mine = register(RuleSet.from_edges("registered-in-a-test", [("int8", "float32")]))
    assert graph_of("int8", semantics="registered-in-a-test").rules is mine
    with pytest.raises(jn.UserError, match="did you mean 'jax'"):
        graph_of("int8", semantics="jaxx")


# -- what_if -----------------------------------------------------------------------------------------------------------


def sample(semantics: str = "max") -> jn.Graph:
    graph = graph_of("int8", "uint64", "float16", "bool", semantics=semantics)
    x, y, z, flag = graph.inputs
    w = graph.weight("w", np.float32([0.5, 2]))
    outputs = [
        x + y, x + y + z, jn.sum(x) * 2, x // 3, jn.sqrt(x), x + 1.5, jn.mean(x), x / 2, jn.where(flag, x, z), z + w,
        jn.concat([x, z], 0), x.reshape(1, 2) @ z.reshape(2, 1), graph.scalar(3) + x, jn.clip(x, -1, 1.5), x.cast("int16") + 1,
        jn.softmax(x.cast("float32")), jn.cumsum(x), jn.einsum("i,i->", x, z), -(x % 5), jn.stack([flag, x], 0),
        jn.tanh(z) ** 2,
    ]  # fmt: skip
    graph.output(*outputs)
    return graph


def built(name: str) -> tuple[jn.Graph | None, str]:
    """The sample under these rules, or the first line of the refusal."""
    try:
        return sample(name), ""
    except (jn.UserError, jn.UnsupportedError) as error:
        return None, str(error).splitlines()[0]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PRESETS)
def test_rebuilding_is_building(name: str) -> None:
    """A graph rebuilt under other rules is the graph the same program builds under them."""
    answer = jn.what_if(sample(), semantics=name)
    direct, refused = built(name)
    if direct is None:
        assert refused in {entry.message.splitlines()[0] for entry in answer.refusals}
        assert not answer.graph.outputs
        return
    assert not answer.refusals
    assert [s.dtype for s in answer.graph.outputs] == [s.dtype for s in direct.outputs]
    assert answer.graph.canonical_key() == direct.canonical_key()
    changed = {change.symbol.id: change.after for change in answer.changes}
    for before, after in zip(sample().outputs, direct.outputs, strict=True):
        assert changed.get(before.id, before.dtype) is after.dtype


def test_the_same_rules_change_nothing() -> None:
    for name in ("max", "jax", "triton"):
        graph, _ = built(name)
        if graph is None:
            continue
        answer = jn.what_if(graph)
        assert not answer.changes
        assert not answer.refusals
        assert answer.graph.canonical_key() == graph.canonical_key()
        assert [entry.symbol.dtype for entry in answer.graph.casts()] == [entry.symbol.dtype for entry in graph.casts()]


def test_what_if_says_what_changes_and_where() -> None:
    graph = graph_of("int32", "float16", "uint32")
    x, z, u = graph.inputs
    y = x + z
    refused = u + x
    graph.output(y, refused * 2)
    answer = jn.what_if(graph, semantics="numpy")
    (change, *rest) = answer.changes
    assert change.symbol is y
    assert (change.before, change.after) == (jn.float16, jn.float64)
    assert not rest
    assert "test_rule_sets.py" in str(change)
    assert "add is float64 instead of float16" in str(change)
    assert "1 dtypes change, 0 ops are refused" in str(answer)
    answer = jn.what_if(graph, semantics="torch")
    assert [refusal.symbol for refusal in answer.refusals] == [refused]
    assert not answer.graph.outputs
    assert "uint32" in str(answer.refusals[0])
    strict = jn.what_if(graph, policy="strict")
    assert [refusal.symbol.op.name for refusal in strict.refusals] == ["add", "add"]


# -- actions on losses -------------------------------------------------------------------------------------------------


def test_losses_become_errors_or_warnings() -> None:
    graph = graph_of("int32", "float16", "float32", on_loss={"overflow": "error", "rounding": "warn"})
    x, half, single = graph.inputs
    with pytest.raises(jn.UserError, match=r"operand 0 is cast from int32 to float16.*on_loss makes"):
        x + half
    with pytest.warns(jn.PromotionWarning, match="add: operand 0 is cast from int32 to float32.*rounding") as caught:
        x + single
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half + single
        x.cast("float16") + half
    with warnings.catch_warnings():
        warnings.simplefilter("error", jn.PromotionWarning)
        with pytest.raises(jn.PromotionWarning):
            single * x
    for bad in ({"overflows": "error"}, {"overflow": "fail"}):
        with pytest.raises(jn.UserError, match="expected a loss class"):
            graph_of("int8", on_loss=bad)
    quiet = graph_of("int32", "float16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet.inputs[0] + quiet.inputs[1]


# -- result types ------------------------------------------------------------------------------------------------------

RESULTS = [
    (("sum", "int8"), "max", "int64"), (("sum", "uint8"), "max", "uint64"), (("sum", "bool"), "numpy", "int64"),
    (("sum", "uint8"), "torch", "int64"), (("sum", "int8"), "triton", "int32"), (("sum", "float16"), "max", "float16"),
    (("div", "int32", "int32"), "max", "float32"), (("div", "int8", "int8"), "numpy", "float64"),
    (("div", "int32", "int32"), "jax", "float32"), (("div", "int64", "int64"), "jax", "float64"),
    (("sqrt", "int8"), "numpy", "float16"), (("sqrt", "int64"), "numpy", "float64"), (("sqrt", "int8"), "torch", "float32"),
    (("mean", "int8"), "max", "float32"), (("mean", "int8"), "numpy", "float64"), (("less", "int8", "float32"), "max", "bool"),
    (("where", "bool", "int8", 1.5), "max", "float32"), (("matmul", "int8", "int8"), "max", "int32"),
    (("concat", "int8", "float16"), "max", "float16"), (("add", "int8", 1.5), "jax", "float64"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "name", "answer"), RESULTS)
def test_result_types(question: tuple[Any, ...], name: str, answer: str) -> None:
    assert jn.result_type(*question, rules=name).name == answer


def test_result_types_take_options_and_refuse_nonsense() -> None:
    assert jn.result_type("argmax", "float32", axis=0) is jn.int64
    assert jn.result_type("sum", "int8", dtype="int16") is jn.int16
    assert jn.result_type("add", "int8", jn.promotion.ZeroDim(jn.int64), rules="torch") is jn.int8
    with pytest.raises(jn.UserError, match="no operation 'summ'; did you mean sum"):
        jn.result_type("summ", "int8")
    with pytest.raises(jn.UserError, match="at least one operand"):
        jn.result_type("add", 1, 2)
    with pytest.raises(jn.UserError, match="does not take these arguments"):
        jn.result_type("add", "int8")
    with pytest.raises(jn.UserError, match="no join"):
        jn.result_type("add", "int8", "float8_e5m2")
