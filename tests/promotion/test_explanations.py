"""Explanations, word for word, and that what they claim about values and other presets is true."""

import itertools
import re

import numpy as np
import pytest
from joinery.promotion import PRESETS, DType, RuleSet, UserError, rules

GOLDEN = [
    (
        "max", "int64", "float16",  # a lossy cast along one edge
        """
int64 ∨ float16 = float16   (rule set max)
  int64: cast to float16, overflow: 65520 becomes inf
  float16: unchanged
  elsewhere: float16 in max-published, jax, torch, triton, triton-3.9, triton-3.9-scalar; float64 in numpy; float32 in \
triton-3.9-division; no join in exact
""",
    ),
    (
        "max", "int32", "float32",  # a path with lossy steps
        """
int32 ∨ float32 = float32   (rule set max)
  int32: cast to float32, rounding: 16777217 becomes 16777216
    path: int32 → int64 → float16 (overflow) → bfloat16 (rounding) → float32; the cast is one step, not along the path
  float32: unchanged
  elsewhere: float32 in max-published, jax, torch, triton, triton-3.9, triton-3.9-division, triton-3.9-scalar; float64 in \
numpy, exact
""",
    ),
    (
        "jax", "uint64", "int8",  # a weak result
        """
uint64 ∨ int8 = weak_float   (rule set jax)
  weak_float gives way to any float dtype; a value that ends in it is float64
  uint64: cast to float64, rounding: 9007199254740993 becomes 9007199254740992
  int8: cast to float64, exact
    path: int8 → int16 → int32 → int64 → weak_float (rounding); the cast is one step, not along the path
  elsewhere: float16 in max, max-published; float64 in numpy; no join in torch, triton-3.9-division, exact; uint64 in triton, \
triton-3.9, triton-3.9-scalar
""",
    ),
    (
        "jax", "bfloat16", "weak_float",  # a weak operand
        """
bfloat16 ∨ weak_float = bfloat16   (rule set jax)
  bfloat16: unchanged
  weak_float: becomes bfloat16
  elsewhere: no join in max, max-published, numpy, torch, triton, triton-3.9, triton-3.9-division, triton-3.9-scalar, exact
""",
    ),
    (
        "triton", "int32", "uint32",  # ordered rules
        """
int32 ∨ uint32 = uint32   (rule set triton)
  rule unsigned: of one width, the unsigned wins
  int32: cast to uint32, sign: -1 becomes 4294967295
  uint32: unchanged
  elsewhere: int64 in max, max-published, jax, numpy, exact; no join in torch, triton-3.9-division; uint32 in triton-3.9; \
int32 in triton-3.9-scalar
""",
    ),
    (
        "triton", "float16", "bfloat16",
        """
float16 ∨ bfloat16 = float32   (rule set triton)
  rule supremum: different dtypes of one width meet in a third
  float16: cast to float32, exact
  bfloat16: cast to float32, exact
  elsewhere: bfloat16 in max, max-published; float32 in jax, torch, triton-3.9-division, exact; no join in numpy; float16 in \
triton-3.9, triton-3.9-scalar
""",
    ),
    (
        "triton", "int64", "float16",
        """
int64 ∨ float16 = float16   (rule set triton)
  rule kind: the higher kind wins (bool < integer < float)
  int64: cast to float16, overflow: 65520 becomes inf
  float16: unchanged
  elsewhere: float16 in max, max-published, jax, torch, triton-3.9, triton-3.9-scalar; float64 in numpy; float32 in \
triton-3.9-division; no join in exact
""",
    ),
    (
        "triton-3.9-division", "float16", "float16",  # not idempotent
        """
float16 ∨ float16 = float32   (rule set triton-3.9-division)
  float16: cast to float32, exact
  elsewhere: float16 in max, max-published, jax, numpy, torch, triton, triton-3.9, triton-3.9-scalar, exact
""",
    ),
    (
        "max-published", "int8", "index",  # an erratum
        """
int8 ∨ index = index   (rule set max-published)
  the published table contradicts itself: int8 with index is index, index with int8 is float16; its prose means float16
  int8: cast to index, sign: -1 becomes 18446744073709551615
  index: unchanged
  elsewhere: float16 in max; no join in jax, numpy, torch, triton, triton-3.9, triton-3.9-division, triton-3.9-scalar, exact
""",
    ),
    (
        "exact", "int8", "uint8",  # a completed order
        """
int8 ∨ uint8 = int16   (rule set exact)
  int16, float16, bfloat16 hold every value of both; int16 unless a third operand decides
  int8: cast to int16, exact
  uint8: cast to int16, exact
  elsewhere: int16 in max, max-published, jax, numpy, torch; uint8 in triton, triton-3.9; no join in triton-3.9-division; int8 \
in triton-3.9-scalar
""",
    ),
    (
        "exact", "int64", "uint64",  # a refusal with two ways out
        """
no join for int64 and uint64 in rule set exact: no dtype holds both; fix: .cast(int64) the uint64 operand if its values are \
below 2**63, or .cast(uint64) the int64 operand if none is negative
  elsewhere: float16 in max, max-published; weak_float in jax; float64 in numpy; no join in torch, triton-3.9-division; uint64 \
in triton, triton-3.9; int64 in triton-3.9-scalar
""",
    ),
    (
        "max", "bfloat16", "bfloat16",  # one dtype
        """
bfloat16 ∨ bfloat16 = bfloat16   (rule set max)
  bfloat16: unchanged
  elsewhere: bfloat16 in max-published, jax, numpy, torch, triton, triton-3.9, triton-3.9-scalar, exact; float32 in \
triton-3.9-division
""",
    ),
    (
        "max", "float8_e5m2", "int8",  # unknown to the table
        """
no join for float8_e5m2 and int8 in rule set max: float8_e5m2 is not in its table and only joins with the same dtype; fix: \
cast explicitly, e.g. .cast(float32)
  elsewhere: no join in max-published, numpy, torch, triton-3.9; float8_e5m2 in jax, triton, triton-3.9-scalar; float32 in \
triton-3.9-division; float16 in exact
""",
    ),
    (
        "max", "complex64", "float8_e5m2",
        """
no join for complex64 and float8_e5m2 in rule set max: complex64 and float8_e5m2 are not in its table and only join with the \
same dtype; fix: pass the array's .real and .imag one by one
  elsewhere: no join in max-published, jax, numpy, torch, triton, triton-3.9, triton-3.9-division, triton-3.9-scalar; \
complex64 in exact
""",
    ),
]  # fmt: skip


