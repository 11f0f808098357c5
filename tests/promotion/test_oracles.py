"""Every cell of the peers' own answers (tests/data/promotion): tables, Python scalars, refusals, tensors of rank 0."""

import itertools
import json
import pathlib

import joinery as jn
import pytest
from joinery.promotion import DType, UserError, ZeroDim, rules

DATA = pathlib.Path(__file__).parent.parent / "data" / "promotion"
ORACLES = json.loads((DATA / "oracles.json").read_text())
JAX_PAGE = json.loads((DATA / "jax_published.json").read_text())
MAX_PAGE = json.loads((DATA / "max_published.json").read_text())

# Oracle, the rule set that must equal it, the number of cells and how many of them are refusals.
TABLES = [
    ("numpy", "numpy", 196, 0),
    ("jax", "jax", 361, 92),
    ("torch", "torch", 289, 116),
    ("triton", "triton-3.9", 225, 36),
    ("triton_div_or_mod", "triton-3.9-division", 225, 40),
    ("triton_scalar_rhs", "triton-3.9-scalar", 225, 18),
]
SCALARS = {"bool": True, "int": 1, "float": 1.5, "complex": 1j}


def cells(oracle):
    for pair, answer in ORACLES[oracle]["table"].items():
        yield (*pair.split(","), answer)


def is_error(answer):
    return isinstance(answer, str) and answer.startswith("error")


def promoted(rule_set, *operands):
    """The promoted dtype's name, or "error" where the rule set refuses."""
    try:
        return rule_set.promote(*operands).name
    except UserError:
        return "error"


@pytest.mark.parametrize(("oracle", "name", "count", "refused"), TABLES, ids=[row[0] for row in TABLES])
def test_every_cell_of_the_peers_tables(oracle, name, count, refused):
    rule_set = rules(name)
    found = list(cells(oracle))
    assert len(found) == count
    assert sum(is_error(answer) for *_, answer in found) == refused
    wrong = [
        (a, b, answer, ours)
        for a, b, answer in found
        if (ours := promoted(rule_set, a, b)) != ("error" if is_error(answer) else answer)
    ]
    assert not wrong
    for a, b, answer in found:
        if is_error(answer):
            with pytest.raises(UserError, match=rf"no join for {a} and {b} in rule set {name}.*fix: .*cast"):
                rule_set.join(a, b)


@pytest.mark.parametrize(("oracle", "name", "count", "refused"), TABLES, ids=[row[0] for row in TABLES])
def test_the_tables_hold_the_dtypes_of_their_oracles_and_no_more(oracle, name, count, refused):
    asked = {a for a, _, _ in cells(oracle)}
    assert {d.name for d in rules(name).dtypes if not d.is_weak} == asked


@pytest.mark.parametrize("lhs", JAX_PAGE["dtypes"])
def test_every_published_cell_of_jax(lhs):
    names = {
        "b1": "bool", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "i1": "int8", "i2": "int16",
        "i4": "int32", "i8": "int64", "bf": "bfloat16", "f2": "float16", "f4": "float32", "f8": "float64",
        "c8": "complex64", "c16": "complex128", "i*": "weak_int", "f*": "weak_float", "c*": "weak_complex",
    }  # fmt: skip
    assert len(JAX_PAGE["dtypes"]) == len(names) == 18
    row = JAX_PAGE["table"][lhs]
    assert len(row) == 18
    jax = rules("jax")
    for rhs, answer in zip(JAX_PAGE["dtypes"], row, strict=True):
        assert jax.join(names[lhs], names[rhs]).name == names[answer], (lhs, rhs)


def test_every_published_cell_of_max():
    printed, ours = rules("max-published"), rules("max")
    found = {
        (a, b): answer
        for a, row in MAX_PAGE["table"].items()
        for b, answer in zip(MAX_PAGE["dtypes"], row, strict=True)
    }
    assert len(found) == 256
    contradictions = {pair for pair, answer in found.items() if answer != found[pair[::-1]]}
    for (a, b), answer in found.items():
        assert printed.join(a, b).name == answer
        if (a, b) not in contradictions:
            assert ours.join(a, b).name == answer
    errata = {(e.lhs.name, e.rhs.name): e for e in printed.errata()}
    assert set(errata) == {("bool", "index"), ("bool", "address"), ("int8", "index"), ("int8", "address")}
    assert {pair for a, b in errata for pair in ((a, b), (b, a))} == contradictions
    for (a, b), erratum in errata.items():
        assert erratum.printed.name == found[a, b]
        assert erratum.mirrored.name == found[b, a]
        assert ours.join(a, b) is ours.join(b, a) is erratum.reading
    assert ours.errata() == ()
    assert {(d.lhs.name, d.rhs.name) for d in ours.diff(printed)} == set(errata)


def test_jax_with_python_scalars():
    jax = rules("jax")
    found = list(cells("jax_python_scalars"))
    assert len(found) == 60
    for dtype, kind, (answer, weak) in found:
        operands = (dtype, SCALARS[kind])
        assert [jax.promote(*operands).name, jax.join_operands(operands).is_weak] == [answer, weak], (dtype, kind)
        assert jax.promote(*operands[::-1]) is jax.promote(*operands)


