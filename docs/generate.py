"""Writes docs/ops.md, docs/promotion.md and docs/promotion/ from the op table, the public functions and the rule sets.

python docs/generate.py            writes the pages and pictures
python docs/generate.py --check    writes nothing; exit status 1 when a page is out of date
"""

from __future__ import annotations

import inspect
import itertools
import re
import runpy
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.functions.names.exports import EXPORTS
from joinery.graph.ops import control as ops_control
from joinery.graph.ops import elementwise as ops_elementwise
from joinery.graph.ops import host as ops_host
from joinery.graph.ops import host_control as ops_host_control
from joinery.graph.ops import lookups as ops_lookups
from joinery.graph.ops import quantization as ops_quantization
from joinery.graph.ops import structural as ops_structural
from joinery.graph.ops.complex import fourier as ops_fourier
from joinery.graph.ops.complex import parts as ops_complex_parts
from joinery.graph.ops.opdef import CONTRACT, INDEXED, POSITION, SCATTERED, OpDef
from joinery.graph.ops.table import OPS
from joinery.promotion import DTYPES, PRESETS, RESULT_RULES, ResultRule, loss_class, loss_example
from joinery.promotion.drawing.hasse import to_svg
from joinery.promotion.literals import is_scalar
from joinery.promotion.result_rules import JOIN_FLOAT, MEAN

DOCS = Path(__file__).resolve().parent
ERRORS = runpy.run_path(str(DOCS / "measured_errors.py"))
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
    ("In order", ops_structural.ORDERED),
    ("Composites", ops_structural.COMPOSITES),
    ("Looking up", ops_lookups.ROWS),
    ("Complex numbers", (*ops_complex_parts.ROWS, *ops_fourier.ROWS)),
    ("Codes of few bits", ops_quantization.ROWS),
    ("On the host: strings", ops_host.STRINGS),
    ("On the host: sizes from data", ops_host.DATA_SIZED),
    ("Loops and branches", (*ops_host_control.ROWS, *ops_control.ROWS)),
    ("Sources", ops_structural.SOURCES),
    ("Approximations inside composites", ops_elementwise.PARTS),
)

# Row → its public name, where that differs.
BUILT_BY = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "slice": "slice_tensor",
    "input": "Graph.input",
    "text_constant": "Graph.constant",
    "constant": "Graph.constant",
    "weight": "Graph.weight",
    "dim_value": "Graph.dim_value",
}

OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^",
    "lshift": "<<", "rshift": ">>", "neg": "-x", "abs": "abs(x)", "invert": "~",
}  # fmt: skip

# NumPy's function of the same meaning, where its name differs; and names that mean something else in NumPy.
NUMPY_OTHERWISE = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "floor_div": "floor_divide", "rem": "fmod", "pow": "power",
    "negate": "negative", "is_nan": "isnan", "bitwise_not": "invert", "shift_left": "left_shift",
    "shift_right": "right_shift", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "cast": "astype",
    "reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min", "permute": "transpose",
    "concat": "concatenate", "gather": "take", "asinh": "arcsinh", "atan2": "arctan2",
    "acosh": "arccosh", "atanh": "arctanh", "is_inf": "isinf", "is_finite": "isfinite", "stdev": "std",
    "unsqueeze": "expand_dims", "flatten": "ravel", "repeat_interleave": "repeat", "transpose": "swapaxes",
}  # fmt: skip
NUMPY_FALSE_FRIENDS = frozenset(("split", "resize"))

# What the functions of `graph/ops/shape.py` that several rows share, or that need words, give.
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
    "windows": "axis → counts, + sizes",
    "concat": "sum along axis",
    "pad": "low + n + high",
    "gather": "axis → shape of indices",
    "take_along_axis": "as indices",
    "normalization": "as x",
    "scatter": "as x",
    "sorted_keys": "(…, n) → (…, 2, n)",
    "top": "axis → k",
    "_search_shape": "as the values",
    "_gather_shape": "indices[:-1] + x[batch_dims + depth:]",
    "_parameters": "as x",
}
KINDS = ("bool", "int", "uint", "float")