NAMED = (
    "max", "max-published", "jax", "numpy", "torch", "triton", "triton-3.9", "triton-3.9-division", "triton-3.9-scalar",
    "exact",
)  # fmt: skip
"""The rule sets that the texts above name."""


def about_named(text):
    """The text without what it says of other presets, which may be added."""
    body, mark, elsewhere = text.rpartition("  elsewhere: ")
    answers = {}
    for part in elsewhere.split("; "):
        result, who = part.split(" in ")
        if named := [name for name in who.split(", ") if name in NAMED]:
            answers[result] = named
    first_named = sorted(answers, key=lambda result: NAMED.index(answers[result][0]))
    return body + mark + "; ".join(f"{result} in {', '.join(answers[result])}" for result in first_named)


@pytest.mark.parametrize(("name", "a", "b", "text"), GOLDEN, ids=[f"{name} {a} {b}" for name, a, b, _ in GOLDEN])
def test_golden(name, a, b, text):
    assert about_named(rules(name).explain(a, b)) == text.strip("\n")


def join_or_none(rule_set, a, b):
    try:
        return rule_set.join(a, b).name
    except UserError:
        return "no join"


@pytest.mark.parametrize("name", PRESETS)
def test_what_they_say_of_other_presets_is_true(name):
    rule_set = rules(name)
    for a, b in itertools.islice(itertools.product(rule_set.dtypes, repeat=2), 0, None, 3):
        lines = rule_set.explain(a, b).splitlines()
        assert lines[-1].startswith("  elsewhere: ")
        said = {}
        for part in lines[-1].removeprefix("  elsewhere: ").split("; "):
            result, who = part.split(" in ")
            said |= dict.fromkeys(who.split(", "), result)
        assert said == {other: join_or_none(rules(other), a, b) for other in PRESETS if other != name}
        own = join_or_none(rule_set, a, b)
        assert lines[0].startswith("no join for" if own == "no join" else f"{a} ∨ {b} = {own} ")


