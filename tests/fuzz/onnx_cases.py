"""Mutates models in ONNX: they must be refused with a fix, or run; nothing outside their folder may be read."""

from __future__ import annotations

import base64
import functools
import math
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.dims.dim import evaluate_dim
from joinery.graph.ops.control import regions_of

from . import graphs
from .cases import Data, Fault, Kind, Outcome, Settings
from .choices import Choices
from .graph_cases import REFUSALS, fault_of

MODELS = Path(__file__).resolve().parents[1] / "data" / "onnx_models"
_PACKAGE = str(Path(jn.__file__).parent)
MAX_SEED_BYTES = 30_000
MAX_ELEMENTS = 20_000
"""The largest number of elements of a value of mutated models that are run."""
MAX_SYMBOLS = 600
LOOP_SECONDS = 3.0
"""Processor time after which a model with loops is stopped: how often they run is its own affair."""
FEW = 1000
"""Iterations that are few."""
LIMITS = {"nodes": 20_000, "folded_bytes": 1 << 22, "all_folded_bytes": 1 << 24, "unrolled_nodes": 500}


@functools.cache
def seeds(suite: bool = False) -> tuple[bytes, ...]:
    """Returns the models that are mutated: small nets, one with data in a file, and perhaps the cases of ONNX's own suite."""
    found = [path.read_bytes() for path in sorted(MODELS.glob("*.onnx"))]
    if suite:
        from onnx.backend.test.case.node import collect_testcases

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found += [case.model.SerializeToString() for case in collect_testcases(None) if case.model is not None]
    return (external(), *[data for data in found if len(data) <= MAX_SEED_BYTES])


def external() -> bytes:
    """Returns a model whose weight lies in the file w.bin."""
    from onnx import TensorProto, helper

    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "12")):
        weight.external_data.add(key=key, value=value)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "external", inputs, outputs, [weight])
    model: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    return model


def generate(choices: Choices, settings: Settings) -> Data:
    import onnx

    from .onnx_mutations import mutated_message

    known = seeds(settings.suite)
    at = 0 if choices.flag(40) else choices.below(len(known))
    model = onnx.ModelProto.FromString(known[at])
    mutated_message(choices, model)
    content = base64.b64encode(model.SerializeToString()).decode()
    return {"kind": "onnx", "content": content, "file": at == 0 or choices.flag(30), "compile": choices.flag(24),
            "seed": choices.seed()}  # fmt: skip


class _Reads:
    """Notes files that are opened while it is active, but for those of one folder and of Python's own modules."""

    def __init__(self) -> None:
        self.active, self.folder, self.found = False, "", list[str]()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active or event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        path = arguments[0].decode(errors="replace") if isinstance(arguments[0], bytes) else arguments[0]
        own = path.startswith((self.folder, _PACKAGE)) or path.endswith((".py", ".pyc", ".so")) or "/site-packages/" in path
        own = own or path in sys.path  # such as python312.zip, which an import looks into
        if not own and ("/" in path or path.startswith("..")):
            self.found.append(path)


_READS = _Reads()


@functools.cache
def _watch() -> _Reads:
    sys.addaudithook(_READS)
    return _READS


def run(data: Data, settings: Settings) -> Outcome:
    outcome, content = Outcome(refused=True), base64.b64decode(data["content"])
    reads = _watch()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        source: Any = content
        reads.folder, reads.found = "\0", []  # a model of bytes has no folder; to make one takes as long as to read a model
        if data["file"]:
            reads.folder = folder = stack.enter_context(tempfile.TemporaryDirectory())
            source = Path(folder) / "model.onnx"
            source.write_bytes(content)
            Path(folder, "w.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
        reads.active = True
        try:
            graph = jn.from_onnx(source, limits=jn.OnnxLimits(**LIMITS))
        except REFUSALS as error:
            told = str(error)
            if not ("fix:" in told or "expected:" in told) or len(told) > 20_000:
                what = "a refusal that says neither what is expected nor a fix, or in more than 20000 characters"
                outcome.faults.append(Fault("from_onnx", what, told[:4000]))
            return outcome
        except Exception as error:
            outcome.faults.append(fault_of("from_onnx", error))
            return outcome
        finally:
            reads.active = False
            if reads.found:
                outcome.faults.append(Fault("from_onnx", "a file outside the folder is opened", "\n".join(reads.found)))
    outcome.refused = False
    if graph.casts():
        outcome.faults.append(Fault("from_onnx", "an implicit cast", str(graph.casts()[0])))
    with suppress(_Endless), _stopping(LOOP_SECONDS if has_loops(graph) else 0.0):
        _call(graph, data, outcome)
    return outcome


class _Endless(BaseException):
    """A loop has run for so long that it may have no end: a model says how often it runs."""


@contextmanager
def _stopping(seconds: float) -> Iterator[None]:
    """Ends what runs inside after this much processor time, by `_Endless`; 0 for never."""

    def stop(number: int, frame: object) -> None:
        raise _Endless

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def has_loops(graph: jn.Graph) -> bool:
    """Returns whether a graph has loops whose number of iterations is not small."""
    for symbol in graph.symbols:
        length = symbol.attrs.get("length", -1)
        if symbol.op.name in ("loop", "host_loop") and not (isinstance(length, int) and 0 <= length < FEW):
            return True
        if any(has_loops(region) for region in regions_of(symbol)):
            return True
    return False


def _call(graph: jn.Graph, data: Data, outcome: Outcome) -> None:
    """Runs a model that was read, if it is small: the evaluator, and for some of them compiled code too."""
    draw, sizes = Choices(str(data["seed"])), dict.fromkeys(graph.dim_names, 2)
    if len(graph.symbols) > MAX_SYMBOLS:
        return
    arrays = []
    try:
        for symbol in graph.symbols:
            shape = [evaluate_dim(extent, sizes) for extent in symbol.shape]
            if math.prod(shape) > MAX_ELEMENTS or min(shape, default=0) < 0:
                return
            if symbol.op.name == "input":
                arrays.append(graphs.input_array(draw, shape, symbol.dtype, len(arrays)))
    except (KeyError, ValueError, TypeError, OverflowError, *REFUSALS):  # sizes from data, or a dtype without values
        return
    try:
        with np.errstate(all="ignore"):
            expected = jn.evaluate(graph, *arrays)
        outcome.runs += 1
    except REFUSALS:
        return
    except Exception as error:
        outcome.faults.append(fault_of("evaluate", error))
        return
    if not data["compile"]:
        return
    try:
        found = jn.compile(graph, device="cpu", cache=False, threads=1)(*arrays)
        outcome.runs += 1
    except REFUSALS:
        return
    except Exception as error:
        outcome.faults.append(fault_of("compile", error))
        return
    wholes = [each if isinstance(each, tuple) else (each,) for each in (expected, found)]
    for one, other in zip(*wholes, strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            outcome.faults.append(Fault("compile", f"{other.dtype}{other.shape}, the evaluator has {one.dtype}{one.shape}"))


def warm(settings: Settings) -> None:
    """Loads the importer, the evaluator and the compiler by models as they are: children would, each for itself."""
    for at, content in enumerate(seeds(settings.suite)[:40]):
        run({"content": base64.b64encode(content).decode(), "file": not at, "compile": at < 3, "seed": at}, settings)


KIND = Kind("onnx", generate, run, weight=2, text="", warm=warm)
