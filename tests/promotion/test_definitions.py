"""Rule sets as data: files, editing, registering, hashes; and what is refused, with the file or key named."""

import itertools
import json
import pathlib
import pickle

import pytest
from joinery.promotion import PRESETS, DType, RuleSet, UserError, ZeroDim, register, rules
from joinery.promotion.presets import names

SHIPPED = pathlib.Path(__import__("joinery").__file__).parent / "promotion" / "data"
EDGES = {"name": "mine", "edges": [["int8", "int16"], ["int16", "float32"]]}
TABLE = {"dtypes": ["int8", "int16"], "rows": {"int8": ["int8", "int16"], "int16": ["int16", "int16"]}}
STEPS = {"name": "mine", "elements": ["int8", "uint8", "float32"]}


def answers(rule_set):
    table = rule_set.table()
    return {(a.name, b.name): joined and joined.name for (a, b) in table for joined in [table[a, b]]}


def same(one, other):
    """Equal in every answer, not only by the hash that both compute."""
    operands = [d for d in one.dtypes if not d.is_weak]

    def mixed(rule_set):
        for operand, value in itertools.product(operands, (True, 1, 2.5, 1j)):
            for wrapped in (operand, ZeroDim(operand)):
                try:
                    yield rule_set.promote(wrapped, "int8" if wrapped is not operand else operand, value).name
                except UserError:
                    yield "error"

    assert one == other
    assert one.hash == other.hash
    assert one.dtypes == other.dtypes
    assert answers(one) == answers(other)
    assert list(mixed(one)) == list(mixed(other))
    assert (one.division, one.zero_dim, dict(one.weak)) == (other.division, other.zero_dim, dict(other.weak))
    assert one.errata() == other.errata()
    assert [one.mean_of(d) for d in operands] == [other.mean_of(d) for d in operands]
    assert [one.accumulator(d) for d in operands] == [other.accumulator(d) for d in operands]
    assert str(one.laws()) == str(other.laws())


# -- files and plain data ------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", PRESETS)
def test_round_trips_of_every_preset(name, tmp_path):
    preset = rules(name)
    data = preset.definition.to_dict()
    assert json.loads(json.dumps(data)) == data  # plain data
    same(preset, RuleSet.from_dict(data))
    preset.save(tmp_path / "one.json")
    loaded = RuleSet.load(tmp_path / "one.json")
    same(preset, loaded)
    assert (loaded.description, loaded.source) == (preset.description, preset.source)
    loaded.save(str(tmp_path / "two.json"))
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "two.json"]
    copy = pickle.loads(pickle.dumps(preset))
    same(preset, copy)
    assert hash(copy) == hash(preset)


def test_the_shipped_files_are_what_the_presets_are_made_of():
    loaded = {rule_set.name: rule_set for rule_set in map(RuleSet.load, SHIPPED.glob("*.json"))}
    assert set(loaded) == set(PRESETS)
    assert all(loaded[name] == rules(name) for name in PRESETS)
    assert len({rule_set.hash for rule_set in loaded.values()}) == len(PRESETS)


def test_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        """
        name = "mine"
        description = "int8 below float16"
        edges = [["int8", "float16"], ["uint8", "float16"], ["float16", "float32"]]
        division = "truncate"
        [literals]
        integers = ["int8", "int64"]
        floats = ["float16", "float32"]
        [accumulate]
        int8 = "int32"
        """
    )
    mine = RuleSet.load(path)
    assert mine.join("int8", "uint8").name == "float16"
    assert mine.promote("int8", 1.5).name == "float16"
    assert mine.promote("int8", 1e6).name == "float32"
    assert mine.division == "truncate"
    assert mine.accumulator(DType("int8")).name == "int32"
    mine.save(tmp_path / "mine.json")
    same(mine, RuleSet.load(tmp_path / "mine.json"))
    with pytest.raises(UserError, match=r"mine\.toml: only \.json is written"):
        mine.save(path)


def test_saving_fails_whole(tmp_path):
    (tmp_path / "taken.json").mkdir()
    with pytest.raises(UserError, match=r"taken\.json: Is a directory"):
        rules("max").save(tmp_path / "taken.json")
    with pytest.raises(UserError, match=r"nowhere/x\.json: No such file"):
        rules("max").save(tmp_path / "nowhere" / "x.json")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.json"]