def converted(value, source, target):
    """The value as NumPy and ml_dtypes convert it; the real part of a complex result."""
    array = np.array([value], dtype=DType(source).numpy)
    assert int(array[0]) == value
    with np.errstate(all="ignore"):
        result = array.astype(DType(target).numpy)[0]
    return float(result.real) if DType(target).is_complex else result if DType(target).is_integer else float(result)


def test_what_they_say_of_values_is_what_numpy_does():
    checked = set()
    pattern = re.compile(r"  (\w+): cast to (\w+), (\w+): (\S+) becomes (\S+)$")
    for name in PRESETS:
        rule_set = rules(name)
        for a, b in itertools.product(rule_set.dtypes, repeat=2):
            for line in rule_set.explain(a, b).splitlines():
                found = pattern.match(line)
                if found is None or found.group(0) in checked or "tensor_float32" in line:
                    continue
                source, target, loss, before, after = found.groups()
                if not re.fullmatch(r"-?\d+", before):
                    continue
                checked.add(found.group(0))
                result = converted(int(before), source, target)
                if after in ("inf", "nan"):
                    assert str(abs(result)) == after, line
                    assert loss == "overflow"
                else:
                    assert int(result) == int(after), line
                    assert loss in ("rounding", "sign", "overflow")
    assert len(checked) > 20


def test_the_first_overflow_of_float8_e4m3fn():
    line = rules("jax").explain("int16", "float8_e4m3fn").splitlines()[1]
    before, after = re.search(r"(\d+) becomes (\w+)", line).groups()
    assert after == "nan"
    assert np.isnan(converted(int(before), "int16", "float8_e4m3fn"))


def test_examples_are_values_of_the_source():
    line = rules("triton-3.9").explain("float16", "bfloat16").splitlines()[2]
    before = int(re.search(r"(\d+) becomes inf", line)[1])
    assert converted(before, "bfloat16", "float16") == np.inf


@pytest.mark.parametrize("name", ["max", "jax", "exact"])
def test_paths_are_chains_of_covering_edges(name):
    rule_set = rules(name)
    paths = 0
    for a, b in itertools.product(rule_set.dtypes, repeat=2):
        for line in rule_set.explain(a, b).splitlines():
            if line.startswith("    path: "):
                paths += 1
                chain = [DType(step.split()[0]) for step in line.removeprefix("    path: ").split("; ")[0].split(" → ")]
                assert chain[-1] is rule_set.join(a, b)
                assert all(rule_set.join(low, high) is high for low, high in itertools.pairwise(chain))
                if name != "exact":  # elements of a completed order that are no dtypes are left out
                    assert set(itertools.pairwise(chain)) <= set(rule_set.lattice.edges)
    assert paths > 5


def test_rule_sets_of_users_explain_themselves_too():
    mine = RuleSet.from_edges("mine", [("int8", "float8_e5m2"), ("uint8", "float8_e5m2"), ("float8_e5m2", "float16")])
    lines = mine.explain("int8", "float16").splitlines()
    assert lines[:4] == [
        "int8 ∨ float16 = float16   (rule set mine)",
        "  int8: cast to float16, exact",
        "    path: int8 → float8_e5m2 (rounding) → float16; the cast is one step, not along the path",
        "  float16: unchanged",
    ]
    assert all(name in lines[-1] for name in PRESETS)


@pytest.mark.parametrize("pair", [("int61", "int8"), ("int8", "int61")])
def test_unknown_names(pair):
    with pytest.raises(UserError, match=r"unknown dtype 'int61'; did you mean .*int64"):
        rules("max").explain(*pair)
