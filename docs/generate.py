"""Writes docs/ops.md and docs/promotion.md from the op table, the public functions and the rule set.

python docs/generate.py            writes the two pages
python docs/generate.py --check    writes nothing; exit status 1 when a page is out of date
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph import ops_elementwise, ops_structural
from joinery.graph.functions.exports import EXPORTS
from joinery.graph.opdef import CONTRACT, INDEXED, POSITION, OpDef
from joinery.graph.ops import OPS
from joinery.promotion import DTYPES, RESULT_RULES, ResultRule, loss_class, loss_example
from joinery.promotion.literals import is_scalar
from joinery.promotion.result_rules import JOIN_FLOAT, MEAN

DOCS = Path(__file__).resolve().parent
NOTE = "<!-- Written by docs/generate.py (make docs) from the code. Do not edit. -->"

GROUPS: tuple[tuple[str, tuple[OpDef, ...]], ...] = (
    ("Arithmetic", ops_elementwise.ARITHMETIC),
    ("Comparison", ops_elementwise.COMPARISONS),
    ("Logic, bits, selection", ops_elementwise.LOGIC),
    ("Functions of one tensor", ops_elementwise.UNARY),
    ("Type", ops_elementwise.TYPE_CHANGES),
    ("Activations", ops_elementwise.ACTIVATIONS),
    ("Reductions", ops_structural.REDUCTIONS),
    ("Scans", ops_structural.SCANS),
    ("Contraction", ops_structural.CONTRACTIONS),
    ("Views", ops_structural.VIEWS),
    ("Joining and padding", ops_structural.JOINS),
    ("Indexing", ops_structural.INDEXING),
    ("Composites", ops_structural.COMPOSITES),
    ("Sources", ops_structural.SOURCES),
    ("Approximations inside composites", ops_elementwise.APPROXIMATE),
)

# How a row is reached when its public name is another one.
BUILT_BY = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "slice": "slice_tensor",
    "input": "Graph.input",
    "constant": "Graph.constant",
    "weight": "Graph.weight",
    "dim_value": "Graph.dim_value",
}

OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^",
    "lshift": "<<", "rshift": ">>", "neg": "-x", "abs": "abs(x)", "invert": "~",
}  # fmt: skip

# NumPy's function of the same meaning, where it is called otherwise; and names that mean something else in NumPy.
NUMPY_OTHERWISE = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "floor_div": "floor_divide", "rem": "fmod", "pow": "power",
    "negate": "negative", "is_nan": "isnan", "bitwise_not": "invert", "shift_left": "left_shift",
    "shift_right": "right_shift", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "cast": "astype",
    "reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min", "permute": "transpose",
    "concat": "concatenate", "gather": "take", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "is_inf": "isinf", "is_finite": "isfinite", "stdev": "std",
    "unsqueeze": "expand_dims", "flatten": "ravel", "repeat_interleave": "repeat", "transpose": "swapaxes",
}  # fmt: skip
NUMPY_FALSE_FRIENDS = frozenset(("split",))

SHAPES = {
    "elementwise": "broadcast",
    "same": "as x",
    "given": "as given",
    "reduction": "axes removed, or 1",
    "arg_reduction": "axis removed, or 1",
    "along_axis": "as x",
    "matmul": "(…, M, K) @ (…, K, N) → (…, M, N)",
    "reshape": "as given, same size",
    "permute": "axes reordered",
    "broadcast_to": "as given",
    "slicing": "ceil((stop - start) / step)",
    "flip": "as x",
    "concat": "sum along axis",
    "pad": "low + n + high",
    "gather": "axis → shape of indices",
    "take_along_axis": "as indices",
    "normalization": "as x",
}
KINDS = ("bool", "int", "uint", "float")


# --- Markdown


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def prose(text: str) -> str:
    """A docstring as Markdown: its `Args:` and `Attributes:` become lists, the rest stays."""
    lines = inspect.cleandoc(text).split("\n")
    out: list[str] = []
    listing = False
    for line in lines:
        if re.fullmatch(r"(Args|Attributes|Raises|Returns):", line):
            listing = True
            continue
        if listing and (entry := re.match(r"    ([\w, *]+): (.*)", line)):
            out.append(f"- `{entry[1]}`: {entry[2]}")
        elif listing and line.startswith("    "):
            out.append("  " + line.strip())
        else:
            listing = listing and not line
            out.append(line)
    return "\n".join(out)


def signature(function: Any, name: str) -> str:
    """`name(x, axis=None)`: parameters with their defaults, without annotations and `self`."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]
    text = str(inspect.Signature(parameters))
    return name + re.sub(r'DType\("(\w+)"\)', r"\1", text)


# --- docs/ops.md


def public_name(row: OpDef) -> str:
    return BUILT_BY.get(row.name, row.name)


def function_of(name: str) -> Any:
    value: Any = jn
    for part in name.split("."):
        value = getattr(value, part)
    return value