# -- editing -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def untouched():
    """The presets, seen to be the same after what a test did to them."""
    before = {name: (rules(name).hash, answers(rules(name))) for name in PRESETS}
    yield rules
    assert {name: (rules(name).hash, answers(rules(name))) for name in PRESETS} == before


def test_with_edges(untouched):
    fp8 = untouched("max").with_edges(("int64", "float8_e5m2"), ("float8_e5m2", "float16"), name="max-fp8")
    assert fp8.name == "max-fp8"
    assert fp8.join("int64", "float8_e5m2").name == "float8_e5m2"
    assert fp8.join("float8_e5m2", "uint64").name == "float16"
    assert fp8.join("int8", "int16").name == "int16"
    assert fp8.laws()
    assert fp8.hash != untouched("max").hash
    assert len(fp8.dtypes) == 17
    assert untouched("max").with_edges(("int64", "float16")) == untouched("max").with_edges()  # implied already
    with pytest.raises(UserError, match=r"cycle .*float16.*; remove one edge of it"):
        untouched("max").with_edges(("float64", "int8"))
    with pytest.raises(UserError, match=r"'max \(edited\)'.* no least upper bound: .* are all minimal"):
        untouched("max").with_edges(("uint64", "float8_e5m2"), ("int64", "float8_e5m2"))
    with pytest.raises(UserError, match=r"unknown dtype 'int61'; did you mean .*int64"):
        untouched("max").with_edges(("int61", "int8"))
    for name in ("numpy", "triton", "exact"):
        with pytest.raises(UserError, match=f"{name}: with_edges edits the edges of a lattice.*fix: use with_cells"):
            untouched(name).with_edges(("int8", "uint8"))


def test_editing_keeps_literals_weak_elements_and_division(untouched):
    jax = untouched("jax").with_edges(("weak_float", "float8_e3m4"), ("float8_e3m4", "float32"))
    assert jax.promote("int8", 1.5).name == "float64"
    assert jax.join_operands(("bool", 1)).name == "weak_int"
    assert jax.join("float8_e3m4", "uint64").name == "float8_e3m4"
    triton = untouched("triton").with_cells({("int8", "uint8"): "int16"})
    assert triton.division == "truncate"
    assert triton.accumulator(DType("int8")).name == "int32"
    assert untouched("torch").with_cells({("bool", "uint16"): "uint16"}).promote("int8", ZeroDim(DType("int64"))).name == "int8"


def test_with_cells(untouched):
    original = untouched("numpy")
    edited = original.with_cells({("int64", "uint64"): "int64", ("uint64", "int64"): "int64"})
    changed = {(d.lhs.name, d.rhs.name, d.ours.name, d.theirs.name) for d in edited.diff(original)}
    assert changed == {("int64", "uint64", "int64", "float64"), ("uint64", "int64", "int64", "float64")}
    lopsided = untouched("max").with_cells({("int8", "int16"): "int8"})
    assert lopsided.lattice is None
    assert lopsided.laws()["commutative"].failures == 1
    assert lopsided.laws()["commutative"].counterexamples == ("int8 ∨ int16 = int8, but int16 ∨ int8 = int16",)
    wide = untouched("exact").with_cells({("int64", "uint64"): "float64"}, name="wide")
    assert wide.join("int64", "uint64").name == "float64"
    with pytest.raises(UserError, match="no join for uint64 and int64"):
        wide.join("uint64", "int64")
    more = untouched("max").with_cells({("complex64", "float32"): "complex64"})
    assert more.join("complex64", "complex64").name == "complex64"
    with pytest.raises(UserError, match="unknown dtype 'int61'"):
        untouched("max").with_cells({("int8", "int16"): "int61"})
    with pytest.raises(UserError, match="'int8' is no pair of dtypes"):
        untouched("max").with_cells({"int8": "int16"})