# --- Markdown


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Formats a Markdown table; bars inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def prose(text: str) -> str:
    """Converts a docstring to Markdown: its `Args:` and `Attributes:` become lists, an `Example:` a block, the rest stays."""
    text, _, example = inspect.cleandoc(text).partition("\nExample:\n")
    lines = text.split("\n")
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
    if example:
        out += ["```pycon", *[line.removeprefix("    ") for line in example.split("\n")], "```"]
    return "\n".join(out)


def signature(function: Any, name: str) -> str:
    """Formats `name(x, axis=None)`: parameters with their defaults, without annotations and `self`."""
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
        if not hasattr(value, part):
            raise SystemExit(
                f"docs/generate.py: there is no joinery.{name}; fix: call row and function alike, name the function in "
                "exports.py, or say in BUILT_BY which function builds the row"
            )
        value = getattr(value, part)
    return value


def kinds(row: OpDef) -> str:
    """Lists the kinds of dtype that the row computes with, after promotion."""
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
    """Returns the NumPy function of the same meaning, or ""."""
    found = NUMPY_OTHERWISE.get(name, name)
    return found if name not in NUMPY_FALSE_FRIENDS and callable(getattr(np, found, None)) else ""


def facts(row: OpDef) -> list[str]:
    operator = OPERATORS[row.dunder] if row.dunder else ""
    onnx = f"{row.onnx[0]} ({row.onnx[1]})" if row.onnx else "–"
    like = numpy_name(row.name)
    shape = "as x" if row.arity == 1 and row.shape.__name__ == "elementwise" else SHAPES.get(row.shape.__name__, "see below")
    return [
        f"`{row.name}`",
        f"`{operator}`" if operator else "",
        kinds(row),
        row.promote.name,
        shape,
        f"`{like}`" if like else "–",
        onnx,
        ERRORS["error"](row, "float" in kinds(row)),
    ]


HEADER = ("op", "operator", "computes with", "result", "shape", "NumPy", "ONNX (version)", "error")


def definition(row: OpDef) -> str:
    name = public_name(row)
    if "internal" in row.traits:
        return f"**`{row.name}`**: {row.doc}"
    function = function_of(name)
    text = f"**`{signature(function, name)}`**" + (f" builds `{row.name}`" if name != row.name else "")
    generated = row.kind == "map" and not row.attrs  # docstrings of these functions repeat their row
    body = row.doc if generated else prose(function.__doc__ or "")
    return f"{text}:\n{body}"


def sugar() -> list[tuple[str, list[str]]]:
    """Returns the public functions that have no row of their own, by their module."""
    covered = {public_name(row) for row in OPS.values()}
    modules: dict[str, list[str]] = {}
    for name, place in EXPORTS.items():
        if name not in covered:
            modules.setdefault(place.split(":")[0].rpartition(".")[2], []).append(name)
    return list(modules.items())


