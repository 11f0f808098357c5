"""Times whole models in ONNX beside onnxruntime, OpenVINO, and the PyTorch models that they were exported from.

    make bench-models                                   # in an environment of its own
    python benchmarks/models.py resnet50 bert           # needs torch, transformers, onnxscript, onnx and onnxruntime

One process, contenders in turns (`harness.py`), weights random, outputs compared with PyTorch's first. joinery, onnxruntime and
OpenVINO run the same file; the files are kept in out/models. "first" is what becomes of a file in a new process until the first
result is there: joinery without and with its cache of compiled kernels, the peers as they come.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Contender, Measurement, format_seconds, sample
from peers import call, limit_threads, onnx_session, versions
from run import processor

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "out" / "models"
PEERS = ("onnxruntime", "openvino", "eager", "inductor")
TUNED = "tuned"
OPSET = 20
BOUND = 2e-3
"""The difference from PyTorch's results that is let pass, relative to the largest of them: sums are in other orders."""
Made = tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to time.

    Attributes:
        make: makes the PyTorch model and its inputs, the same in every process.
        quantized: "" for the exported file, "qdq" for 8-bit integers, "int4" for weights of products in blocks of 32 values.
            Results of quantised models are compared with onnxruntime's, which then has to be there, others with PyTorch's.
    """

    make: Callable[[], Made]
    quantized: str = ""


def picture(name: str, batch: int = 1) -> Made:
    import torch
    from networks import NETWORKS

    make, side = NETWORKS[name]
    return make(), (torch.randn(batch, 3, side, side),)


def transformer(kind: str, batch: int, tokens: int, **settings: Any) -> Made:
    """Return a model of transformers and tokens; its result is the last hidden state alone."""
    import torch
    import transformers
    from torch import nn

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = getattr(transformers, f"{kind}Config")(**settings, attn_implementation="sdpa")
            self.model = getattr(transformers, f"{kind}Model")(config)

        def forward(self, tokens: Any) -> Any:
            return self.model(tokens).last_hidden_state

    return Hidden(), (torch.randint(0, 1000, (batch, tokens)),)


def vision_transformer() -> Made:
    import torch
    import transformers
    from torch import nn

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=False)

        def forward(self, pixels: Any) -> Any:
            return self.model(pixels).last_hidden_state

    return Hidden(), (torch.randn(1, 3, 224, 224),)


def speech() -> Made:
    """Return the encoder of Whisper tiny, and thirty seconds of sound."""
    import torch
    import transformers
    from torch import nn

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {
                "d_model": 384,
                "encoder_layers": 4,
                "encoder_attention_heads": 6,
                "encoder_ffn_dim": 1536,
            }
            whole = transformers.WhisperModel(transformers.WhisperConfig(**sizes, decoder_layers=1))
            self.model = whole.encoder

        def forward(self, sound: Any) -> Any:
            return self.model(sound).last_hidden_state

    return Hidden(), (torch.randn(1, 80, 3000),)


def tagger() -> Made:
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm = (
                nn.Embedding(1000, 128),
                nn.LSTM(128, 128, batch_first=True, bidirectional=True),
            )
            self.tags = nn.Linear(256, 20)

        def forward(self, tokens: Any) -> Any:
            return self.tags(self.lstm(self.words(tokens))[0])

    return Tagger(), (torch.randint(0, 1000, (8, 64)),)


def language(new: int, old: int) -> Made:
    from decoder import Decoder

    model = Decoder()
    return model, model.inputs(new, old)


_MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
SUBJECTS: dict[str, Subject] = {
    "resnet50": Subject(lambda: picture("resnet50")),
    "mobilenet_v2": Subject(lambda: picture("mobilenet_v2")),
    "vgg19": Subject(lambda: picture("vgg19")),
    "squeezenet": Subject(lambda: picture("squeezenet")),
    "densenet121": Subject(lambda: picture("densenet121")),
    "inception_v3": Subject(lambda: picture("inception_v3")),
    "shufflenet_v2": Subject(lambda: picture("shufflenet_v2")),
    "unet": Subject(lambda: picture("unet")),
    "vit_b": Subject(vision_transformer),
    "bert_1x128": Subject(lambda: transformer("Bert", 1, 128)),
    "bert_8x128": Subject(lambda: transformer("Bert", 8, 128)),
    "minilm_8x128": Subject(lambda: transformer("Bert", 8, 128, **_MINILM)),
    "gpt2_1x256": Subject(lambda: transformer("GPT2", 1, 256, use_cache=False)),
    "decoder_prefill": Subject(lambda: language(128, 0)),
    "decoder_step": Subject(lambda: language(1, 256)),
    "decoder_step_int4": Subject(lambda: language(1, 256), "int4"),
    "whisper_encoder": Subject(speech),
    "lstm_tagger": Subject(tagger),
    "resnet50_qdq": Subject(lambda: picture("resnet50"), "qdq"),
    "mobilenet_v2_qdq": Subject(lambda: picture("mobilenet_v2"), "qdq"),
}


def made(name: str) -> Made:
    """Return the model and the inputs of a subject, the same in every process."""
    import torch

    torch.manual_seed(0)
    model, inputs = SUBJECTS[name].make()
    return model.eval(), inputs


def feeds_of(inputs: Sequence[Any]) -> list[np.ndarray]:
    return [np.ascontiguousarray(each.numpy()) for each in inputs]


def file_of(name: str) -> Path:
    """Return the ONNX file of a subject, written on first use: by PyTorch's exporter, then by onnxruntime's quantisers."""
    path = FILES / f"{name}.onnx"
    if path.exists():
        return path
    import torch

    FILES.mkdir(parents=True, exist_ok=True)
    model, inputs = made(name)
    plain = FILES / f"{name}-float.onnx" if SUBJECTS[name].quantized else path
    with torch.no_grad():
        torch.onnx.export(
            model, inputs, str(plain), dynamo=True, opset_version=OPSET, external_data=False, verbose=False
        )
    if SUBJECTS[name].quantized == "qdq":
        quantize_activations(plain, path, feeds_of(inputs))
    elif SUBJECTS[name].quantized == "int4":
        quantize_weights(plain, path)
    return path


def quantize_activations(plain: Path, path: Path, feeds: Sequence[np.ndarray]) -> None:
    """Write a model with QuantizeLinear and DequantizeLinear around its layers, calibrated on one input."""
    import onnx
    from onnxruntime import quantization

    names = [each.name for each in onnx.load(plain).graph.input]

    class Once(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [dict(zip(names, feeds, strict=True))]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    prepared = path.with_name(f"{path.stem}-prepared.onnx")
    quantization.shape_inference.quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(str(prepared), str(path), Once(), per_channel=True,
    activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)  # fmt: skip


def quantize_weights(plain: Path, path: Path) -> None:
    """Write a model whose products with weights are MatMulNBits of 4 bits."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(plain), block_size=32, is_symmetric=True, accuracy_level=0)
    quantizer.process()
    quantizer.model.save_model_to_file(str(path), use_external_data_format=False)


