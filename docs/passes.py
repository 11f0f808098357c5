"""Generates the page of passes from the registry, the pipelines of targets, and the attributes of
`lowering/tt/facts.py`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from itertools import pairwise

from joinery.lowering.tt import facts
from joinery.lowering.tt.transforms.function_pass import FunctionPass
from joinery.lowering.tt.transforms.pipelines import TEXTS, TILED
from joinery.lowering.tt.transforms.registry import find_pass, own_passes

INTRO = """# Passes and pipelines

A *pass* changes one function of the block IR. It is a frozen dataclass on xDSL's `ModulePass`, and its fields are its
options. A *pipeline* is a text in xDSL's form: passes in order, with options in braces.

```
inline,canonicalize,expand-descriptors{keep=2,3},cse
```

| to | in Python | in a shell |
| --- | --- | --- |
| list the passes | `joinery.lowering.tt.transforms.registry.pass_names()` | `joinery compile --list-passes` |
| print the pipeline of a target | `k.pipeline("sm_90a")` | `joinery compile k.ttir --target sm_90a --print-pipeline` |
| read the text after one pass | `k.ttir_after("licm")` | `joinery compile k.ttir --after licm` |
| run passes you choose | `k.ttir_through("inline,cse")` | `joinery compile k.ttir --passes inline,cse` |
| compile what they leave | `k.ptx("sm_80", passes="…")` | `joinery compile k.ttir --passes … --emit ptx` |

A pass that stands in a pipeline twice is called `cse` the first time and `cse#2` the second. What is printed is a module
that reads back: a function comes with those that it still calls, which stay as they are."""

OPTIONS = """An option that no function could have, such as `mark-few-pointers{warps=3}`, is refused when the pipeline is read,
and one that does not fit the function, such as the position of a descriptor that it lacks, when the pass is to run. Beyond
that, options say what a pass is to take for granted, and nobody checks that it is true: what you compile with options of
your own is for you to read or to launch. Launches by joinery use no such code. They go through the pipeline of their
target, with options that follow from their arguments."""

PIPELINES = """## The pipelines of kernels

Nothing changes a kernel on its way to code but these. A kernel is parsed once; what the pipelines of two targets have
in common runs once, on a copy. The options that name library functions, descriptors, divisors and warps are filled in
for a GPU; `pipeline` prints them, as `ptx` makes code, and does not compile the kernel. Launches fill in the divisions
and divisors that they have proven, and the warps that they were given. Block programs of graphs for GPUs leave out
`drop-claims`, as the tiler can be trusted."""

GRAPHS = "Block programs of graphs go through another one when they are tiled, before all others:"

EXAMPLE = """## A pass of your own

One file and one line of your project's `pyproject.toml`. The pass is found by its name from then on, by `--passes` as
well.

```python
# my_package/remove_prints.py
from dataclasses import dataclass

from joinery.lowering.tt.dialect.debug import PrintOp
from joinery.lowering.tt.dialect.functions import FuncOp
from joinery.lowering.tt.transforms.function_pass import Allowed, FunctionPass


@dataclass(frozen=True)
class RemovePrints(FunctionPass):
    \"\"\"Removes what a kernel prints.

    only: prints whose text has this in it.
    most: this many of them.
    \"\"\"

    name = "remove-prints"
    only: str = ""
    most: int = 1000

    def allowed(self) -> dict[str, Allowed]:
        return {"most": Allowed("a number of prints, 0 or more", lambda number: number >= 0)}

    def run(self, function: FuncOp) -> None:
        prints = [op for op in function.walk() if isinstance(op, PrintOp) and self.only in op.prefix.data]
        for op in prints[: self.most]:
            if op.parent is not None:
                op.parent.erase_op(op)
```

```toml
[project.entry-points."joinery.passes"]
remove-prints = "my_package.remove_prints:RemovePrints"
```

```
joinery compile kernel.ttir --passes 'inline,remove-prints{only="debug"},canonicalize'
```

