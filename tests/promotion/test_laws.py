"""Every preset's laws by brute force, against `laws()`; n-ary joins in any order; what "exact" promises, value by value."""

import functools
import itertools
import random

import numpy as np
import pytest
from joinery.promotion import DTYPES, PRESETS, DType, UserError, rules

# Failures of: idempotent, commutative, associative, unique least upper bound, monotone. Why, with a counterexample each:
FAILURES = {
    "max": (0, 0, 0, 0, 0),
    # Four cells contradict their mirror cells: bool ∨ index is int64, index ∨ bool uint64.
    "max-published": (0, 4, 68, 4, 20),
    "jax": (0, 0, 0, 0, 0),
    # int8 ∨ uint8 is int16, which float16 does not hold, while float16 holds each of the two: (int8 ∨ uint8) ∨ float16 is
    # float32, int8 ∨ (uint8 ∨ float16) is float16.
    "numpy": (0, 0, 28, 6, 11),
    # uint16, uint32, uint64 and floats of 8 bits have no join with most others: (bool ∨ uint16) ∨ float16 is refused, bool ∨
    # (uint16 ∨ float16) is float16. No defined triple differs, and each join is the least bound among those there are.
    "torch": (0, 0, 432, 0, 0),
    # Rule "supremum": two different fp8 give float16, though bfloat16 is wider than each: (e4m3fn ∨ e5m2) ∨ bfloat16 is
    # float32, e4m3fn ∨ (e5m2 ∨ bfloat16) is bfloat16. The other rules (kind, width, unsigned) break nothing.
    "triton": (0, 0, 40, 20, 20),
    # float16 ∨ bfloat16 is float16, but bfloat16 with an integer float32: (bool ∨ float16) ∨ bfloat16 is float16, (bool ∨
    # bfloat16) ∨ float16 is float32; bool and integers have no join with fp8.
    "triton-3.9": (0, 0, 372, 58, 22),
    # Floats divide in float32, so float16 ∨ float16 is float32; mixed signs are refused: (bool ∨ int8) ∨ float32 is none.
    "triton-3.9-division": (4, 0, 480, 40, 0),
    # The tensor's dtype wins within a kind: int8 ∨ int16 is int8, int16 ∨ int8 is int16.
    "triton-3.9-scalar": (0, 70, 108, 122, 128),
    "exact": (0, 0, 0, 0, 0),
}
LAWS = ("idempotent", "commutative", "associative", "unique least upper bound", "monotone")


def table_of(rule_set):
    """Elements and joins; of a completed order also the elements that are no dtypes."""
    if rule_set.lattice is not None:
        return rule_set.lattice.elements, dict(rule_set.lattice.joins)
    table = rule_set.table()
    return rule_set.dtypes, {(a, b): joined for (a, b) in table if (joined := table[a, b]) is not None}


def count_failures(elements, joins):
    """How often each law fails, from the definitions; a ≤ b means a ∨ b = b."""
    position = {element: i for i, element in enumerate(elements)}
    size = len(elements)
    table = np.full((size + 1, size + 1), size)  # index `size` is "no join"
    for (a, b), joined in joins.items():
        table[position[a], position[b]] = position[joined]
    inner = table[:size, :size]
    i = np.arange(size)
    below = inner == i  # [a, b]
    left = table[inner[:, :, None], i[None, None, :]]
    right = table[i[:, None, None], inner[None, :, :]]
    least = 0
    for a, b in itertools.product(range(size), repeat=2):
        bounds = [c for c in range(size) if below[a, c] and below[b, c]]
        smallest = [c for c in bounds if all(below[c, d] for d in bounds)]
        least += (smallest[0] if len(smallest) == 1 else size) != inner[a, b]
    monotone = 0
    for a, b, c in itertools.product(range(size), repeat=3):
        one, other = inner[a, c], inner[b, c]
        monotone += a != b and below[a, b] and size not in (one, other) and not below[one, other]
    return (
        int((inner[i, i] != i).sum()),
        int((inner != inner.T).sum()) // 2,
        int((left != right).sum()),
        least,
        monotone,
    )


