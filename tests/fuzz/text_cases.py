"""Mutates untrusted texts and files: they must be refused as documented, or mean the same everywhere."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import struct
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joinery as jn
from joinery.graph.dims.dim import evaluate_dim
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text
from joinery.promotion.presets import PRESETS
from joinery.promotion.rules import RuleSet
from joinery.runtime.storage.serialize import decode_compiled, encode_compiled

from ..support.random_kernels.control import program
from . import graphs
from .block_cases import launches
from .cases import Data, Fault, Kind, Outcome, Settings, packed, unpacked
from .choices import Choices
from .graph_cases import REFUSALS, bypassed, compare, fault_of, renumbered
from .mutations import mutated_bytes, mutated_text, mutated_tree

MOST_ELEMENTS = 100_000
"""The largest number of elements of a value in mutated graphs and models that are run."""


# -- graphs as text -------------------------------------------------------------------------------------------------------


def small_graph(choices: Choices, settings: Settings) -> jn.Graph:
    return graphs.drawn(choices, choices.flag(), 60, steps=choices.one(2, 5, 9)).graph


def generate_graph_text(choices: Choices, settings: Settings) -> Data:
    text, arrays = to_text(small_graph(choices, settings))
    weights = {name: packed(array) for name, array in arrays.items()}
    return {"kind": "graph-text", "text": mutated_text(choices, text), "weights": weights, "seed": choices.seed(),
            "sizes": {name: choices.one(3, 1, 2, 0, 5) for name in ("n", "k", "m")}}  # fmt: skip


def run_graph_text(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome(refused=True)
    try:
        graph = from_text(data["text"], {name: unpacked(array) for name, array in data["weights"].items()})
        if not graph.finished:
            return outcome
    except REFUSALS:
        return outcome
    except Exception as error:
        outcome.faults.append(fault_of("from_text", error))
        return outcome
    if not again(graph, outcome):
        return outcome
    draw = Choices(str(data["seed"]))
    try:
        arrays = []
        total = 0
        for symbol in graph.symbols:
            shape = [evaluate_dim(extent, data["sizes"]) for extent in symbol.shape]
            total = max(total, math.prod(shape))
            if symbol.op.name == "input" and (total > MOST_ELEMENTS or min(shape, default=0) < 0):
                return outcome
            if symbol.op.name == "input":
                arrays.append(graphs.input_array(draw, shape, symbol.dtype, len(arrays)))
    except (KeyError, *REFUSALS):  # a dim with another name
        return outcome
    except (ValueError, TypeError, OverflowError):  # a dtype whose values NumPy cannot make
        return outcome
    if total > MOST_ELEMENTS:
        return outcome
    compare(graph, [arrays], settings, outcome)
    return outcome


def again(graph: jn.Graph, outcome: Outcome) -> bool:
    """Checks that the graph is read back from its text as the same graph."""
    try:
        text, arrays = to_text(graph)
        if to_text(from_text(text, arrays))[0] == text:
            return True
        outcome.faults.append(Fault("to_text", "what is written is read as another graph", text))
    except Exception as error:
        outcome.faults.append(fault_of("to_text", error))
    return False


# -- block programs as text -----------------------------------------------------------------------------------------------


def generate_block_text(choices: Choices, settings: Settings) -> Data:
    made = program([choices.seed() for _ in range(choices.integer(1, 4))], 0)
    arguments = [packed(argument) for argument in made.arguments(choices.seed())]
    arrays = [[array.name, array.kind, array.elem] for array in made.arrays.values()]
    return {"kind": "block-text", "text": mutated_text(choices, made.text()), "grid": list(made.grid), "arrays": arrays,
            "arguments": arguments}  # fmt: skip


def run_block_text(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome(refused=True)
    try:
        kernel = jn.kernel.from_ttir(data["text"])
        text = kernel.ttir
    except REFUSALS:
        return outcome
    except Exception as error:
        outcome.faults.append(fault_of("from_ttir", error))
        return outcome
    try:
        if jn.kernel.from_ttir(text, kernel.name).ttir != text:
            outcome.faults.append(Fault("ttir", "what is printed is read as another module", text))
    except Exception as error:
        outcome.faults.append(fault_of("ttir", error))
    for place, compiled in (("host", lambda: kernel.llvm_ir()), ("sm_80", lambda: kernel.ptx("sm_80"))):
        try:
            compiled()
        except REFUSALS:
            continue
        except Exception as error:
            outcome.faults.append(fault_of(f"compile {place}", error))
    outcome.refused = False
    arrays = {name: SimpleNamespace(name=name, kind=kind, elem=elem) for name, kind, elem in data["arrays"]}
    arguments = [unpacked(argument) for argument in data["arguments"]]
    own = Settings(False, settings.only)
    try:
        launches(
            data["text"], data["grid"], arguments, SimpleNamespace(arrays=arrays), own, outcome, mutated=True
        )
    except Exception as error:
        outcome.faults.append(fault_of("interpret", error))
    return outcome


# -- promotion rules ------------------------------------------------------------------------------------------------------


def generate_rules(choices: Choices, settings: Settings) -> Data:
    definition = jn.promotion.rules(choices.one(*PRESETS)).definition.to_dict()
    definition["name"] = "fuzzed"
    if choices.flag(4):
        return {"kind": "rules", "form": "toml", "text": mutated_text(choices, as_toml(definition))}
    if choices.flag(4):
        return {
            "kind": "rules",
            "form": "json",
            "text": mutated_text(choices, json.dumps(definition, indent=0)),
        }
    return {"kind": "rules", "form": "json", "text": json.dumps(mutated_tree(choices, definition))}


def as_toml(definition: dict[str, Any]) -> str:
    """Encodes edges and a few keys as TOML; tables with null have no TOML."""
    plain = {
        key: json.dumps(value) for key, value in definition.items() if isinstance(value, (str, list, bool))
    }
    lines = [f"{key} = {text}" for key, text in plain.items() if "null" not in text and "{" not in text]
    for key, value in definition.items():
        if isinstance(value, dict) and all(isinstance(part, str) for part in value.values()):
            lines += [f"[{key}]", *[f"{name} = {json.dumps(part)}" for name, part in value.items()]]
    return "\n".join(lines) + "\n"


def run_rules(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome(refused=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rules.{data['form']}"
        path.write_bytes(data["text"].encode("utf-8", "surrogatepass"))
        try:
            rules = RuleSet.load(path)
        except REFUSALS:
            return outcome
        except Exception as error:
            outcome.faults.append(fault_of("RuleSet.load", error))
            return outcome
    outcome.refused = False
    stage = ""
    try:
        stage = "laws"
        str(rules.laws())
        stage = "table"
        table = rules.table()
        stage = "explain"
        for a, b in list(table)[:: max(1, len(list(table)) // 40)]:
            rules.explain(a, b)
        stage = "hasse"
        with contextlib.suppress(REFUSALS):
            rules.hasse_svg()
        stage = "round trip"
        if RuleSet.from_dict(json.loads(json.dumps(rules.definition.to_dict()))) != rules:
            outcome.faults.append(Fault("rules", "what is written is read as other rules"))
        stage = "graph"
        elements = [
            dtype for dtype in rules.definition.dtypes if not dtype.is_abstract and not dtype.is_weak
        ][:12]
        for a in elements:
            for b in elements[::3]:
                graph = jn.Graph(
                    "g", inputs=[jn.TensorType(a, (2,)), jn.TensorType(b, (2,))], semantics=rules
                )
                try:
                    x, y = graph.inputs
                    graph.output(x + y, x / y, x * 2)
                except REFUSALS:
                    continue
                again(graph, outcome)
    except REFUSALS:
        return outcome
    except Exception as error:
        outcome.faults.append(fault_of(f"rules {stage}", error))
    return outcome


# -- artifacts and plans --------------------------------------------------------------------------------------------------

_HEAD = struct.Struct("<8sIIQ32s")


def compiled_model(choices: Choices, settings: Settings, device: str) -> Any:
    while True:
        try:
            graph = small_graph(choices, settings)
            return jn.compile(graph, device=device, cache=False, threads=1)
        except REFUSALS:
            continue


def generate_artifact(choices: Choices, settings: Settings) -> Data:
    """Makes an artifact with changed manifest, graph, weights or bytes; except for the last, its digests are correct again."""
    model = compiled_model(choices, settings, "cpu")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.joinery"
        model.save(path)
        content = path.read_bytes()
    how = choices.weighted(((4, "manifest"), (3, "graph"), (3, "weights"), (2, "bytes")))
    content = mutated_bytes(choices, content) if how == "bytes" else rebuilt(choices, content, how)
    return {"kind": "artifact", "content": base64.b64encode(content).decode(), "how": how}


def rebuilt(choices: Choices, content: bytes, how: str) -> bytes:
    magic, version, zero, length, _ = _HEAD.unpack(content[: _HEAD.size])
    manifest = json.loads(content[_HEAD.size : _HEAD.size + length])
    sections = []
    for section in manifest["sections"]:
        kind, _, offset, size, _ = section
        body = content[offset : offset + size]
        if kind == how == "graph":
            body = mutated_text(choices, body.decode()).encode("utf-8", "surrogatepass")
        elif kind == how == "weights":
            header = int.from_bytes(body[:8], "little")
            if choices.flag() and header < len(body):
                tree = mutated_tree(choices, json.loads(body[8 : 8 + header]))
                encoded = json.dumps(tree).encode().ljust(header)
                body = len(encoded).to_bytes(8, "little") + encoded + body[8 + header :]
            else:
                body = mutated_bytes(choices, body)
        sections.append((section, body))
    at = _HEAD.size + length + 4096
    parts, end = [], at
    for section, body in sections:
        end = -(-end // 64) * 64
        section[2:] = [end, len(body), hashlib.sha256(body).hexdigest()]
        parts.append((end, body))
        end += len(body)
    if how == "manifest":
        manifest = mutated_tree(choices, manifest)
    encoded = json.dumps(manifest).encode()
    if _HEAD.size + len(encoded) <= at:
        encoded = encoded.ljust(length) if choices.flag() else encoded
    result = bytearray(
        _HEAD.pack(magic, version, zero, len(encoded), hashlib.sha256(encoded).digest()) + encoded
    )
    for offset, body in parts:
        if len(result) <= offset:
            result += bytes(offset - len(result)) + body
    return bytes(result)


def run_artifact(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome(refused=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.joinery"
        path.write_bytes(base64.b64decode(data["content"]))
        try:
            model = jn.load(path, device="cpu", cache=False, threads=1)
        except REFUSALS:
            return outcome
        except Exception as error:
            outcome.faults.append(fault_of("load", error))
            return outcome
        outcome.refused = False
        draw = Choices("0")
        try:
            arrays = []
            for spec in model.inputs:
                shape = [extent if isinstance(extent, int) else 3 for extent in spec.shape]
                if math.prod(shape) > MOST_ELEMENTS:
                    return outcome
                arrays.append(graphs.input_array(draw, shape, jn.DType(spec.dtype), len(arrays)))
        except (TypeError, ValueError):
            return outcome
        try:
            model(*arrays)
            outcome.runs += 1
            model.save(path)
            jn.load(path, device="cpu", cache=False, threads=1)
        except REFUSALS:
            return outcome
        except Exception as error:
            outcome.faults.append(fault_of("loaded", error))
    return outcome


def generate_plan(choices: Choices, settings: Settings) -> Data:
    model = compiled_model(choices, settings, choices.one("cpu", "ptxsim"))
    content = encode_compiled(model.compiled)
    if choices.flag(5):
        content = mutated_bytes(choices, content)
    else:
        length = int.from_bytes(content[:8], "little")
        header = json.dumps(mutated_tree(choices, json.loads(content[8 : 8 + length]))).encode()
        content = len(header).to_bytes(8, "little") + header + content[8 + length :]
    return {"kind": "plan", "content": base64.b64encode(content).decode()}


def run_plan(data: Data, settings: Settings) -> Outcome:
    outcome = Outcome(refused=True)
    try:
        compiled = decode_compiled(base64.b64decode(data["content"]))
    except REFUSALS:
        return outcome
    except Exception as error:
        outcome.faults.append(fault_of("decode_compiled", error))
        return outcome
    outcome.refused = False
    try:
        if decode_compiled(encode_compiled(compiled)) != compiled:
            outcome.faults.append(Fault("encode_compiled", "what is written is read as another plan"))
    except Exception as error:
        outcome.faults.append(fault_of("encode_compiled", error))
    return outcome


GRAPH_TEXT = Kind(
    "graph-text", generate_graph_text, run_graph_text, weight=4, tidy=renumbered, simpler=bypassed
)
BLOCK_TEXT = Kind("block-text", generate_block_text, run_block_text, weight=4)
RULES = Kind("rules", generate_rules, run_rules, weight=2)
ARTIFACT = Kind("artifact", generate_artifact, run_artifact, weight=3, text="")
PLAN = Kind("plan", generate_plan, run_plan, weight=2, text="")
__all__ = ["ARTIFACT", "BLOCK_TEXT", "GRAPH_TEXT", "PLAN", "RULES"]
