"""The rule set "max": every published cell, laws over all triples, n-ary joins, explanations, refusals."""

import itertools
import json
import pathlib
import pickle
import random
import timeit

import numpy as np
import pytest
from joinery.promotion import (
    DTYPES,
    DType,
    RuleSet,
    UserError,
    implicit_cast,
    implicit_cast_type,
    rules,
)

MAX = rules("max")
PUBLISHED = json.loads(
    (pathlib.Path(__file__).parent.parent / "data" / "promotion" / "max_published.json").read_text()
)
# The page's cells that contradict their own mirror cell: row → column → (printed, the prose's reading).
ERRATA = {
    ("bool", "index"): ("int64", "uint64"),
    ("bool", "address"): ("int64", "uint64"),
    ("int8", "index"): ("index", "float16"),
    ("int8", "address"): ("address", "float16"),
}


def published():
    for row, cells in PUBLISHED["table"].items():
        for column, cell in zip(PUBLISHED["dtypes"], cells, strict=True):
            yield row, column, cell


def test_every_published_cell_but_the_errata():
    checked = 0
    for row, column, cell in published():
        ours = MAX.join(DType(row), DType(column)).name
        if (row, column) in ERRATA:
            assert (cell, ours) == ERRATA[row, column]
        else:
            assert ours == cell, (row, column)
            checked += 1
    assert checked == 16 * 16 - 4


def test_the_errata_are_exactly_the_asymmetric_cells():
    table = {(row, column): cell for row, column, cell in published()}
    asymmetric = {frozenset(pair) for pair in table if table[pair] != table[pair[::-1]]}
    assert asymmetric == {frozenset(pair) for pair in ERRATA}
    for (row, column), (_, ours) in ERRATA.items():
        assert table[column, row] == ours  # the mirror cell is the one that follows the prose


def test_laws_over_all_triples_without_the_library():
    names = PUBLISHED["dtypes"]
    dtypes = [DType(name) for name in names]
    assert set(MAX.dtypes) == set(dtypes)
    join = MAX.join
    for a in dtypes:
        assert join(a, a) is a
    for a, b in itertools.product(dtypes, repeat=2):
        assert join(a, b) is join(b, a)
        assert join(a, join(a, b)) is join(a, b)  # an upper bound of a in the induced order
        bounds = [c for c in dtypes if join(a, c) is c and join(b, c) is c]
        assert all(join(join(a, b), c) is c for c in bounds)  # and the least of them
    for a, b, c in itertools.product(dtypes, repeat=3):
        assert join(join(a, b), c) is join(a, join(b, c))


def test_laws_report():
    laws = MAX.laws()
    assert laws
    assert [(law.name, law.cases) for law in laws] == [
        ("idempotent", 16),
        ("commutative", 120),
        ("associative", 4096),
        ("unique least upper bound", 256),
        ("monotone", 4096),
        ("associative by operators", 4096),
    ]


def test_the_page_cell_for_cell_is_no_lattice():
    literal = RuleSet.from_table("printed", {(row, column): cell for row, column, cell in published()})
    laws = literal.laws()
    assert not laws
    assert laws["idempotent"].holds
    assert laws["commutative"].failures == 4
    assert laws["associative"].failures == 68
    assert literal.join(DType("bool"), DType("index")) is DType("int64")
    assert literal.join(DType("index"), DType("bool")) is DType("uint64")
    assert literal.hash != MAX.hash
    assert literal.explain("int8", "index").startswith("int8 ∨ index = index")


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d not in MAX.dtypes], ids=str)
def test_dtypes_outside_the_table_join_only_with_themselves(dtype):
    assert MAX.join(dtype, dtype) is dtype
    for other in DTYPES.values():
        if other is not dtype:
            is_complex = "complex" in (dtype.kind, other.kind)  # which nothing is cast from
            fix = r"pass the array's \.real and \.imag" if is_complex else r"cast explicitly, e\.g\. \.cast\("
            with pytest.raises(UserError, match=f"not in its table.*fix: {fix}"):
                MAX.join(dtype, other)
            with pytest.raises(UserError, match="no join for"):
                MAX.join(other, dtype)


def test_refusal_names_the_rule_set_and_a_useful_cast():
    with pytest.raises(UserError, match=r"float8_e5m2 and int8 in rule set max.*\.cast\(float32\)"):
        MAX.join(DType("float8_e5m2"), DType("int8"))
    with pytest.raises(UserError, match=r"\.cast\(bfloat16\)"):
        MAX.join(DType("float8_e5m2"), DType("bfloat16"))


def test_join_of_unknown_names():
    with pytest.raises(UserError, match="unknown dtype 'flaot32'; did you mean float32"):
        implicit_cast_type("flaot32", "int8")
    with pytest.raises(UserError, match="from_numpy"):
        MAX.join(np.float32, DType("int8"))


def test_seed_examples():
    assert implicit_cast_type(DType("int16"), DType("float32")) is DType("float32")
    assert implicit_cast_type("bfloat16", "float16") is DType("bfloat16")
    assert implicit_cast_type("tensor_float32", "float64") is DType("float64")
    assert implicit_cast_type("bool", "index") is DType("uint64")
    with pytest.raises(UserError):
        implicit_cast_type("complex64", "float32")


class Symbol:
    def __init__(self, dtype):
        self.dtype = DType(dtype)

    def cast(self, dtype):
        return Symbol(dtype)