def chained(rule_set):
    """How often two operators in a row, with a dtype in between, depend on the grouping; of how many."""

    def meet(a, b):
        try:
            return rule_set.join(a, b) if a and b else None
        except UserError:
            return None

    dtypes = [dtype for dtype in rule_set.dtypes if not dtype.is_abstract]
    triples = list(itertools.product(dtypes, repeat=3))
    return sum(meet(meet(a, b), c) is not meet(a, meet(b, c)) for a, b, c in triples), len(triples)


def test_exact_is_associative_at_once_but_not_by_operators():
    laws = rules("exact").laws()
    assert laws["associative"].holds
    assert (laws["associative by operators"].failures, laws["associative by operators"].cases) == (200, 8000)
    assert "(bool" not in laws["associative by operators"].counterexamples[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PRESETS)
def test_laws_of_every_preset(name):
    rule_set = rules(name)
    elements, joins = table_of(rule_set)
    laws = rule_set.laws()
    counted = count_failures(elements, joins)
    *algebra, chains = laws
    assert tuple(law.failures for law in algebra) == counted
    assert tuple(law.name for law in algebra) == LAWS
    assert counted == FAILURES.get(name, counted)
    assert bool(laws) == all(law.holds for law in algebra) == (counted == (0,) * 5)
    size = len(elements)
    assert [law.cases for law in algebra] == [size, size * (size - 1) // 2, size**3, size**2, size**3]
    assert (chains.name, chains.failures, chains.cases) == ("associative by operators", *chained(rule_set))
    assert set(rule_set.dtypes) <= set(elements)


def test_the_known_rule_sets_are_presets():
    assert FAILURES.keys() <= set(PRESETS)
    assert [name for name, counts in FAILURES.items() if not any(counts)] == ["max", "jax", "exact"]


@pytest.mark.parametrize("name", [name for name, counts in FAILURES.items() if any(counts)])
def test_counterexamples_are_true(name):
    """Every shown text follows from the joins it names."""
    rule_set = rules(name)

    def join(a, b):
        if "nothing" in (a, b):
            return "nothing"
        try:
            return rule_set.join(a, b).name
        except UserError:
            return "nothing"

    def evaluate(text):
        text = text.strip()
        if text.startswith("("):
            inner, rest = text[1:].split(") ∨ ")
            return join(evaluate(inner), rest)
        if text.endswith(")"):
            first, inner = text[:-1].split(" ∨ (")
            return join(first, evaluate(inner))
        return join(*text.split(" ∨ "))

    shown = 0
    for law in LAWS[:3]:
        for example in rule_set.laws()[law].counterexamples:
            shown += 1
            claims = [claim.split(" = ") for claim in example.split(", but ")]
            assert all(evaluate(term) == result for term, result in claims), example
            if law != "idempotent":
                assert claims[0][1] != claims[1][1], example
    assert shown


def test_by_hand():
    """One counterexample per preset that breaks a law, as the comments on FAILURES tell them."""
    join = {name: rules(name).join for name in PRESETS}
    assert join["max-published"]("bool", "index").name == "int64"
    assert join["max-published"]("index", "bool").name == "uint64"
    assert join["numpy"](join["numpy"]("int8", "uint8"), "float16").name == "float32"
    assert join["numpy"]("int8", join["numpy"]("uint8", "float16")).name == "float16"
    with pytest.raises(UserError, match="bool and uint16"):
        join["torch"]("bool", "uint16")
    assert join["torch"]("bool", join["torch"]("uint16", "float16")).name == "float16"
    triton = join["triton"]
    assert triton(triton("float8_e4m3fn", "float8_e5m2"), "bfloat16").name == "float32"
    assert triton("float8_e4m3fn", triton("float8_e5m2", "bfloat16")).name == "bfloat16"
    compiler = join["triton-3.9"]
    assert compiler(compiler("bool", "float16"), "bfloat16").name == "float16"
    assert compiler(compiler("bool", "bfloat16"), "float16").name == "float32"
    assert join["triton-3.9-division"]("float16", "float16").name == "float32"
    assert join["triton-3.9-scalar"]("int8", "int16").name == "int8"
    assert join["triton-3.9-scalar"]("int16", "int8").name == "int16"


def test_torch_breaks_associativity_only_by_refusing():
    _, joins = table_of(rules("torch"))
    for a, b, c in itertools.product(rules("torch").dtypes, repeat=3):
        left = joins.get((joins.get((a, b)), c))
        right = joins.get((a, joins.get((b, c))))
        assert left is right or left is None or right is None


# -- n-ary ---------------------------------------------------------------------------------------------------------------------


def outcome(rule_set, operands):
    try:
        return rule_set.promote(*operands).name
    except UserError:
        return "error"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["max", "jax", "exact"])
