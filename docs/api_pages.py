"""Makes the pages of the API reference from the exports, their docstrings and `__init__.pyi`, when the site is built (conf.py).

Every public name is on one page. Pages hold directives of Sphinx's autodoc, which imports joinery: the docstrings of
functions of the op table are made from their rows, and exist only once joinery is imported.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import runpy
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, WrapperDescriptorType
from typing import Any

import joinery as jn
from joinery.graph.functions.elementwise import _OPERANDS
from joinery.graph.functions.names.exports import EXPORTS
from joinery.promotion.dtype import DTYPES

ROOT = Path(__file__).resolve().parents[1]
OPS_PAGE = runpy.run_path(str(ROOT / "docs" / "generate.py"))

TITLES: Mapping[str, tuple[str, str, tuple[str, ...]]] = MappingProxyType({
    "graphs": ("Graphs", "Building, asking, evaluating and printing graphs.", ("graph.",)),
    "models": (
        "Compiling and running", "From a graph to a model, its calls, its file and the memory of devices.",
        ("interface.compiling", "interface.opening", "interface.model", "interface.onnx.", "interface.tuning",
         "lowering.choices", "lowering.sanitize", "runtime."),
    ),
    "kernels": (
        "Block kernels", "Kernels from text: launching, interpreting, checking and reading what became of them.",
        ("interface.kernel", "interface.tensor_arguments", "lowering.tt.interpret.memory", "lowering.tt.sanitize",
         "runtime.ptxsim.checks"),
    ),
    "promotion": ("Promotion", "Rule sets, their tables and laws, and the dtypes that they are about.", ("promotion",)),
    "triton": (
        "Triton's launches", "`import joinery.triton`: kernels under `@triton.jit`, run by joinery.", ("interface.triton",),
    ),
    "torch": ("PyTorch", "Models of PyTorch as graphs, and what `torch.compile` made of them.", ("interface.torch",)),
    "distributed": (
        "Many blocks", "`import joinery.distributed`: models over Dask, Ray and process pools.", ("interface.distributed",),
    ),
    "errors": ("Errors", "Every exception that joinery raises on purpose is a `JoineryError`.", ("promotion.errors",)),
})  # fmt: skip
"""Page → title, first sentence, and the modules whose public names it shows; the longest match decides."""

FUNCTIONS_INTRO = f"""Functions make symbols of symbols. The table of :doc:`operations </ops>` says for each which dtypes
it computes with, how its shape follows and how far its results may err. Element-wise functions have these rules in common:

{_OPERANDS.strip()}"""


def page_of(module: str) -> str:
    """Returns the page for names of a module. Raises `ValueError` for a module that no page lists."""
    found = [
        (len(prefix), name) for name, (_, _, prefixes) in TITLES.items() for prefix in prefixes if module.startswith(prefix)
    ]
    if not found:
        raise ValueError(f"no page of the API reference shows {module}; fix: name it in TITLES of docs/api_pages.py")
    return max(found)[1]


def listed() -> dict[str, list[str]]:
    """Returns, by page, the names that it shows, with their module inside joinery where they are not
    attributes of the package itself."""
    pages: dict[str, list[str]] = {name: [] for name in TITLES}
    for name, module in jn._LOCATIONS.items():
        if name != "dim":  # the entry of Dim describes it
            pages[page_of(module)].append(name)
    for module_name, module in jn._MODULES.items():
        own = [name for name in getattr(jn, module_name).__all__ if name not in jn._LOCATIONS]
        pages[page_of(module)] += [f"{module_name}.{name}" for name in own]
    return pages


def value_of(name: str) -> Any:
    value: Any = jn
    for part in name.split("."):
        value = getattr(value, part)
    return value


def directive(name: str) -> str:
    value = value_of(name)
    if inspect.isclass(value):
        members = "\n   :members:\n   :show-inheritance:" if issubclass(value, Exception) else "\n   :members:"
        if not issubclass(value, Exception) and value.__mro__[1].__module__.startswith("joinery."):
            members += "\n   :inherited-members:"
        return f".. autoclass:: joinery.{name}{members}\n"
    if inspect.isroutine(value):
        return f".. autofunction:: joinery.{name}\n"
    text = indented("\n".join(map(restructured, data_texts()[name.rpartition(".")[2]].splitlines())))
    return f".. py:data:: joinery.{name}\n\n{text}\n"


def indented(text: str) -> str:
    return "".join(f"   {line}\n" if line else "\n" for line in text.splitlines())


@functools.cache
def data_texts() -> dict[str, str]:
    """Returns, by name, the string below its assignment at the top level of a module of promotion, where
    there is one."""
    found: dict[str, str] = {}
    for path in (ROOT / "promotion").glob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for node, after in itertools.pairwise(body):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found |= {
                    target.id: inspect.cleandoc(str(after.value.value)) for target in targets if isinstance(target, ast.Name)
                }
    return found


def titled(title: str, text: str) -> str:
    return f"{title}\n{'=' * len(title)}\n\n{text}\n"


def section(title: str) -> str:
    return f"{title}\n{'-' * len(title)}\n"


def functions_page() -> str:
    """Returns the page of functions, by the groups of the op table; those that build several operations, by
    their module."""
    parts = [titled("Functions", FUNCTIONS_INTRO)]
    for title, rows in OPS_PAGE["GROUPS"]:
        names = [name for name in map(OPS_PAGE["public_name"], rows) if name in EXPORTS]
        if names:
            parts += [section(title), *map(directive, names)]
    for title, names in OPS_PAGE["sugar"]():
        parts += [section(f"Made of several operations: {title}"), *map(directive, names)]
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """Returns the texts of all pages of the reference by file name."""
    texts = {
        f"{name}.rst": titled(TITLES[name][0], TITLES[name][1]) + "\n" + "\n".join(map(directive, names))
        for name, names in listed().items()
    }
    data = "\n".join(f".. py:data:: joinery.{name}\n   :type: DType\n   :no-index-entry:\n" for name in (*DTYPES, "string"))
    texts["promotion.rst"] += f"\n{section('Dtypes')}\nTheir sizes and ranges stand in :doc:`a table </dtypes>`.\n\n{data}"
    texts["functions.rst"] = functions_page()
    order = ["graphs", "functions", "models", "kernels", "triton", "torch", "distributed", "promotion", "errors"]
    texts["index.rst"] = titled(
        "API",
        "The public names, written from their docstrings. `import joinery as jn` is what examples begin with.\n\n"
        ".. toctree::\n   :maxdepth: 2\n\n" + "".join(f"   {name}\n" for name in order),
    )
    return texts


def write(folder: Path) -> None:
    """Writes the pages that changed, and removes those of earlier builds."""
    texts = pages()
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# --- signatures and docstrings for the hooks of autodoc


def stub_annotations() -> dict[str, tuple[dict[str, str], str]]:
    """Returns, by function, the annotation of each parameter and of the result in `__init__.pyi`."""
    found = {}
    for node in ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            starred = [arguments.vararg] if arguments.vararg else []
            each = [*arguments.posonlyargs, *arguments.args, *starred, *arguments.kwonlyargs]
            found[node.name] = (
                {argument.arg: plain(argument.annotation) for argument in each},
                plain(node.returns),
            )
    return found


def plain(annotation: ast.expr | None) -> str:
    """Formats an annotation of the stub without its underscores and `builtins.`."""
    text = ast.unparse(annotation) if annotation is not None else "Any"
    return re.sub(r"\bbuiltins\.|\b_(?=[A-Z])", "", text)


def signature(name: str, value: Any, stubs: Mapping[str, tuple[dict[str, str], str]]) -> tuple[str, str] | None:
    """Returns parameters with the types of the stub and the defaults of the code, and the result's type.

    None where the stub does not say more than the code, whose signature is then used.
    """
    if name not in stubs:
        return None
    types, returned = stubs[name]
    parts, starred = [], False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        starred = starred or bool(star) or parameter.kind is parameter.KEYWORD_ONLY
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{star}{parameter.name}: {types.get(parameter.name, 'Any')}{default}")
    return f"({', '.join(parts)})", returned


def constructor(value: type[Any]) -> str | None:
    """Returns the parameters of a class: those of `__init__`, where autodoc would show those of a `__new__`
    that takes anything.

    None for exceptions without an `__init__` of their own.
    """
    if isinstance(value.__init__, WrapperDescriptorType):
        return None
    parts = []
    for each in inspect.signature(value).parameters.values():
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty else f" = {each.default!r}"
        parts.append(f"{star}{each.name}: {each.annotation}{default}")
    return f"({', '.join(parts)})"


REPEATED = " ".join(_OPERANDS.split())


def without_repetition(text: str) -> str:
    """Removes from the docstring of an element-wise function the paragraph that all of them have: their page
    says it once."""
    return "\n\n".join(part for part in text.split("\n\n") if " ".join(part.split()) != REPEATED)


def joint_names(line: str) -> str:
    """Removes the spaces between the names of an entry for several of them (`file, line: where …`): Sphinx takes
    all but the last word before the colon for a type."""
    entry = re.match(r"( +)(\*{0,2}\w+(?:, \*{0,2}\w+)+)(?=: )", line)
    return line if entry is None else entry[1] + entry[2].replace(", ", ",") + line[entry.end() :]


NAME = re.compile(r"(?:jn\.|joinery\.)?([A-Za-z_][\w.]*)(?:\(\))?")


@functools.cache
def _shared_members() -> frozenset[str]:
    """Returns names that are members of several public classes, and nothing else: alone they are ambiguous as
    link targets."""
    classes = [value for name in jn._LOCATIONS if inspect.isclass(value := getattr(jn, name))]
    members = Counter(key for each in classes for key in {key for base in each.__mro__[:-1] for key in vars(base)})
    return frozenset(key for key, count in members.items() if count > 1 and key not in jn._LOCATIONS and key not in EXPORTS)


def restructured(line: str) -> str:
    """Converts a line of a docstring, in which code is between single backticks, to reStructuredText."""
    parts = re.split(r"(`+)(.+?)\1", line)
    out = [escaped(parts[0])]
    for code, after in zip(parts[2::3], parts[3::3], strict=True):
        name = NAME.fullmatch(code) and code not in _shared_members()
        glued = after[:1].isalnum() and "\\ "
        out.append((f":py:obj:`{code}`" if name and code.isascii() else f"``{code}``") + (glued or "") + escaped(after))
    return "".join(out)


def escaped(text: str) -> str:
    """Escapes the characters that would be markup."""
    return re.sub(r"(?<!^)([*|])|^([*|])(?!\s)|(?<=\w)(_)(?!\w)", lambda found: "\\" + found.group(), text)