def test_implicit_cast_returns_the_pair_and_leaves_equal_operands_alone():
    a, b = Symbol("int8"), Symbol("float16")
    lhs, rhs = implicit_cast(a, b)
    assert (lhs.dtype.name, rhs.dtype.name) == ("float16", "float16")
    assert rhs is b
    assert lhs is not a
    assert implicit_cast(a, a) == (a, a)
    third = implicit_cast(Symbol("uint8"), Symbol("int8"))
    assert [s.dtype.name for s in third] == ["int16", "int16"]
    with pytest.raises(UserError):
        implicit_cast(a, Symbol("float8_e5m2"))


def test_nary_join_is_order_independent():
    random.seed(7)
    for _ in range(300):
        chosen = random.choices(MAX.dtypes, k=random.randint(1, 6))
        shuffled = random.sample(chosen, len(chosen))
        assert MAX.join_all(chosen) is MAX.join_all(shuffled)
    with pytest.raises(UserError, match="at least one"):
        MAX.join_all([])


def test_join_is_a_dict_lookup():
    a, b = DType("int8"), DType("float16")
    best = min(timeit.repeat(lambda: MAX.join(a, b), number=20_000, repeat=5)) / 20_000
    assert best < 2e-6  # measured 0.1 µs; the bound leaves room for a busy machine


def test_table_as_data_text_and_markdown():
    table = MAX.table()
    assert len(table) == 256
    assert table[DType("int8"), DType("uint8")] is DType("int16")
    assert table.to_dict()["uint64"]["int8"] == "float16"
    lines = str(table).splitlines()
    assert len(lines) == 17
    assert lines[0].split() == ["max", *(d.name for d in MAX.dtypes)]
    assert lines[1].split()[0] == "bool"
    markdown = table.to_markdown().splitlines()
    assert len(markdown) == 18
    assert all(line.count("|") == 18 for line in markdown)


def test_a_table_with_holes_prints_them():
    partial = RuleSet.from_table("partial", {("int8", "int8"): "int8", ("int8", "int16"): "int16"})
    assert partial.table()[DType("int16"), DType("int8")] is None
    assert "–" in str(partial.table())
    with pytest.raises(UserError, match=r"no join for int16 and int8 .* \.cast\(int16\) or \.cast\(int8\)"):
        partial.join(DType("int16"), DType("int8"))


def test_explain():
    text = MAX.explain("int64", "float32")
    assert text.startswith("int64 ∨ float32 = float32")
    assert "int64 → float16 (overflow) → bfloat16 (rounding) → float32" in text
    assert "rounding: 16777217 becomes 16777216" in text
    assert "float32: unchanged" in text
    assert "overflow: 65520 becomes inf" in MAX.explain("int64", "uint64")
    assert MAX.explain("int8", "int8").splitlines()[1:-1] == ["  int8: unchanged"]
    assert "; float64 in numpy, exact" in MAX.explain("int32", "float32").splitlines()[-1]
    assert "exact" in MAX.explain("int8", "int16")
    assert MAX.explain("float8_e5m2", "int8").startswith("no join")


def test_what_may_be_cast():
    assert MAX.can_cast("int8", DType("float16"))
    assert MAX.can_cast("int8", "int8")
    assert not MAX.can_cast("float16", "int8")
    assert not MAX.can_cast("int8", "uint8")
    assert not MAX.can_cast("float8_e5m2", "int8")


def test_rule_sets_are_values():
    assert rules("max") is MAX is rules() is rules(MAX)
    assert pickle.loads(pickle.dumps(MAX)) == MAX
    assert hash(pickle.loads(pickle.dumps(MAX))) == hash(MAX)
    with pytest.raises(AttributeError, match="immutable"):
        MAX.name = "other"
    assert "max" in repr(MAX)


def test_hash_depends_on_the_table_and_literals_only():
    edges = [("int8", "int16"), ("int16", "float32")]
    one = RuleSet.from_edges("one", edges)
    same = RuleSet.from_edges("other name", reversed(edges))
    wider = RuleSet.from_edges("one", edges, float_literals=("float64",))
    assert one.hash == same.hash
    assert one.hash != wider.hash
    assert one != same
    assert MAX.hash == "0f60ec7a64635ebba10f2dcffb2b78dc7655938ddc9c98e6ef817ba82b8aadc7"


def test_user_rule_sets():
    mine = RuleSet.from_edges("mine", [("int8", "float8_e5m2"), ("float8_e5m2", "float32")])
    assert mine.join(DType("int8"), DType("float32")) is DType("float32")
    assert mine.promote("int8", 1.5) is DType("float32")
    with pytest.raises(UserError, match="no least upper bound"):
        RuleSet.from_edges(
            "bad", [("int8", "int16"), ("int8", "uint16"), ("uint8", "int16"), ("uint8", "uint16")]
        )
    with pytest.raises(UserError, match="cycle"):
        RuleSet.from_edges("bad", [("int8", "int16"), ("int16", "int8")])
    with pytest.raises(UserError, match="unknown dtype"):
        RuleSet.from_edges("bad", [("int8", "int61")])


def test_unknown_rule_set():
    with pytest.raises(UserError, match="unknown rule set 'maxx'; did you mean 'max'"):
        rules("maxx")
    with pytest.raises(UserError, match="known: max"):
        rules("q")