OPS_INTRO = """# Operations

Every operation of a graph is a row of the op table (`graph/ops/table.py`). The columns:

- **computes with**: kinds of dtype *after* promotion (`int` is signed; `uint` includes index and address; `float` is float16,
  bfloat16, float32, tensor_float32 and float64). Rows of the rules JOIN_FLOAT and MEAN take bools and integers too: they become
  float32 first. "all" and "+ stored" include the types that are not computed with: 8-bit and smaller floats, 4-bit and smaller
  integers, complex.
- **result**: the rule that decides operand casts and the result dtype; see [promotion](promotion.md#result-rules).
- **shape**: "broadcast" is NumPy's rule; a symbolic size is never taken for 1, and sizes that cannot be proven equal are
  an error or a check at launch, never a guess. "see below": this operation alone has such a shape, and its text says which.
- **kind `host`**: computed on the host between compiled parts, because values decide a size of the result, or because it takes
  strings (tensors of dtype `string`: NumPy arrays of `str` objects). `jn.compile` makes a staged model of a graph with such an
  operation, for the CPU; GPUs refuse it. A size that values decide has a name, and is used like others.
- **kind `control`**: runs regions, graphs inside the graph, of which `while_loop`, `fori_loop`, `scan` and `cond` make it
  ([design](design/019-control-flow.md)). Compiled for the CPU; GPUs refuse it.
- **NumPy**: the function of the same meaning. Dtypes follow joinery's promotion, not NumPy's.
- **ONNX**: the operator of the same meaning and its first such version. **error**: of compiled code, [see below](#errors).

Operands are symbols, NumPy arrays (strong: they promote) or scalars of Python or NumPy (weak: they take the tensor's dtype
where their kind allows it; rule set "numpy" takes NumPy scalars for strong; where a condition selects between two scalars,
those of NumPy are strong unless they are of its default dtypes). Integers wrap. Division by zero, shifts beyond the width and
conversions out of range are defined and never trap. Mistakes raise `UserError` at the line that made them.
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
    parts += [ERRORS["INTRO"].strip(), table(ERRORS["HEADER"], ERRORS["measured"]())]
    return "\n\n".join(parts) + "\n"


# --- docs/promotion.md and docs/promotion/*.md

OUTSIDE_THE_TABLE: dict[str, tuple[str, ...]] = {"ACCUMULATE": ("sum", "prod", "cumsum", "cumprod")}
"""Rules that public functions apply before they build a row."""

LITERAL_EXAMPLES: tuple[tuple[Any, ...], ...] = (
    ("int8", 1), ("uint8", True), ("bool", True), ("float16", 1), ("float16", 0.1), ("bool", 1), ("int8", 1.5),
    ("uint64", 1.5), ("index", 1), (1, 2.5), (True, 1), ("int8", 300), ("uint8", -1), ("float16", 1e30), ("float32", 1j),
)  # fmt: skip

TELLING_PAIRS = (
    ("int8", "uint8"), ("int32", "uint32"), ("int64", "uint64"), ("uint8", "float16"), ("int32", "bfloat16"),
    ("int64", "float32"), ("float16", "bfloat16"), ("float32", "tensor_float32"), ("bool", "index"), ("index", "bool"),
    ("float8_e4m3fn", "float8_e5m2"), ("float8_e4m3fn", "float16"),
)  # fmt: skip

NOT_JOINS = {
    "div": ("int8", "int32", "int64"),
    "sqrt": ("int8", "int32", "int64"),
    "sum": ("bool", "int8", "uint8", "float16"),
    "mean": ("int8", "int32", "float16"),
}
"""Operations whose result is not the join, and the dtypes that they are shown for."""

PROMOTION_INTRO = """# Promotion

Which dtype do operands of different dtypes meet in? A **rule set** answers: a small data file, from which all tables here are
derived. `joinery.promotion.rules(name)` is a rule set as an object (`join`, `promote`, `explain`, `table`, `laws`, `diff`);
`Graph(..., semantics=name)` builds with it. Types outside a table join with themselves only; cast them explicitly.
On the command line: `joinery promote int8 uint64 --all`, `joinery table --rules jax`, `joinery diff max jax`.

Why they are what they are: [design note](design/003-promotion.md). How to use them: [tutorial](tutorials/02-promotion.md)."""

COMPARED = """*Differs from max* counts pairs, in either order, of dtypes that both tables have. *Loses values* counts the cells
in which the cast of an operand is not exact. The laws are those of a join-semilattice, checked over all elements, pairs and
triples: a number says how many cases fail. A triple is associative when both groupings give the same dtype or both have no
join, so gaps count too. *Associative by operators* is about (a + b) + c and a + (b + c), where the value in between has a
dtype: what `promote(a, b, c)` and `concat` join at once may be associative where a chain of operators is not, as in `exact`."""

LITERALS = """Python scalars are weak. A scalar whose kind (bool < integer < float < complex) is not above the tensor's takes
the tensor's dtype, and its value must fit there; a float that only needs rounding is rounded. A scalar of a higher kind first
takes the first dtype that holds it among those of the rule set ({ladder}), and that dtype joins with the
tensor's. {numpy}"""

WEAK_LITERALS = """Python scalars are the weak elements of the table: an integer is weak_int, a float weak_float, a complex
number weak_complex, and they join as the table says. A value that ends in one has a dtype: {weak}.
The scalar must fit the dtype it ends in; a float that only needs rounding is rounded. {numpy}"""