def kinds(row: OpDef) -> str:
    """Kinds of dtype the row computes with, after promotion."""
    if row.kind == "source":
        return "–"
    if "any_dtype" in row.traits and not row.emit:
        return "all"
    if row.promote in (JOIN_FLOAT, MEAN):
        return "float"
    accepted = [
        kind
        for kind in KINDS
        if any(d.kind == kind and d.has_arithmetic and row.accepts(d) for d in DTYPES.values())
    ]
    return " ".join(accepted) + (" + stored" if "any_dtype" in row.traits else "")


def numpy_name(name: str) -> str:
    """The NumPy function of the same meaning, or ""."""
    found = NUMPY_OTHERWISE.get(name, name)
    return found if name not in NUMPY_FALSE_FRIENDS and callable(getattr(np, found, None)) else ""


def facts(row: OpDef) -> list[str]:
    operator = OPERATORS[row.dunder] if row.dunder else ""
    onnx = f"{row.onnx[0]} ({row.onnx[1]})" if row.onnx else "–"
    like = numpy_name(row.name)
    shape = "as x" if row.arity == 1 and row.shape.__name__ == "elementwise" else SHAPES[row.shape.__name__]
    rounds = "any_dtype" not in row.traits or "rounding" in row.attrs
    floats = rounds and "float" in kinds(row) and row.promote.name not in ("JOIN_TO_BOOL", "POSITION")
    return [
        f"`{row.name}`",
        f"`{operator}`" if operator else "",
        kinds(row),
        row.promote.name,
        shape,
        f"`{like}`" if like else "–",
        onnx,
        f"{row.ulp:g}" if floats else "–",
    ]


HEADER = ("op", "operator", "computes with", "result", "shape", "NumPy", "ONNX (version)", "ulp")


def definition(row: OpDef) -> str:
    name = public_name(row)
    if "internal" in row.traits:
        return f"**`{row.name}`**: {row.doc}"
    function = function_of(name)
    text = f"**`{signature(function, name)}`**" + (f" builds `{row.name}`" if name != row.name else "")
    generated = row.kind == "map" and not row.attrs  # these functions say no more than their row
    body = row.doc if generated else prose(function.__doc__ or "")
    return f"{text}:\n{body}"


def sugar() -> list[tuple[str, list[str]]]:
    """Public functions that are no row of their own, by the module they live in."""
    covered = {public_name(row) for row in OPS.values()}
    modules: dict[str, list[str]] = {}
    for name, place in EXPORTS.items():
        if name not in covered:
            modules.setdefault(place.split(":")[0].rpartition(".")[2], []).append(name)
    return list(modules.items())


OPS_INTRO = """# Operations

Every operation of a graph is a row of the op table (`graph/ops.py`). The columns:

- **computes with**: kinds of dtype *after* promotion (`int` is signed; `uint` includes index and address; `float` is float16,
  bfloat16, float32, tensor_float32 and float64). Rows of the rules JOIN_FLOAT and MEAN take bools and integers too: they become
  float32 first. "all" and "+ stored" include the types that are not computed with: 8-bit and smaller floats, 4-bit and smaller
  integers, complex.
- **result**: the rule that decides operand casts and the result dtype; see [promotion](promotion.md#result-rules).
- **shape**: "broadcast" is NumPy's rule; a symbolic size is never taken for 1, and sizes that cannot be proven equal are
  an error or a check at launch, never a guess.
- **NumPy**: the function of the same meaning. Dtypes follow joinery's promotion, not NumPy's.
- **ONNX**: the operator of the same meaning and the first version of it that means the same.
- **ulp**: the largest error of compiled code in units in the last place of the result dtype; 0.5 is correctly rounded.

Operands are symbols, NumPy arrays (strong: they promote) or Python scalars (weak: they take the tensor's dtype where their
kind allows it). Integers wrap. Division by zero, shifts beyond the width and conversions out of range are defined and never
trap. Mistakes raise `UserError` at the line that made them.
"""

SUGAR_INTRO = """## Functions made of several operations

These build other operations and cost no kernel of their own: what they build is fused like everything else.
"""


def ops_page() -> str:
    listed = [row.name for _, rows in GROUPS for row in rows]
    if sorted(listed) != sorted(OPS):
        raise SystemExit(f"docs/generate.py: GROUPS and OPS differ in {sorted(set(listed) ^ set(OPS))}")
    parts = [NOTE, OPS_INTRO.strip()]
    for title, rows in GROUPS:
        parts += [f"## {title}", table(HEADER, map(facts, rows)), *map(definition, rows)]
    parts.append(SUGAR_INTRO.strip())
    for module, names in sugar():
        parts.append(f"### {module.capitalize()}")
        for name in names:
            function = function_of(name)
            like = numpy_name(name)
            alike = f" (NumPy: `{like}`)" if like else ""
            parts.append(f"**`{signature(function, name)}`**{alike}:\n{prose(function.__doc__ or '')}")
    return "\n\n".join(parts) + "\n"


# --- docs/promotion.md