def test_promote_does_not_depend_on_the_order(name):
    rule_set = rules(name)
    source = random.Random(20)
    results = set()
    for _ in range(400):
        operands = source.choices(rule_set.dtypes, k=source.randint(2, 5))
        operands += source.choices([True, 1, 2.5], k=source.randint(0, 2))
        answers = {outcome(rule_set, source.sample(operands, len(operands))) for _ in range(6)}
        assert len(answers) == 1, operands
        results |= answers
    assert len(results) > 8


@pytest.mark.parametrize(
    ("operands", "answer"),
    [
        (("int8", "uint8"), "int16"),
        (("int8", "uint8", "float16"), "float16"),
        (("int8", "uint8", "bfloat16"), "bfloat16"),
        (("int8", "uint8", "int16"), "int16"),
        (("int8", "uint8", "float8_e5m2"), "float16"),  # the least dtype that holds all three
        (("int8", "uint8", "bool", "float16"), "float16"),
        (("int8", "uint8", "float16", "bfloat16"), "float32"),
        (("int8", "uint16", "float32", "int32"), "float64"),
        (("int16", "uint16", "float32"), "float32"),
        (("int64", "uint64"), "error"),
        (("int64", "float64"), "error"),
        (("int8", "uint64"), "error"),
        (("int32", "uint64", "float64"), "error"),
    ],
)
def test_exact_with_several_operands(operands, answer):
    assert {outcome(rules("exact"), order) for order in itertools.permutations(operands)} == {answer}


# -- "exact": values -----------------------------------------------------------------------------------------------------------


def values_of(dtype):
    """All finite values of types of up to 16 bits; of wider ones those where a conversion can fail first."""
    if dtype.is_bool:
        return np.array([False, True])
    storage = dtype.numpy
    if dtype.is_integer:
        if dtype.bits <= 16:
            return np.arange(dtype.min_value, dtype.max_value + 1).astype(storage)
        powers = [sign * (1 << k) + d for k in range(dtype.bits + 1) for sign in (1, -1) for d in (-1, 0, 1)]
        return np.array([v for v in powers if dtype.min_value <= v <= dtype.max_value], dtype=storage)
    if dtype.bits <= 16:
        bits = np.arange(1 << dtype.bits).astype(f"uint{dtype.bits}")
        every = bits.view(storage)
        with np.errstate(invalid="ignore"):
            return every[np.isfinite(every.astype(np.float64))]
    single = DTYPES["float32" if dtype.bits == (64 if dtype.is_complex else 32) else "float64"]
    edges = [1.0, 1 + 2.0**-dtype.mantissa_bits, single.max_value, single.smallest_normal, single.smallest_subnormal]
    if dtype.name == "tensor_float32":
        edges = [1.0, 1 + 2.0**-10, 2.0**127, 2.0**-126]
    values = np.array([0.0, *edges, *(-e for e in edges)])
    return (values + 1j * values if dtype.is_complex else values).astype(storage)