NUMPY_SCALARS = {
    "weak": "NumPy scalars are weak like Python scalars; NumPy arrays are strong, of rank 0 too.",
    "strong": "NumPy scalars and arrays are strong.",
}

ADDED = """## Open choices

The order alone is no semilattice: for the operands below several dtypes are smallest among those that hold both. Its completion
adds an element for every such choice, which stays open while further operands join and ends in the first:"""


def made_from(rules: jn.promotion.RuleSet) -> str:
    definition = rules.definition
    by = {"table": definition.cells, "ordered rules": definition.steps, "value sets": definition.order}
    return next((way for way, data in by.items() if data), "covering edges")


def ladders(rules: jn.promotion.RuleSet) -> list[str]:
    """Returns the dtypes of Python integers and of Python floats."""
    return [", then ".join(map(str, dtypes)) for dtypes in (rules.literals.integers, rules.literals.floats)]


def presets() -> str:
    rows = []
    for name in PRESETS:
        rules = jn.promotion.rules(name)
        facts = [f"[{name}](promotion/{name}.md)", rules.source, str(len(rules.dtypes)), made_from(rules)]
        rows.append([*facts, rules.division, *ladders(rules), "yes" if rules.lattice is not None else "no"])
    return table(("name", "source", "dtypes", "made from", "`//`, `%`", "integer literals", "float literals", "lattice"), rows)


def lossy(rules: jn.promotion.RuleSet) -> list[tuple[tuple[jn.DType, jn.DType], jn.DType, jn.DType, jn.DType]]:
    """Lists (cell, operand, its new dtype, other operand) where the cast can lose values; weak operands have no values."""
    found = []
    for (a, b), join in rules.table().cells.items():
        for operand, other in dict.fromkeys(((a, b), (b, a))):
            target = operand if join is None or operand.is_abstract else rules.concrete(join)
            if loss_class(operand, target) != "exact":
                found.append(((a, b), operand, target, other))
    return found


def compared() -> str:
    """Counts for every preset pairs that differ from max, gaps, losses, and failures of each law."""
    reference = jn.promotion.rules("max")
    rows = []
    for name in PRESETS:
        rules = jn.promotion.rules(name)
        shared = sum(dtype in rules.dtypes for dtype in reference.dtypes)
        differing = len({frozenset((found.lhs, found.rhs)) for found in reference.diff(rules)})
        cells = rules.table().cells
        gaps = sum(join is None for join in cells.values())
        losing = len({cell for cell, *_ in lossy(rules)})
        laws = [str(law.failures) for law in rules.laws()]
        pairs = shared * (shared + 1) // 2
        rows.append([name, f"{differing} of {pairs}", f"{gaps} of {len(cells)}", str(losing), *laws])
    return table(("rule set", "differs from max", "no join", "loses values", *(law.name for law in reference.laws())), rows)


def telling_pairs() -> str:
    pairs = [(jn.DType(a), jn.DType(b)) for a, b in TELLING_PAIRS]
    rows = []
    for name in PRESETS:
        cells = jn.promotion.rules(name).table().cells
        rows.append([name, *(shown(cells.get(pair)) for pair in pairs)])
    return table(("rule set", *(f"{a} ∨ {b}" for a, b in pairs)), rows)


def shown(dtype: jn.DType | None) -> str:
    return "–" if dtype is None else dtype.name


def not_joins(names: Iterable[str]) -> str:
    """Shows what operations that do not simply join return, by rule set; every operand has the dtype shown."""
    columns = [(op, jn.DType(dtype)) for op, dtypes in NOT_JOINS.items() for dtype in dtypes]
    rows = ([name, *(outcome(jn.promotion.rules(name), op, dtype) for op, dtype in columns)] for name in names)
    return table(("rule set", *(f"`{op}` of {dtype}" for op, dtype in columns)), rows)


def outcome(rules: jn.promotion.RuleSet, op: str, dtype: jn.DType) -> str:
    operands = (dtype, dtype) if op == "div" else (dtype,)
    try:
        return jn.result_type(op, *operands, rules=rules).name if dtype in rules.dtypes else "–"
    except jn.UserError:
        return "–"