def test_without(untouched):
    smaller = untouched("max").without("float16", name="max-no-half")
    assert DType("float16") not in smaller.dtypes
    assert smaller.join("int64", "uint64").name == "bfloat16"  # what was above float16 is above both
    assert smaller.laws()
    every, fewer = answers(untouched("max")), answers(smaller)
    kept = {pair: joined for pair, joined in every.items() if "float16" not in (*pair, joined)}
    assert {pair: fewer[pair] for pair in kept} == kept
    assert "float16" not in {d.name for d in untouched("numpy").without("float16").dtypes}
    for edge in (("index", "uint64"), ("bool", "int8")):
        cut = untouched("max").without(edge)
        assert answers(cut) != every
        assert len(cut.lattice.edges) == len(untouched("max").lattice.edges) - 1
    with pytest.raises(UserError, match="no join for index and int8"):
        untouched("max").without(("index", "uint64")).join("index", "int8")
    for name in ("triton", "exact", "numpy"):  # rule lists, derived orders and tables have dtypes to leave out, too
        rest = untouched(name).without("float32", "uint8")
        assert {d.name for d in untouched(name).dtypes} - {d.name for d in rest.dtypes} == {"float32", "uint8"}
        assert rest.laws().laws  # they can be checked
        assert {joined for joined in answers(rest).values() if joined} <= {d.name for d in rest.dtypes}
    with pytest.raises(UserError, match="no join for float16 and bfloat16"):  # which meet in what was left out
        untouched("triton").without("float32").join("float16", "bfloat16")
    assert untouched("triton").without("bool").step(DType("int8"), DType("uint8")).rule == "unsigned"
    assert untouched("exact").without("int16").join("int8", "uint8").name == "int32"  # the next in the list that holds both


def test_without_refuses(untouched):
    with pytest.raises(UserError, match="max: complex64 is not in the table; it has bool, int8"):
        untouched("max").without("complex64")
    with pytest.raises(UserError, match="int8 → int64 is no covering edge"):
        untouched("max").without(("int8", "int64"))
    with pytest.raises(UserError, match="no least upper bound"):
        untouched("jax").without("weak_float")
    with pytest.raises(UserError, match=r"\('int8',\) is no pair of dtypes"):
        untouched("max").without(("int8",))
    with pytest.raises(UserError, match="numpy: without edits the edges of a lattice"):
        untouched("numpy").without(("int8", "int16"))


# -- registering ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(monkeypatch):
    """A registry of this test's own."""
    monkeypatch.setattr("joinery.promotion.presets._registered", {})
    return names


def test_register(registry):
    mine = RuleSet.from_dict(EDGES)
    assert register(mine) is mine
    assert rules("mine") is mine
    assert registry() == (*PRESETS, "mine")
    register(RuleSet.from_dict(EDGES))  # equal: nothing is lost
    other = RuleSet.from_dict(EDGES | {"division": "truncate"})
    with pytest.raises(UserError, match="the name 'mine' is taken; fix: give the rule set another name"):
        register(other)
    assert rules("mine") == mine
    register(other, replace=True)
    assert rules("mine") is other
    assert registry() == (*PRESETS, "mine")


def test_presets_are_never_replaced(registry):
    imposter = RuleSet.from_dict(EDGES | {"name": "jax"})
    for replace in (False, True):
        with pytest.raises(UserError, match="the name 'jax' is taken"):
            register(imposter, replace=replace)
    assert rules("jax").join("uint8", "int8").name == "int16"
    assert register(rules("jax")) is rules("jax")
    assert registry() == PRESETS


def test_failing_constructions_register_nothing(registry):
    with pytest.raises(UserError, match="cycle"):
        register(RuleSet.from_edges("broken", [("int8", "int16"), ("int16", "int8")]))
    with pytest.raises(UserError, match="expected a RuleSet, not dict"):
        register(EDGES)
    assert registry() == PRESETS
    with pytest.raises(UserError, match="unknown rule set 'broken'"):
        rules("broken")


@pytest.mark.parametrize(("name", "near"), [("numyp", "numpy"), ("tritn", "triton"), ("Jax", "jax"), ("exakt", "exact")])
def test_unknown_rule_sets(name, near):
    with pytest.raises(UserError, match=rf"unknown rule set '{name}'; did you mean '{near}'; known: max, max-published, jax"):
        rules(name)