def with_joinery(path: Path, feeds: Sequence[np.ndarray], threads: int) -> Contender:
    import joinery as jn

    model = jn.compile(jn.from_onnx(path), device="cpu", threads=threads)
    return call("joinery", model, list(feeds), ours=True)


def tuned(path: Path, feeds: Sequence[np.ndarray], threads: int, seconds: float) -> Contender:
    """Return joinery with schedules that were searched for: what the cost model's choice loses."""
    import joinery as jn

    graph = jn.from_onnx(path)
    inputs = dict(zip([symbol.name for symbol in graph.inputs], feeds, strict=True))
    model = jn.compile(graph, device="cpu", threads=threads, tune=jn.Tuning(seconds, inputs=inputs))
    return call(TUNED, model, list(feeds), ours=True)


def with_onnxruntime(path: Path, feeds: Sequence[np.ndarray], threads: int) -> Contender:
    import onnxruntime

    session = onnx_session(onnxruntime, path.read_bytes(), threads)
    named = dict(zip((each.name for each in session.get_inputs()), feeds, strict=True))
    return Contender("onnxruntime", "run(None, feeds)", {"run": session.run, "feeds": named}, spins=True)


def with_openvino(path: Path, feeds: Sequence[np.ndarray], threads: int) -> Contender:
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()
    named = dict(enumerate(feeds))
    statement = "request.infer(feeds, share_inputs=True, share_outputs=True)"
    return Contender("openvino", statement, {"request": request, "feeds": named}, spins=True)