def edges(rules: jn.promotion.RuleSet) -> str:
    rows = []
    for (smaller, larger), loss in rules.losses().items():
        example = "–" if loss == "exact" else loss_example(rules.concrete(smaller), rules.concrete(larger))
        rows.append([smaller.name, larger.name, loss, example])
    return table(("smaller", "larger", "a cast is", "for example"), rows)


def losses(rules: jn.promotion.RuleSet) -> str:
    """Lists implicit casts that can lose values, each with the operands for which it happens."""
    found: dict[tuple[jn.DType, jn.DType], dict[str, None]] = {}
    for _, operand, target, other in lossy(rules):
        found.setdefault((operand, target), {})[other.name] = None
    rows = [
        [a.name, target.name, loss_class(a, target), loss_example(a, target), ", ".join(others)]
        for (a, target), others in found.items()
    ]
    return table(("operand", "becomes", "loss", "for example", "when it meets"), rows) if rows else "None."


def written(operand: Any) -> str:
    return repr(operand) if is_scalar(operand) else str(operand)


def literals(rules: jn.promotion.RuleSet) -> str:
    rows = []
    for operands in LITERAL_EXAMPLES:
        names = [jn.DType(operand) for operand in operands if isinstance(operand, str)]
        if any(dtype not in rules.dtypes for dtype in names):
            continue
        try:
            outcome = rules.promote(*operands).name
        except jn.UserError as error:
            outcome = f"error: {error}"
        rows.append([f"`{' ∨ '.join(map(written, operands))}`", outcome])
    return table(("operands", "dtype"), rows)


def literal_rules(rules: jn.promotion.RuleSet) -> str:
    if rules.weak:
        weak = ", ".join(f"{element} becomes {dtype}" for element, dtype in rules.weak.items())
        return WEAK_LITERALS.format(weak=weak, numpy=NUMPY_SCALARS[rules.numpy_scalars])
    kinds = ("integers", "floats", "complex numbers")
    complexes = [", then ".join(d.name for d in rules.literals.complexes) or "none"]
    text = LITERALS.format(
        ladder="; ".join(f"{kind}: {names}" for kind, names in zip(kinds, ladders(rules) + complexes, strict=True)),
        numpy=NUMPY_SCALARS[rules.numpy_scalars],
    )
    special = [
        f"{dtype} with {'an' if kind == 'int' else 'a'} {kind} literal {'has no join' if result is None else f'is {result}'}"
        for (dtype, kind), result in rules.literals.cells.items()
    ]
    return f"{text} Special cases: {'; '.join(special)}." if special else text