@pytest.mark.parametrize("name", [None, 5, ["max"], {}])
def test_names_of_rule_sets_are_text(name):
    with pytest.raises(UserError, match=r"unknown rule set .*known: max"):
        rules(name)


# -- hashes --------------------------------------------------------------------------------------------------------------------


def test_names_and_texts_do_not_change_the_hash():
    base = RuleSet.from_dict(EDGES)
    texts = {"name": "other", "description": "d", "source": "s"}
    assert RuleSet.from_dict(EDGES | texts).hash == base.hash
    assert RuleSet.from_dict(EDGES | texts) != base
    assert RuleSet.from_dict(EDGES | {"edges": [*EDGES["edges"][::-1], ["int8", "float32"]]}).hash == base.hash


CHANGES = {
    "joins": {"edges": [["int8", "int16"], ["int16", "float32"], ["uint8", "int16"]]},
    "division": {"division": "truncate"},
    "zero_dim": {"zero_dim": True},
    "integers": {"literals": {"integers": ["int32", "int64"]}},
    "floats": {"literals": {"floats": ["float64"]}},
    "complexes": {"literals": {"complexes": ["complex64"]}},
    "cells": {"literals": {"cells": {"float": {"int8": "float64"}}}},
    "refused cells": {"literals": {"cells": {"float": {"int8": None}}}},
    "inexact": {"inexact": {"int8": "float16"}},
    "quotient": {"quotient": "float64"},
    "mean": {"mean": "float64"},
    "accumulate": {"accumulate": {"int8": "int32"}},
    "weak": {"edges": [*EDGES["edges"], ["weak_int", "int8"]], "weak": {"weak_int": "int64"}},
    "weak's dtype": {"edges": [*EDGES["edges"], ["weak_int", "int8"]], "weak": {"weak_int": "int32"}},
}


def test_everything_that_decides_changes_the_hash():
    hashes = {key: RuleSet.from_dict(EDGES | change).hash for key, change in CHANGES.items()}
    hashes["base"] = RuleSet.from_dict(EDGES).hash
    assert len(set(hashes.values())) == len(CHANGES) + 1, hashes


# -- bad input -----------------------------------------------------------------------------------------------------------------


def table(**changes):
    return {"name": "mine", "table": TABLE | changes}


def steps(*entries):
    return STEPS | {"steps": list(entries)}