def unchanged(dtype, target):
    """Whether every value survives the conversion and compares equal as a number of unlimited precision."""
    values = values_of(dtype)
    if target.is_integer and not (dtype.is_integer or dtype.is_bool):
        return False
    if dtype.is_complex and not target.is_complex:
        return False
    if dtype.is_integer or dtype.is_bool:
        if target.is_integer or target.is_bool:
            if target.is_bool and not dtype.is_bool:
                return False
            return all(target.min_value <= int(v) <= target.max_value for v in values)
        part = {"complex64": np.float32, "complex128": np.float64}.get(target.name, target.numpy)
        with np.errstate(all="ignore"):
            converted = values.astype(part).astype(np.float64)
        return all(np.isfinite(c) and int(c) == int(v) for v, c in zip(values, converted, strict=True))
    if target.is_bool:
        return False
    with np.errstate(all="ignore"):
        if dtype.is_complex:
            return bool(np.all(values.astype(target.numpy).astype(np.complex128) == values.astype(np.complex128)))
        if target.is_complex:
            half = np.float32 if target.name == "complex64" else np.float64
            return bool(np.all(values.astype(half).astype(np.float64) == values.astype(np.float64)))
        if target.name == "tensor_float32":  # stored as float32: 13 bits of the mantissa must be zero
            bits = values.astype(np.float32).view(np.uint32)
            kept = values.astype(np.float32).astype(np.float64) == values.astype(np.float64)
            return bool(np.all(kept) and np.all(bits & 0x1FFF == 0))
        return bool(np.all(values.astype(target.numpy).astype(np.float64) == values.astype(np.float64)))


@functools.cache
def holds(a, b):
    """Whether b keeps every value of a."""
    return a is b or unchanged(a, b)


EXACT = rules("exact")
SPECIAL = {DType("index"), DType("address"), DType("tensor_float32")}


def test_the_witness_tells_types_apart():
    def named(a, b):
        return holds(DType(a), DType(b))

    assert named("int8", "float16")
    assert named("int8", "bfloat16")
    assert not named("int16", "float16")
    assert not named("float16", "bfloat16")
    assert not named("uint64", "float64")
    assert named("uint32", "float64")
    assert named("float8_e5m2", "float16")
    assert named("float8_e5m2", "bfloat16")
    assert not named("float32", "tensor_float32")
    assert named("tensor_float32", "float32")
    assert not named("complex64", "float64")
    assert not named("int32", "complex64")


@pytest.mark.slow
def test_every_join_keeps_every_value_of_both_operands():
    joins = 0
    table = EXACT.table()
    for (a, b), joined in ((pair, table[pair]) for pair in table):
        if joined is not None:
            joins += 1
            assert holds(a, joined), (a, b, joined)
            assert holds(b, joined), (a, b, joined)
            assert joined not in SPECIAL - {a, b}
            between = [
                c for c in EXACT.dtypes if holds(a, c) and holds(b, c) and holds(c, joined) and not holds(joined, c)
            ]
            assert set(between) <= SPECIAL, (a, b, joined, between)  # nothing smaller would do
    assert joins > 300


@pytest.mark.slow
def test_only_pairs_without_a_common_holder_are_refused():
    table = EXACT.table()
    refused = {pair for pair in table if table[pair] is None}
    usual = set(EXACT.dtypes) - SPECIAL
    assert refused == {
        (a, b)
        for a, b in itertools.product(EXACT.dtypes, repeat=2)
        if a is not b and not any(holds(a, c) and holds(b, c) for c in usual | {a, b})
    }
    assert (DType("int64"), DType("uint64")) in refused
    assert (DType("int64"), DType("float64")) in refused
    assert (DType("int32"), DType("float64")) not in refused


@pytest.mark.parametrize(("signed", "unsigned"), [("int64", "uint64"), ("int8", "uint64"), ("int32", "index")])
def test_exact_offers_two_casts_where_signs_differ(signed, unsigned):
    for pair in ((signed, unsigned), (unsigned, signed)):
        with pytest.raises(UserError) as caught:
            EXACT.join(*pair)
        text = str(caught.value)
        assert text.startswith(f"no join for {pair[0]} and {pair[1]} in rule set exact: no dtype holds both")
        assert f".cast(int64) the {unsigned} operand if its values are below 2**63" in text
        assert f".cast(uint64) the {signed} operand if none is negative" in text
        with pytest.raises(UserError, match="2\\*\\*63"):
            EXACT.promote(*pair)


def test_a_refused_join_of_several_names_the_two_that_do_not_meet():
    exact = rules("exact")
    for operands in (("int8", "uint64"), ("uint64", "int8"), ("bool", "int8", "uint64")):
        with pytest.raises(UserError, match=r"no join for (int8 and uint64|uint64 and int8)"):
            exact.promote(*operands)
