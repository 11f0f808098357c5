"""The promotion classes of ops: casts per operand, result dtype, refusals."""

import itertools

import pytest
from joinery.promotion import RESULT_RULES, DType, InternalError, UserError, rules

MAX = rules("max")


def apply(rule, *operands, dtype=None):
    promotion = RESULT_RULES[rule].apply(
        MAX, operands, op="op", dtype=None if dtype is None else DType(dtype)
    )
    return [d.name for d in promotion.casts], promotion.result.name


@pytest.mark.parametrize(
    ("rule", "operands", "casts", "result"),
    [
        ("JOIN", ("int8", "uint8"), ["int16", "int16"], "int16"),
        ("JOIN", ("int8", 5), ["int8", "int8"], "int8"),
        ("JOIN", ("bool", "bool"), ["bool", "bool"], "bool"),
        ("JOIN_FLOAT", ("int32",), ["float32"], "float32"),
        ("JOIN_FLOAT", ("bool",), ["float32"], "float32"),
        ("JOIN_FLOAT", ("int32", "int64"), ["float32", "float32"], "float32"),
        ("JOIN_FLOAT", ("int32", "float16"), ["float16", "float16"], "float16"),
        ("JOIN_FLOAT", ("bfloat16",), ["bfloat16"], "bfloat16"),
        ("JOIN_FLOAT", ("int8", 300), ["float32", "float32"], "float32"),
        ("JOIN_FLOAT", (1, 2), ["float32", "float32"], "float32"),
        ("JOIN_TO_BOOL", ("uint32", "int32"), ["int64", "int64"], "bool"),
        ("JOIN_TO_BOOL", ("float16", 0.5), ["float16", "float16"], "bool"),
        ("BOOL_ONLY", ("bool", "bool"), ["bool", "bool"], "bool"),
        ("BOOL_ONLY", ("bool", True), ["bool", "bool"], "bool"),
        ("INTEGER_JOIN", ("int8", "uint16"), ["int32", "int32"], "int32"),
        ("INTEGER_JOIN", ("bool", "bool"), ["bool", "bool"], "bool"),
        ("INTEGER_JOIN", ("uint8", 3), ["uint8", "uint8"], "uint8"),
        ("SAME", ("float8_e5m2",), ["float8_e5m2"], "float8_e5m2"),
        ("SAME", ("float16", "int32"), ["float16", "int32"], "float16"),
        ("SELECT", ("bool", "float16", 0.0), ["bool", "float16", "float16"], "float16"),
        ("SELECT", ("bool", "int8", "uint8"), ["bool", "int16", "int16"], "int16"),
        ("ACCUMULATE", ("bool",), ["int64"], "int64"),
        ("ACCUMULATE", ("int8",), ["int64"], "int64"),
        ("ACCUMULATE", ("uint8",), ["uint64"], "uint64"),
        ("ACCUMULATE", ("index",), ["uint64"], "uint64"),
        ("ACCUMULATE", ("float16",), ["float16"], "float16"),
        ("MEAN", ("int64",), ["float32"], "float32"),
        ("MEAN", ("float64",), ["float64"], "float64"),
    ],
)
def test_rules(rule, operands, casts, result):
    assert apply(rule, *operands) == (casts, result)


def test_explicit_dtypes():
    assert apply("EXPLICIT", "float32", dtype="int8") == (["float32"], "int8")
    assert apply("ACCUMULATE", "int8", dtype="int32") == (["int32"], "int32")
    assert apply("MEAN", "int8", dtype="float64") == (["float64"], "float64")
    with pytest.raises(InternalError, match="none was given"):
        apply("EXPLICIT", "float32")
    with pytest.raises(InternalError, match="no operands"):
        apply("JOIN")


@pytest.mark.parametrize(
    ("rule", "operands", "message"),
    [
        ("JOIN", ("float8_e5m2", "int8"), r"op\(float8_e5m2, int8\): no join .* fix: cast"),
        ("JOIN", ("int8", 300), "op: literal 300 does not fit int8"),
        ("JOIN_TO_BOOL", ("uint8", -1), "op: literal -1 does not fit uint8"),
        ("BOOL_ONLY", ("bool", "int8"), r"op\(bool, int8\): operand 1 must be bool; fix: compare"),
        ("BOOL_ONLY", ("bool", 1), "operand 1 must be bool"),
        ("INTEGER_JOIN", ("int8", "float32"), "operand 1 must be bool or integer, not float32; fix: .cast"),
        ("INTEGER_JOIN", ("int8", 1.5), "operand 1 must be bool or integer"),
        ("INTEGER_JOIN", ("int64", "uint64"), "join in float16, which has no bits.*int64 or both to uint64"),
        ("SELECT", ("int8", "int8", "int8"), "condition must be bool"),
    ],
)
def test_refusals(rule, operands, message):
    with pytest.raises(UserError, match=message):
        apply(rule, *operands)


def test_join_float_is_consistent_with_join():
    """Division meets where addition meets, except that integers leave for the default float."""
    for a, b in itertools.product(MAX.dtypes, repeat=2):
        _, joined = apply("JOIN", a, b)
        _, divided = apply("JOIN_FLOAT", a, b)
        assert divided == (joined if DType(joined).is_float else "float32")


def test_rules_are_named():
    assert repr(RESULT_RULES["JOIN"]) == "JOIN"
    assert all(rule.name == name and rule.summary for name, rule in RESULT_RULES.items())