`allowed` says what options may be, and `allowed_in(function)` what they may be on one function; the types of the fields
are checked without. A refusal names the pass, the option, its value and what was expected.

What a pass refuses it raises inside `with naming_line(op):` (`lowering/tt/source_locations.py`): the message then ends
with the operation's line in the source, as those of back ends do; otherwise it ends with the function's.

A pass of joinery itself is the file alone, and [an example of it](extending.md#a-pass) stands with the others. Passes
load when a pipeline has them."""

ATTRIBUTES = """## Attributes of functions and operations

A back end does not ask who wrote a function. What it wants to know beyond the operations stands in attributes, which
any front end may set; without them it takes the worst for granted.

**Facts** make wrong code if they are false, and nothing can check them. So they count in functions that a front end
of joinery built (the tiler of graphs sets them), and `drop-claims` removes them from texts, which may come from
strangers."""

DIVISIBILITY = """`tt.divisibility` of parameters is checked instead: Triton's texts are full of it. `Kernel.ptx` and
`gpu_code` take it for granted, as their user launches the code himself. Launches look at their arguments, and run the
code for what they find, whatever the text says. Which arrays of a launch share memory is looked at as well. Hints of
operations (`tl.multiple_of`, `tl.max_contiguous`, `llvm.intr.assume`, `overflow<nsw>`) are part of the program: a false one is
a mistake of the kernel, as an access outside an array is, and the sanitizer reports it. Code for the CPU relies on none
of them. Code for GPUs does, as that of Triton itself."""

RESULTS = "**Results** of passes are found out anew: those of a text count for nothing."

PERMISSIONS = """**Permissions** are part of what an operation means, as fast-math flags are: whoever writes the
operation may set them. They change which number an operation gives, and no address."""


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def rows(header: str, cells: Iterable[tuple[str, str]]) -> str:
    lines = [f"| `{escaped(name)}` | {escaped(meaning)} |" for name, meaning in cells]
    return "\n".join([f"| {header} | |", "| --- | --- |", *lines])


def options_table(passes: Iterable[type[FunctionPass]]) -> str:
    lines = [
        f"| `{each.name}` | `{option}` | {values} | {escaped(meaning)} |"
        for each in passes
        for option, (values, meaning) in each.options().items()
    ]
    return "\n".join(["| pass | option | takes | meaning |", "| --- | --- | --- | --- |", *lines])


def constants() -> dict[str, str]:
    """Returns the text below each constant of `facts`, by the constant's value."""
    body = ast.parse(inspect.getsource(facts)).body
    found = {}
    for assignment, text in pairwise(body):
        if isinstance(assignment, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            value = getattr(facts, ast.unparse(assignment.targets[0]))
            if isinstance(value, str):
                found[value] = " ".join(str(text.value.value).split())
    return found


def passes_page(note: str) -> str:
    meaning = constants()
    passes = [find_pass(name) for name in own_passes()]
    pipelines = [f"**{target}, {numerics}**\n\n```text\n{text}\n```" for (target, numerics), text in TEXTS.items()]
    tiled = [(text, numerics) for numerics, text in TILED.items() if text]
    parts = [
        note,
        INTRO,
        "## Passes",
        rows("pass", [(each.name, each.summary()) for each in passes]),
        OPTIONS,
        options_table(passes),
        PIPELINES,
        *pipelines,
        GRAPHS,
        rows("pipeline", [(text, f"numerics {numerics}") for text, numerics in tiled]),
        EXAMPLE,
        ATTRIBUTES,
        rows("fact", [(name, meaning[name]) for name in facts.FACTS]),
        DIVISIBILITY,
        RESULTS,
        rows("result", [(name, meaning[name]) for name in facts.RESULTS]),
        PERMISSIONS,
        rows("permission", [(name, meaning[name]) for name in facts.PERMISSIONS]),
    ]
    return "\n\n".join(parts) + "\n"
