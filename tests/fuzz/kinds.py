"""Lists the kinds of cases."""

from __future__ import annotations

from . import block_cases, graph_cases, loop_cases, onnx_cases, text_cases, triton_c_cases
from .cases import Kind

KINDS: tuple[Kind, ...] = (
    graph_cases.KIND, block_cases.KIND, text_cases.GRAPH_TEXT, text_cases.BLOCK_TEXT, text_cases.RULES, text_cases.ARTIFACT,
    text_cases.PLAN, triton_c_cases.PROGRAM, triton_c_cases.TEXT, onnx_cases.KIND, loop_cases.KIND,
)  # fmt: skip


def kind_named(name: str) -> Kind:
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise SystemExit(f"no kind {name!r}; there are {', '.join(kind.name for kind in KINDS)}")