def with_torch(model: Any, inputs: Sequence[Any], inductor: bool) -> Contender:
    import torch

    if inductor:
        torch._dynamo.reset()
        model = torch.compile(model, backend="inductor", dynamic=False)
    return call("inductor" if inductor else "eager", model, list(inputs), spins=True)


def results(contender: Contender) -> list[np.ndarray]:
    """Return the results of one call as arrays."""
    import torch
    from torch.utils import _pytree

    found = eval(contender.statement, dict(contender.names))
    if contender.name == "openvino":
        found = list(found.values())
    return [
        np.asarray(leaf) for leaf in _pytree.tree_leaves(found) if isinstance(leaf, np.ndarray | torch.Tensor)
    ]


def check(name: str, contender: Contender, wanted: Sequence[np.ndarray], bound: float) -> None:
    """Raise `SystemExit` unless a contender's results are those wanted."""
    got = results(contender)
    if len(got) != len(wanted):
        raise SystemExit(f"{name}: {contender.name} has {len(got)} results, not {len(wanted)}")
    for mine, theirs in zip(got, wanted, strict=True):
        largest = float(np.abs(theirs).max())
        error = float(np.abs(mine.astype(np.float64) - theirs).max()) / largest
        if mine.shape != theirs.shape or not error <= bound:
            raise SystemExit(
                f"{name}: {contender.name} is wrong: shape {mine.shape} for {theirs.shape}, error {error:.1e}"
            )


def measured(
    name: str, peers: Sequence[str], threads: int, seconds: float, rounds: int, tune: float = 0
) -> Measurement:
    """Return the measurement of a subject."""
    import torch

    path = file_of(name)
    model, inputs = made(name)
    feeds = feeds_of(inputs)
    contenders = [with_joinery(path, feeds, threads)]
    if tune:
        contenders.append(tuned(path, feeds, threads, tune))
    if "onnxruntime" in peers:
        contenders.append(with_onnxruntime(path, feeds, threads))
    if "openvino" in peers:
        contenders.append(with_openvino(path, feeds, threads))
    quantized = SUBJECTS[name].quantized
    if quantized and "onnxruntime" not in peers:
        raise SystemExit(f"{name}: results are compared with onnxruntime's; fix: install it, and leave it among --peers")
    if not quantized:
        contenders += [
            with_torch(model, inputs, kind == "inductor") for kind in ("eager", "inductor") if kind in peers
        ]
    peer = next((each for each in contenders if each.name == "onnxruntime"), contenders[0])
    with torch.no_grad():
        wanted = results(with_torch(model, inputs, False)) if not quantized else results(peer)
        for contender in contenders:
            # Codes of 8 bits differ by one where a sum is at the border of two; this goes through the layers.
            check(name, contender, wanted, 0.1 if quantized else BOUND)
        return Measurement(name, "", sample(contenders, seconds, rounds), ("joinery",))


def first_result(name: str, contender: str, threads: int) -> float:
    """Return the seconds from a file to its first result, in this process; libraries are imported before."""
    path, (model, inputs) = file_of(name), made(name)
    feeds = feeds_of(inputs)
    makers = {"joinery": with_joinery, "onnxruntime": with_onnxruntime, "openvino": with_openvino}
    if contender in makers:
        __import__("joinery" if contender == "joinery" else contender)
    import torch

    with torch.no_grad():
        begin = time.perf_counter()
        if contender in makers:
            results(makers[contender](path, feeds, threads))
        else:
            results(with_torch(model, inputs, contender == "inductor"))
        return time.perf_counter() - begin


