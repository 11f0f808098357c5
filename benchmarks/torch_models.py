"""Times models of PyTorch compiled by joinery, beside eager PyTorch and inductor, and what the first calls take.

    make bench-torch                                    # in the environment of the doors' tests
    python benchmarks/torch_models.py bert gpt2         # needs torch and transformers; inductor needs g++

One process, two threads, passive waiting of OpenMP's threads, contenders in turns (`harness.py`). Results are compared with
eager's first. "training" is a step: forward and backward. First calls are those of new processes, with empty caches, and again
with what the process before left there. Weights are random.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
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
from pathlib import Path
from typing import Any

from peers import call, limit_threads, versions

HERE = Path(__file__).resolve().parent
THREADS = 2
OURS = ("joinery", "joinery, fast")
BACKENDS: dict[str, dict[str, Any]] = {
    "joinery": {"backend": "joinery", "options": {"threads": THREADS}},
    "joinery, fast": {"backend": "joinery", "options": {"threads": THREADS, "numerics": "fast"}},
    "inductor": {"backend": "inductor"},
}
BOUND = 2e-3
"""The difference from eager's results that is let pass, relative to the largest of them: sums are in other orders."""
Made = tuple[Any, tuple[Any, ...]]


def transformer(name: str, batch: int, tokens: int, **settings: Any) -> Made:
    """Return a model of transformers of four layers, and tokens."""
    import torch
    import transformers

    config = getattr(transformers, f"{name}Config")(**settings)
    model = getattr(transformers, f"{name}Model")(config)
    return model, (torch.randint(0, 1000, (batch, tokens)),)


def pictures(name: str, size: int, **settings: Any) -> Made:
    """Return a model of transformers for pictures, and one picture."""
    import torch
    import transformers

    config = getattr(transformers, f"{name}Config")(**settings)
    return getattr(transformers, f"{name}Model")(config), (torch.randn(1, 3, size, size),)


def mlp() -> Made:
    import torch
    from torch import nn

    widths = (256, 1024, 1024, 1024, 64)
    layers = [layer for one, other in itertools.pairwise(widths) for layer in (nn.Linear(one, other), nn.ReLU())]
    return nn.Sequential(*layers), (torch.randn(64, 256),)


def small() -> Made:
    """Return the least model: what a call costs."""
    import torch
    from torch import nn

    return nn.ReLU(), (torch.randn(16),)


def tagger() -> Made:
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm = nn.Embedding(1000, 128), nn.LSTM(128, 128, batch_first=True, bidirectional=True)
            self.tags = nn.Linear(256, 20)

        def forward(self, tokens: Any) -> Any:
            return self.tags(self.lstm(self.words(tokens))[0])

    return Tagger(), (torch.randint(0, 1000, (8, 64)),)


def unet() -> Made:
    import torch
    from torch import nn

    def block(before: int, after: int) -> Any:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.down, self.middle = block(3, 64), block(64, 128), block(128, 128)
            self.up, self.last = block(192, 64), nn.Conv2d(64, 3, 1)

        def forward(self, x: Any) -> Any:
            outer = self.first(x)
            inner = self.middle(self.down(nn.functional.avg_pool2d(outer, 2)))
            wide = nn.functional.interpolate(inner, scale_factor=2.0, mode="nearest")
            return self.last(self.up(torch.cat([outer, wide], 1)))

    return Net(), (torch.randn(1, 3, 64, 64),)


_DECODER = {"hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12, "num_key_value_heads": 4,
            "intermediate_size": 2048, "vocab_size": 8000, "use_cache": False}  # fmt: skip
MODELS: dict[str, Callable[[], Made]] = {
    "relu of 16": small,
    "mlp": mlp,
    "bert 1x128": lambda: transformer("Bert", 1, 128, num_hidden_layers=4),
    "bert 8x128": lambda: transformer("Bert", 8, 128, num_hidden_layers=4),
    "gpt2 1x256": lambda: transformer("GPT2", 1, 256, n_layer=4, use_cache=False),
    "llama 1x128": lambda: transformer("Llama", 1, 128, **_DECODER),
    "resnet18": lambda: pictures("ResNet", 224, layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512],
                                 embedding_size=64),
    "mobilenet": lambda: pictures("MobileNetV2", 224),
    "vit tiny": lambda: pictures("ViT", 224, hidden_size=192, num_attention_heads=3, intermediate_size=768),
    "lstm tagger": tagger,
    "unet": unet,
}  # fmt: skip
TRAINING = ("mlp", "bert 1x128", "resnet18")


def made(name: str) -> Made:
    """Return a model and its inputs, the same in every process."""
    import torch

    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model.eval(), inputs


def tensors(result: Any) -> list[Any]:
    """Return the tensors of a result."""
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def inference(model: Any) -> Callable[..., Any]:
    """Return a function that runs a model without gradients."""
    import torch

    def run(*inputs: Any) -> Any:
        with torch.no_grad():
            return model(*inputs)

    return run


def step(model: Any) -> Callable[..., list[Any]]:
    """Return a function that runs a model forward and backward, and returns its gradients."""
    parameters = list(model.parameters())

    def run(*inputs: Any) -> list[Any]:
        for parameter in parameters:
            parameter.grad = None
        sum(each.float().square().mean() for each in tensors(model(*inputs)) if each.is_floating_point()).backward()
        return [parameter.grad for parameter in parameters if parameter.grad is not None]

    return run


def compiled(model: Any, backend: str) -> Any:
    import torch

    return torch.compile(model, **BACKENDS[backend])