BAD = [
    ("no mapping", [1], "expected a mapping with 'name' and one of"),
    ("nothing", None, "expected a mapping"),
    ("no name", {"edges": []}, "'name' is missing"),
    ("name of another type", {"name": 3, "edges": []}, "'name' has the wrong type: int"),
    ("blank name", {"name": " ", "edges": []}, "'name' is missing"),
    ("control character", {"name": "\x1b[2Jx", "edges": []}, "name must be printable text"),
    ("surrogate", {"name": "\ud800", "edges": []}, "name must be printable text"),
    ("unknown key", EDGES | {"egdes": []}, "unknown keys: egdes; known: .*edges"),
    ("number as key", EDGES | {3: []}, "unknown keys: 3"),
    ("two ways", EDGES | {"table": TABLE}, "exactly one of 'edges', 'table', 'steps', 'order', found edges, table"),
    ("no way", {"name": "mine"}, "'mine': expected exactly one of .* found none"),
    ("idle elements", table() | {"elements": ["int8"]}, "'elements' means nothing beside 'table'"),
    ("idle never_above", EDGES | {"never_above": ["int8"]}, "'never_above' means nothing beside 'edges'"),
    ("edges of another type", {"name": "mine", "edges": {"int8": "int16"}}, "'edges' has the wrong type: dict"),
    ("edges as truth", {"name": "mine", "edges": True}, "'edges' has the wrong type: bool"),
    ("three ends", {"name": "mine", "edges": [["int8", "int16", "int32"]]}, "'edges': .* is no pair"),
    ("no edge", {"name": "mine", "edges": [None]}, "'edges': None is no pair"),
    ("unknown dtype", {"name": "mine", "edges": [["int8", "flaot32"]]}, "'edges': unknown dtype 'flaot32'; did you mean float"),
    ("foreign name", {"name": "mine", "edges": [["int8", "bf16"]]}, "unknown dtype 'bf16'; did you mean bfloat16"),
    ("number as dtype", {"name": "mine", "edges": [["int8", 16]]}, "'edges': a dtype name must be a string"),
    ("nested dtype", {"name": "mine", "edges": [["int8", ["int16"]]]}, "'edges': a dtype name must be a string"),
    ("loop", {"name": "mine", "edges": [["int8", "int8"]]}, "'mine': .* joins an element to itself"),
    ("cycle", {"name": "mine", "edges": [["int8", "int16"], ["int16", "int8"]]}, "'mine': .*cycle int8 → int16 → int8"),
    (
        "ambiguous",
        {"name": "mine", "edges": [["int8", "int16"], ["int8", "uint16"], ["uint8", "int16"], ["uint8", "uint16"]]},
        "'mine': .*int8 and uint8 have no least upper bound: int16, uint16 are all minimal",
    ),
    ("element twice", {"name": "mine", "edges": [], "elements": ["int8", "int8"]}, "'elements' lists int8 twice"),
    ("elements as text", {"name": "mine", "edges": [], "elements": "int8"}, "'elements' has the wrong type: str"),
    ("table as list", {"name": "mine", "table": []}, "'table' has the wrong type: list"),
    ("no rows", {"name": "mine", "table": {"dtypes": ["int8"]}}, "'table' needs 'dtypes' .* and 'rows'"),
    ("missing row", table(rows={"int8": ["int8", "int16"]}), "'table': int16 needs one row of 2 cells"),
    ("missing cell", table(rows=TABLE["rows"] | {"int8": ["int8"]}), "'table': int8 needs one row of 2 cells"),
    ("cell too many", table(rows=TABLE["rows"] | {"int8": ["int8"] * 3}), "'table': int8 needs one row of 2 cells"),
    ("text as row", table(rows=TABLE["rows"] | {"int8": "ab"}), "'table': int8 needs one row of 2 cells"),
    ("row of no column", table(rows=TABLE["rows"] | {"int32": ["int8"] * 2}), "'table': int32 needs one row"),
    ("column twice", table(dtypes=["int8", "int8"]), "'table' lists int8 twice"),
    ("columns as text", table(dtypes="int8"), "'table' needs 'dtypes'"),
    ("unknown cell", table(rows=TABLE["rows"] | {"int8": ["int8", "in16"]}), "'table': unknown dtype 'in16'; did you mean int"),
    ("number as cell", table(rows=TABLE["rows"] | {"int8": [3, 4]}), "'table': a dtype name must be a string"),
    (
        "result that is cast again", table(rows={"int8": ["int8", "int16"], "int16": ["int16", "int8"]}),
        "'mine': int8 with int16 gives int16, but int16 with itself gives int8; expected int16",
    ),
    ("table with more", table(columns=[]), "'table' has unknown keys: columns"),
    ("steps of another type", STEPS | {"steps": "kind"}, "'steps' has the wrong type: str"),
    ("no steps", steps(), "'steps' lists no rule"),
    ("unknown step", steps({"rule": "magic"}), "'steps': unknown step .*; known: kind, width, supremum, unsigned"),
    ("step as text", steps("kind"), "'steps': unknown step 'kind'"),
    ("step with a list", steps({"rule": ["kind"]}), "'steps': unknown step"),
    ("step with more", steps({"rule": "width", "order": ["bool"]}), "'steps': rule width has unknown keys: order"),
    ("kinds of another type", steps({"rule": "kind", "order": 5}), "'steps': rule kind: kinds 5; known: bool"),
    ("nested kinds", steps({"rule": "kind", "order": [["bool"]]}), "'steps': rule kind: kinds"),
    ("kinds left out", steps({"rule": "kind", "order": ["bool", "integer"]}), "order of kinds lacks 'float', which float"),
    ("half a supremum", steps({"rule": "supremum", "sets": [{"of": ["int8"]}]}), "'steps': rule supremum: .* 'of'"),
    ("supremum of text", steps({"rule": "supremum", "sets": [{"of": "int8", "is": "int8"}]}), "'steps': rule supremum"),
    ("suprema of another type", steps({"rule": "supremum", "sets": 5}), "'steps': rule supremum: 5"),
    ("unknown set", steps({"rule": "supremum", "sets": [{"of": ["int8"], "is": "int61"}]}), "'steps': unknown dtype 'int61'"),
    ("unknown order", STEPS | {"order": "alphabetical"}, "'order' is 'alphabetical'; expected 'value-preserving'"),
    ("empty order", STEPS | {"order": ""}, "'order' is ''"),
    ("order of weak", {"name": "mine", "elements": ["weak_int"], "order": "value-preserving"}, "'order': weak_int has no"),
    ("twins", {"name": "mine", "elements": ["uint64", "index"], "order": "value-preserving"},
     "'order': uint64 and index hold the same values"),
    ("never_above what", STEPS | {"order": "value-preserving", "never_above": ["int16"]}, "'never_above': int16 is not among"),
    ("literals as list", EDGES | {"literals": []}, "'literals' has the wrong type: list"),
    ("unknown literals", EDGES | {"literals": {"ints": []}}, "'literals' has unknown keys: ints"),
    ("ladder as text", EDGES | {"literals": {"integers": "int8"}}, "'literals' needs a list of dtypes, not 'int8'"),
    ("ladder as number", EDGES | {"literals": {"integers": 5}}, "'literals' needs a list of dtypes, not 5"),
    ("empty ladder", EDGES | {"literals": {"floats": []}}, "'literals': .*at least one dtype for integers and one for floats"),
    ("ladder of another kind", EDGES | {"literals": {"floats": ["int8"]}}, "'literals': .*Python floats the dtype int8"),
    ("weak ladder", EDGES | {"literals": {"integers": ["weak_int"]}}, "'literals': .* weak_int"),
    ("cells as list", EDGES | {"literals": {"cells": [1]}}, "'literals': 'cells' has the wrong type: list"),
    ("cells of what", EDGES | {"literals": {"cells": {"text": {}}}}, "'literals': cells of 'text'; expected bool, int"),
    ("weak without dtype", {"name": "mine", "edges": [["weak_int", "int8"]]}, "'mine': weak_int without a dtype; fix: .*weak"),
    ("numpy_scalars", EDGES | {"numpy_scalars": "loose"}, "'numpy_scalars' is 'loose'; expected 'weak' or 'strong'"),
    ("strong as weak", EDGES | {"weak": {"int8": "int16"}}, "'mine': 'weak' gives int8 the dtype int16"),
    ("weak as its own", EDGES | {"weak": {"weak_int": "weak_int"}}, "'weak' gives weak_int the dtype weak_int"),
    ("division", EDGES | {"division": "round"}, "'division' is 'round'; expected 'floor' or 'truncate'"),
    ("number for truth", EDGES | {"zero_dim": 1}, "'zero_dim' has the wrong type: int"),
    ("unknown quotient", EDGES | {"quotient": "flaot32"}, "'quotient': unknown dtype 'flaot32'; did you mean float32"),
    ("unknown in a map", EDGES | {"inexact": {"int8": "half"}}, "'inexact': unknown dtype 'half'; did you mean float16"),
    ("map as list", EDGES | {"accumulate": ["int8"]}, "'accumulate' has the wrong type: list"),
    ("half an erratum", EDGES | {"errata": [{"lhs": "int8"}]}, "'errata': each needs lhs, rhs, printed, mirrored and"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_data(data, message, tmp_path):
    with pytest.raises(UserError, match=message):
        RuleSet.from_dict(data)
    if isinstance(data, dict) and all(isinstance(key, str) for key in data):
        path = tmp_path / "bad.json"
        path.write_text(json.dumps(data))
        with pytest.raises(UserError, match=rf"bad\.json: (.|\n)*{message}"):
            RuleSet.load(path)


def test_the_good_data_that_the_bad_is_made_from():
    assert RuleSet.from_dict(EDGES).join("int8", "float32").name == "float32"
    assert RuleSet.from_dict(table()).join("int8", "int16").name == "int16"
    assert RuleSet.from_dict(steps({"rule": "kind"}, {"rule": "unsigned"})).join("int8", "uint8").name == "uint8"
    assert RuleSet.from_dict(STEPS | {"order": "value-preserving"}).join("int8", "uint8").name == "float32"


FILES = [
    ("cut.json", b'{"name":', "Expecting value"),
    ("empty.json", b"", "Expecting value"),
    ("number.json", b"3", "expected a mapping"),
    ("list.json", b"[]", "expected a mapping"),
    ("twice.json", b'{"name": "x", "edges": [], "edges": []}', "the key 'edges' occurs twice"),
    ("deep.json", b"[" * 200_000, "nested too deeply"),
    ("deep_object.json", b'{"name":' * 100_000, "nested too deeply"),
    ("digits.json", b'{"name": ' + b"9" * 5000 + b"}", "4300 digits"),
    ("nan.json", b'{"name": "x", "edges": [["int8", NaN]]}', "'edges': a dtype name must be a string .* not nan"),
    ("bytes.json", b'{"name": "\xff"}', "byte 10 is not UTF-8"),
    ("utf16.json", '{"name": "x"}'.encode("utf-16"), "byte 0 is not UTF-8"),
    ("huge.json", b'{"name": "x", "edges": []}' + b" " * (1 << 20), "larger than 1048576 bytes"),
    ("cut.toml", b"name = ", "Invalid value"),
    ("twice.toml", b'name = "x"\nname = "y"', "Cannot overwrite a value"),
    ("deep.toml", b"x=" + b"[" * 100_000, "nested too deeply"),
    ("bytes.toml", b'name = "\xff"', "byte 8 is not UTF-8"),
    ("date.toml", b'name = "x"\nedges = [["int8", 1979-05-27]]', "'edges': a dtype name must be a string"),
    ("huge.toml", b"#" * ((1 << 20) + 1), "larger than 1048576 bytes"),
    ("mine.yaml", b"name: x", r"expected a name that ends in \.json or \.toml"),
    ("mine", b"{}", r"expected a name that ends in \.json or \.toml"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), FILES, ids=[row[0] for row in FILES])
def test_bad_files(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"^rule set file .*{name}: .*{message}"):
        RuleSet.load(path)


def test_the_largest_file_is_read(tmp_path):
    path = tmp_path / "full.json"
    content = b'{"name": "x", "edges": []}'
    path.write_bytes(content + b" " * ((1 << 20) - len(content)))
    assert RuleSet.load(path).dtypes == ()


def test_paths_that_are_no_files(tmp_path):
    (tmp_path / "folder.json").mkdir()
    for path, message in [
        (tmp_path / "missing.json", r"missing\.json: No such file"),
        (tmp_path / "folder.json", r"folder\.json: Is a directory"),
        (tmp_path, "expected a name that ends in"),
        (tmp_path / "nul\0.json", "null byte"),
        (None, "expected a path, not None"),
        (5, "expected a path, not 5"),
    ]:
        with pytest.raises(UserError, match=message):
            RuleSet.load(path)


def test_bad_python_input():
    for make, message in [
        (lambda: RuleSet.from_edges("", []), "name must be printable text"),
        (lambda: RuleSet.from_edges(5, []), "name must be printable text"),
        (lambda: RuleSet.from_edges("x", [("int8",)]), "is no pair of dtypes"),
        (lambda: RuleSet.from_edges("x", ["int8"]), "'int8' is no pair of dtypes"),
        (lambda: RuleSet.from_edges("x", [], float_literals=()), "at least one dtype"),
        (lambda: RuleSet.from_edges("x", [], integer_literals=("float32",)), "Python integers the dtype float32"),
        (lambda: RuleSet.from_edges("x", [("weak_int", "int8")]), "weak_int without a dtype"),
        (lambda: RuleSet.from_table("x", {"int8": "int8"}), "'int8' is no pair of dtypes"),
        (lambda: RuleSet.from_table("x", {("int8", "int8"): 5}), "a dtype name must be a string"),
    ]:
        with pytest.raises(UserError, match=message):
            make()