RULE_SET = "max"
OUTSIDE_THE_TABLE: dict[str, tuple[str, ...]] = {"ACCUMULATE": ("sum", "prod", "cumsum")}
"""Rules that public functions apply before they build a row."""

LITERAL_EXAMPLES: tuple[tuple[Any, ...], ...] = (
    ("int8", 1), ("uint8", True), ("bool", True), ("float16", 1), ("float16", 0.1), ("bool", 1), ("int8", 1.5),
    ("uint64", 1.5), ("index", 1), (1, 2.5), (True, 1), ("int8", 300), ("uint8", -1), ("float16", 1e30), ("float32", 1j),
)  # fmt: skip

PROMOTION_INTRO = """# Promotion

Rule set `{name}`: {description}.

`joinery.promotion.rules("{name}")` is this page as an object: `join`, `promote`, `explain`, `table`, `laws`. On the command
line: `joinery promote int8 float32`, `joinery table`.

The dtype two operands meet in is their least upper bound in a partial order of dtypes. The order is given by its covering
edges; everything else on this page is derived from them. Types outside the table join with themselves only; cast them
explicitly.
"""


def edges(rules: jn.promotion.RuleSet) -> str:
    assert rules.lattice is not None
    rows = []
    for smaller, larger in rules.lattice.edges:
        loss = loss_class(smaller, larger)
        rows.append([smaller.name, larger.name, loss, loss_example(smaller, larger) or "–"])
    return table(("smaller", "larger", "a cast is", "for example"), rows)


def losses(rules: jn.promotion.RuleSet) -> str:
    """Implicit casts that can lose something, each with the operands it happens for."""
    found: dict[tuple[jn.DType, jn.DType], list[str]] = {}
    for a, b in itertools.product(rules.dtypes, repeat=2):
        target = rules.join(a, b)
        if loss_class(a, target) != "exact":
            found.setdefault((a, target), []).append(b.name)
    rows = [
        [a.name, target.name, loss_class(a, target), loss_example(a, target), ", ".join(others)]
        for (a, target), others in found.items()
    ]
    return table(("operand", "becomes", "loss", "for example", "when it meets"), rows)


def written(operand: Any) -> str:
    return repr(operand) if is_scalar(operand) else str(operand)


def literals(rules: jn.promotion.RuleSet) -> str:
    rows = []
    for operands in LITERAL_EXAMPLES:
        try:
            outcome = rules.promote(*operands).name
        except jn.UserError as error:
            outcome = f"error: {error}"
        rows.append([f"`{' ∨ '.join(map(written, operands))}`", outcome])
    return table(("operands", "dtype"), rows)


def result_rules() -> str:
    known: dict[str, ResultRule] = {
        **RESULT_RULES,
        **{rule.name: rule for rule in (CONTRACT, POSITION, INDEXED)},
    }
    users: dict[str, list[str]] = {
        name: [f"`{op}`" for op in OUTSIDE_THE_TABLE.get(name, ())] for name in known
    }
    for row in OPS.values():
        users[row.promote.name].append(f"`{row.name}`")
    return table(
        ("rule", "meaning", "operations"),
        ([name, rule.summary, ", ".join(users[name])] for name, rule in known.items()),
    )


def promotion_page() -> str:
    rules = jn.promotion.rules(RULE_SET)
    ladder = ", ".join(
        f"{kind}s {', then '.join(d.name for d in dtypes)}"
        for kind, dtypes in (("integer", rules.literals.integers), ("float", rules.literals.floats))
    )
    parts = [
        NOTE,
        PROMOTION_INTRO.format(name=rules.name, description=rules.description).strip(),
        "## The join table",
        rules.table().to_markdown(),
        "## Covering edges",
        edges(rules),
        "## Laws\n\nChecked over all cases whenever the rule set is made:",
        "```\n" + str(rules.laws()) + "\n```",
        "## Joins that can lose values\n\nAllowed by policy `lattice` (and listed by `Graph.casts`), refused by `exact`:",
        losses(rules),
        "## Literals\n\nPython scalars are weak. A scalar whose kind (bool < integer < float < complex) is not above the "
        "tensor's takes the\ntensor's dtype, and its value must fit there; a float that only needs rounding is rounded. A "
        f"scalar of a higher kind first\ntakes its default dtype ({ladder}), which then joins with\nthe "
        "tensor's. NumPy arrays and scalars are strong.",
        literals(rules),
        "## Result rules\n\nEvery operation names one rule; no operation consults the table in its own way.",
        result_rules(),
    ]
    return "\n\n".join(parts) + "\n"


PAGES = {"ops.md": ops_page, "promotion.md": promotion_page}


def stale(folder: Path = DOCS) -> list[str]:
    """Names of the pages whose files differ from what the code says."""
    return [
        name
        for name, page in PAGES.items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != page()
    ]


def main(argv: Sequence[str]) -> int:
    if argv not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    outdated = stale()
    if argv:
        for name in outdated:
            print(f"docs/{name} is out of date; fix: make docs")
        return bool(outdated)
    for name in outdated:
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