def result_rules() -> str:
    known: dict[str, ResultRule] = {
        **RESULT_RULES,
        **{rule.name: rule for rule in (CONTRACT, POSITION, INDEXED, SCATTERED)},
        **{
            row.promote.name: row.promote
            for row in (*ops_host.ROWS, *ops_host_control.ROWS, *ops_control.ROWS, *ops_lookups.ROWS, *ops_complex_parts.ROWS,
                        *ops_fourier.ROWS)
        },
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
    parts = [
        NOTE,
        PROMOTION_INTRO,
        "## Rule sets",
        presets(),
        "## How they compare\n\n" + COMPARED,
        compared(),
        "The pairs in which they differ most tellingly (– where there is no join):",
        telling_pairs(),
        "## Result rules\n\nEvery operation names one rule; no operation consults a table in its own way.",
        result_rules(),
        "What these rules return depends on the rule set where they do more than join:",
        not_joins(PRESETS),
    ]
    return "\n\n".join(parts) + "\n"


def origin(rules: jn.promotion.RuleSet) -> list[str]:
    """Shows how the joins are defined: ordered rules, covering edges or value sets; nothing for a table."""
    definition = rules.definition
    if definition.steps:
        listed = []
        for place, step in enumerate(definition.steps, 1):
            listed.append(f"{place}. **{step.rule}**: {step.text}.")
            for members, result in step.sets:
                listed.append(f"   - {', '.join(d.name for d in rules.dtypes if d in members)} meet in {result}.")
        return ["## Ordered rules\n\nThe first rule that applies decides:", "\n".join(listed)]
    if rules.lattice is None:
        return []
    if not definition.order:
        return ["## Covering edges", edges(rules)]
    never = ", ".join(dtype.name for dtype in definition.never_above)
    order = "One dtype is below another when every value of it is a value of the other. Edges to added elements are not shown."
    return [
        f"## Covering edges\n\n{order}\nBy decision nothing else promotes to {never}.",
        edges(rules),
        ADDED,
        open_choices(rules),
    ]


def open_choices(rules: jn.promotion.RuleSet) -> str:
    """Lists the pairs that a completion leaves open, by the dtypes that they may become."""
    rows: dict[tuple[jn.DType, ...], list[str]] = {}
    for a, b in itertools.combinations(rules.dtypes, 2):
        if bounds := rules.bounds(a, b):
            rows.setdefault(bounds, []).append(f"{a} ∨ {b}")
    cells = ([", ".join(pairs), ", ".join(d.name for d in bounds), bounds[0].name] for bounds, pairs in rows.items())
    return table(("operands", "the smallest that hold both", "alone"), cells)


def errata(rules: jn.promotion.RuleSet) -> list[str]:
    rows = [[f"{e.lhs} ∨ {e.rhs}", *map(shown, (e.printed, e.mirrored, e.reading))] for e in rules.errata()]
    header = ("operands", "printed", "printed for the operands swapped", "the prose means")
    return [] if not rows else ["## Errata\n\nPairs whose two cells contradict each other:", table(header, rows)]


def differences(rules: jn.promotion.RuleSet) -> list[str]:
    if rules.name == "max":
        return []
    found = {(d.lhs, d.rhs): (d.ours, d.theirs) for d in rules.diff(jn.promotion.rules("max"))}
    rows = []
    for (a, b), answers in found.items():
        either = found.get((b, a)) == answers
        if not either or rules.dtypes.index(a) < rules.dtypes.index(b):
            rows.append([f"{a} ∨ {b}", "yes" if either else "no", *map(shown, answers)])
    shared = "Of the dtypes that both have; – where there is no join."
    return [f"## Differences from max\n\n{shared}", table(("operands", "in either order", rules.name, "max"), rows)]


def preset_page(name: str) -> str:
    rules = jn.promotion.rules(name)
    picture = f"![The lattice of {name}, smaller dtypes below]({name}.svg)"
    division = {"floor": "round down, as in Python", "truncate": "round towards zero, as in C"}[rules.division]
    zero_dim = "\n- Tensors of rank 0 count only when their kind is higher than that of all others." if rules.zero_dim else ""
    parts = [
        NOTE,
        f"# Rule set \"{name}\"\n\nOne of the [rule sets](../promotion.md): {rules.description}.",
        f"- Source: {rules.source}.\n- Integer `//` and `%` {division}.{zero_dim}",
        *([picture] if rules.lattice is not None else []),
        "## The join table",
        rules.table().to_markdown(),
        *origin(rules),
        *errata(rules),
        "## Laws\n\nChecked over all cases, with up to three counterexamples:",
        "```\n" + str(rules.laws()) + "\n```",
        "## Joins that can lose values\n\nAllowed by policy `lattice` (and listed by `Graph.casts`), refused by `exact`:",
        losses(rules),
        "## Literals\n\n" + literal_rules(rules),
        literals(rules),
        "## Results that are not the join\n\nSee [result rules](../promotion.md#result-rules); – for dtypes outside the table.",
        not_joins([name]),
        *differences(rules),
    ]
    return "\n\n".join(parts) + "\n"


def picture(name: str) -> str:
    return to_svg(jn.promotion.rules(name)) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "ops.md": ops_page,
    "promotion.md": promotion_page,
    **{f"promotion/{name}.md": partial(preset_page, name) for name in PRESETS},
    **{f"promotion/{name}.svg": partial(picture, name) for name in PRESETS if jn.promotion.rules(name).lattice},
}


def stale(folder: Path = DOCS) -> list[str]:
    """Returns the names of pages whose files differ from what the code generates."""
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
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