def check(name: str, got: Any, wanted: Any) -> None:
    """End the benchmark unless results are eager's."""
    import torch

    for mine, theirs in zip(tensors(got), tensors(wanted), strict=True):
        bound = BOUND * max(1.0, float(theirs.abs().max())) if theirs.numel() else 0.0
        torch.testing.assert_close(mine, theirs, rtol=0, atol=bound, msg=lambda text: f"{name}: {text}")


def measured(name: str, training: bool, backends: Sequence[str], seconds: float, rounds: int) -> Any:
    """Return the measurement of a model, with the share of operators that run in joinery in its notes."""
    import joinery.torch
    import torch
    from harness import Measurement, sample

    model, inputs = made(name)
    run = step if training else inference
    contenders = [call("eager", run(model), inputs, spins=True)]
    wanted = [each.clone() for each in tensors(run(model)(*inputs))]
    notes = {}
    torch._dynamo.reset()
    for backend in backends:
        joinery.torch.report(clear=True)
        function = run(compiled(model, backend) if not training else _Shared(model, compiled(model, backend)))
        check(f"{name}, {backend}", function(*inputs), wanted)
        if backend == "joinery":
            reports = joinery.torch.report()
            notes["share"] = f"{reports.share:.3f} of the operators run in joinery, {len(reports)} graphs"
        contenders.append(call(backend, function, inputs, spins=True, ours=backend in OURS))
    ours = tuple(backend for backend in backends if backend in OURS)
    title = f"{name}, training" if training else name
    return Measurement(title, "", sample(contenders, seconds, rounds), ours, notes)


class _Shared:
    """A compiled model with the parameters of the model."""

    def __init__(self, model: Any, run: Any) -> None:
        self.parameters, self._run = model.parameters, run

    def __call__(self, *inputs: Any) -> Any:
        return self._run(*inputs)


def first_call(name: str, backend: str) -> float:
    """Return the seconds of the first call of a compiled model in this process."""
    model, inputs = made(name)
    inference(model)(*inputs)
    run = inference(compiled(model, backend))
    begin = time.perf_counter()
    run(*inputs)
    return time.perf_counter() - begin


def first_calls(name: str, backend: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of first calls, each in a process of its own: with empty caches, and with those of the one before."""
    found: dict[str, list[float]] = {"cold": [], "warm": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            places = {"XDG_CACHE_HOME": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
            for kind in found:
                command = [sys.executable, __file__, "--first-call", backend, name]
                done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **places})
                found[kind].append(float(done.stdout.splitlines()[-1]))
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def overview(measurements: Sequence[Any]) -> str:
    """Return a line per pair of ours and a peer: the geometric mean of the ratios, and where the peer is faster."""
    lines = []
    for ours in OURS:
        for peer in ("eager", "inductor"):
            both = [each for each in measurements if ours in each.samples and peer in each.samples]
            if both:
                ratios = {each.name: each.ratio(ours, peer).median for each in both}
                slower = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > 1]
                mean = geometric_mean(list(ratios.values()))
                lines.append(f"{ours} / {peer}: {mean:.2f} in the geometric mean of {len(both)}; "
                             f"slower in {', '.join(slower) or 'none'}")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="models, or the beginnings of their names; all of them by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each model")
    parser.add_argument("--rounds", type=int, default=7, help="the least number of rounds of each model")
    parser.add_argument("--backends", nargs="+", choices=tuple(BACKENDS), help="all of them by default")
    parser.add_argument("--no-training", action="store_true", help="inference alone")
    parser.add_argument("--first-calls", type=int, default=0, metavar="N", help="first calls too, N of each")
    parser.add_argument("--first-call", metavar="BACKEND", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help="result file (default: benchmarks/results/DATE-torch-models.json)")
    options = parser.parse_args()
    os.environ["OMP_WAIT_POLICY"] = "passive"
    limit_threads(THREADS)
    import torch

    torch.set_num_threads(THREADS)
    torch._dynamo.config.allow_rnn = True
    if options.first_call:
        print(first_call(options.names[0], options.first_call))
        return
    from harness import ForeignLoad, report
    from run import processor

    backends = options.backends or [name for name in BACKENDS if name != "inductor" or shutil.which("g++")]
    if "inductor" not in backends and not options.backends:
        print("inductor is left out: there is no g++", flush=True)
    load, found, calls = ForeignLoad(), [], {}
    for name in MODELS:
        if options.names and not name.startswith(tuple(options.names)):
            continue
        for training in (False, True) if name in TRAINING and not options.no_training else (False,):
            measurement = measured(name, training, backends, options.seconds, options.rounds)
            if options.first_calls and not training:
                others = [each for each in backends if each != "joinery, fast"]
                calls[name] = {each: first_calls(name, each, options.first_calls) for each in others}
                for backend, kinds in calls[name].items():
                    shown = ", ".join(f"{kind} {statistics.median(times):.2f} s" for kind, times in kinds.items())
                    measurement.notes[f"first call, {backend}"] = shown
            print(report(measurement), flush=True)
            found.append(measurement)
    print(overview(found))
    date = datetime.datetime.now(datetime.UTC)
    output = options.output or HERE / "results" / f"{date:%Y-%m-%d-%H%M}-torch-models.json"
    content = {
        "date": date.isoformat(timespec="seconds"), "threads": THREADS, "processor": processor(), "versions": versions(),
        "overview": overview(found), "foreign_load": load.processors(),
        "first_calls": calls, "cases": [each.as_dict() for each in found],
    }  # fmt: skip
    output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