@pytest.mark.parametrize(("name", "count", "refused"), [("numpy", 56, 0), ("torch", 60, 6)])
def test_strong_rule_sets_with_python_scalars(name, count, refused):
    rule_set = rules(name)
    found = list(cells(f"{name}_python_scalars"))
    assert len(found) == count
    assert sum(is_error(answer) for *_, answer in found) == refused
    for dtype, kind, answer in found:
        expected = "error" if is_error(answer) else answer
        assert promoted(rule_set, dtype, SCALARS[kind]) == expected, (dtype, kind)
        assert promoted(rule_set, SCALARS[kind], dtype) == expected, (kind, dtype)


def test_torch_float16_with_a_complex_scalar_is_no_dtype_of_tensors():
    result = rules("torch").promote("float16", 1j)
    assert result.name == "complex32"
    assert result.is_abstract
    with pytest.raises(UserError, match="element of promotion tables only"):
        result.numpy  # noqa: B018


def test_jax_strict_is_the_policy_strict():
    computed = 0
    for a, b, answer in cells("jax_strict"):
        if not (DType(a).has_arithmetic and DType(b).has_arithmetic) or a == b == "bool":  # our + is not defined for bools
            continue
        computed += 1
        inputs = [jn.TensorType(a, (2,), "x"), jn.TensorType(b, (2,), "y")]
        x, y = jn.Graph("strict", inputs=inputs, semantics="jax", policy="strict").inputs
        if is_error(answer):
            with pytest.raises(UserError, match=r"would be cast .* 'strict' allows no implicit casts(.|\n)*\.cast\("):
                x + y
        else:
            assert (x + y).dtype.name == answer
    assert computed == 13 * 13 - 1


# PyTorch's Tensor Attributes page: only where no tensor with dimensions has the kind (bool < integer < float < complex) of a
# tensor of rank 0 does the latter count. Rows: a tensor with dimensions. Columns: a tensor of rank 0. Complex only makes a
# float complex, of the float's own precision.
RANK_0 = """
-         bool      uint8     int8      int32     int64     float16   bfloat16  float32   float64   complex64  complex128
bool      bool      uint8     int8      int32     int64     float16   bfloat16  float32   float64   complex64  complex128
uint8     uint8     uint8     uint8     uint8     uint8     float16   bfloat16  float32   float64   complex64  complex128
int8      int8      int8      int8      int8      int8      float16   bfloat16  float32   float64   complex64  complex128
int32     int32     int32     int32     int32     int32     float16   bfloat16  float32   float64   complex64  complex128
uint16    uint16    uint16    uint16    uint16    uint16    float16   bfloat16  float32   float64   complex64  complex128
float16   float16   float16   float16   float16   float16   float16   float16   float16   float16   complex32  complex32
bfloat16  bfloat16  bfloat16  bfloat16  bfloat16  bfloat16  bfloat16  bfloat16  bfloat16  bfloat16  complex64  complex64
float32   float32   float32   float32   float32   float32   float32   float32   float32   float32   complex64  complex64
float64   float64   float64   float64   float64   float64   float64   float64   float64   float64   complex128 complex128
complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64  complex64
"""  # fmt: skip


def test_torch_tensors_of_rank_0():
    torch = rules("torch")
    header, *rows = [line.split() for line in RANK_0.strip().splitlines()]
    assert len(rows) == 10
    for large, *answers in rows:
        for small, answer in zip(header[1:], answers, strict=True):
            assert promoted(torch, large, ZeroDim(DType(small))) == answer, (large, small)
            assert promoted(torch, ZeroDim(DType(small)), large) == answer, (small, large)


def test_torch_tensors_of_rank_0_among_themselves_are_plain():
    torch = rules("torch")
    dtypes = [d for d in torch.dtypes if d.bits <= 32]
    for a, b in itertools.product(dtypes, repeat=2):
        assert promoted(torch, ZeroDim(a), ZeroDim(b)) == promoted(torch, a, b)


@pytest.mark.parametrize(
    ("operands", "answer"),
    [
        (("int8", ZeroDim(DType("float64")), 2.5), "float64"),  # rank 0 before Python numbers
        (("int8", ZeroDim(DType("int64")), 2.5), "float32"),  # the number's kind is the highest
        (("int8", ZeroDim(DType("int64")), 2), "int8"),
        (("float16", ZeroDim(DType("int64")), 1j), "complex32"),
        (("bool", ZeroDim(DType("int8")), 1), "int8"),
        (("bool", ZeroDim(DType("bool")), 1), "int64"),
        (("int8", "int16", ZeroDim(DType("int64"))), "int16"),
        (("bool", ZeroDim(DType("uint16"))), "error"),  # torch has no promotion of bool with uint16
        (("uint16", ZeroDim(DType("uint32"))), "uint16"),
    ],
)
def test_torch_three_categories_at_once(operands, answer):
    for order in itertools.permutations(operands):
        assert promoted(rules("torch"), *order) == answer


def test_rank_0_counts_fully_elsewhere():
    assert rules("numpy").promote("int8", ZeroDim(DType("int64"))).name == "int64"
    assert rules("max").promote("int8", ZeroDim(DType("int64"))).name == "int64"