def first_results(name: str, contenders: Sequence[str], threads: int) -> dict[str, float]:
    """Return the seconds from a file to its first result, each in a process of its own with empty caches, and joinery's
    again."""
    found = {}
    for contender in contenders:
        with tempfile.TemporaryDirectory() as folder:
            caches = {"XDG_CACHE_HOME": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
            for kind in (contender, "joinery, cached") if contender == "joinery" else (contender,):
                command = [sys.executable, __file__, name, "--first", contender, "--threads", str(threads)]
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True, env={**os.environ, **caches}
                )
                found[kind] = float(done.stdout.splitlines()[-1])
    return found


def overview(measurements: Sequence[Measurement]) -> str:
    """Return a line per peer and one for the best of them: the geometric mean of ratios, and where the peer is faster."""
    lines = []
    for peer in (*PEERS, TUNED, "best peer"):
        ratios = {}
        for each in measurements:
            other = each.best_peer() if peer == "best peer" else peer
            if other in each.samples:
                ratios[each.name] = each.ratio("joinery", other).median
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
            slower = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > 1) or "none"
            lines.append(
                f"joinery / {peer}: {mean:.2f} in the geometric mean of {len(ratios)}; slower in {slower}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="models, or the beginnings of their names; all of them by default"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each model")
    parser.add_argument("--rounds", type=int, default=7, help="the least number of rounds of each model")
    parser.add_argument("--threads", type=int, default=2, help="threads for everybody (default: 2)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="all that can be imported by default")
    parser.add_argument(
        "--tune", type=float, default=0, help="search for schedules for so many seconds, as a peer of the default ones"
    )
    parser.add_argument(
        "--first-results", action="store_true", help="the time from a file to its first result too"
    )
    parser.add_argument("--first", metavar="CONTENDER", help=argparse.SUPPRESS)
    parser.add_argument(
        "--output", type=Path, help="result file (default: benchmarks/results/DATE-models.json)"
    )
    options = parser.parse_args()
    os.environ["OMP_WAIT_POLICY"] = "passive"
    limit_threads(options.threads)
    import torch

    torch.set_num_threads(options.threads)
    if options.first:
        print(first_result(options.names[0], options.first, options.threads))
        return
    from harness import ForeignLoad, report

    peers = options.peers if options.peers is not None else available()
    load, found, firsts = ForeignLoad(), [], {}
    for name in SUBJECTS:
        if options.names and not name.startswith(tuple(options.names)):
            continue
        measurement = measured(name, peers, options.threads, options.seconds, options.rounds, options.tune)
        if options.first_results:
            compilers = [
                each for each in ("joinery", *peers) if each in measurement.samples and each != "eager"
            ]
            firsts[name] = first_results(name, compilers, options.threads)
            measurement.notes["first result"] = ", ".join(
                f"{kind} {format_seconds(each)}" for kind, each in firsts[name].items()
            )
        print(report(measurement), flush=True)
        found.append(measurement)
    print(overview(found))
    date = datetime.datetime.now(datetime.UTC)
    output = (
        options.output or Path(__file__).resolve().parent / "results" / f"{date:%Y-%m-%d-%H%M}-models.json"
    )
    content = {
        "date": date.isoformat(timespec="seconds"), "threads": options.threads, "processor": processor(),
        "versions": versions(), "overview": overview(found),
        "foreign_load": load.processors(), "first_results": firsts, "cases": [each.as_dict() for each in found],
    }  # fmt: skip
    output.write_text(json.dumps(content, indent=1) + "\n")


def available() -> list[str]:
    """Return the peers that can be imported; inductor needs a C++ compiler."""
    from importlib.util import find_spec

    absent = [name for name in ("onnxruntime", "openvino") if find_spec(name) is None]
    if not shutil.which("g++"):
        absent.append("inductor")
    if absent:
        print(f"absent: {', '.join(absent)}", flush=True)
    return [name for name in PEERS if name not in absent]


if __name__ == "__main__":
    main()
