"""Defines the cases of benchmarks/gpu.py: kernels of texts on a CUDA device, their references, and the
machine's limits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import gpu_peers as peers
import gpu_texts as texts
import joinery as jn
import ml_dtypes
import numpy as np
from gpu_timing import LEFT_OUT, QUICK, Contender, Effort, GpuCase, WrongResult, fastest, sets_beyond, turns
from joinery.runtime.cuda.device import CudaDevice, cuda_device

OURS, WRONG = "joinery", "WRONG: joinery"
DTYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32)}
MATRIX_FMAS = {80: 1024, 86: 512, 89: 512, 90: 2048, 100: 4096}
"""Capability → dense multiply-adds of 16-bit floats per clock and multiprocessor. Source: NVIDIA's
architecture papers."""
Launch = tuple[tuple[int, ...], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the inputs. small: sizes for the simulator.  without, trying: as in `Effort`."""

    small: bool = False
    without: frozenset[str] = frozenset()
    trying: Callable[[str], None] = lambda what: None

    @property
    def effort(self) -> Effort:
        return Effort(**(QUICK if self.small else {}), trying=self.trying, without=self.without)

    def pick(self, full: Any, small: Any) -> Any:
        return small if self.small else full


def uses_descriptors(device: CudaDevice) -> bool:
    return device.capability >= 90


def buffers(device: CudaDevice, arrays: Sequence[Any], sets: int) -> list[list[jn.Buffer]]:
    """Copies the arrays to the device, `sets` times."""
    first = [jn.Buffer(array, device=device) for array in arrays]
    found = [first]
    for _ in range(sets - 1):
        found.append([jn.Buffer(each.shape, each.dtype, device) for each in first])
        for new, old in zip(found[-1], first, strict=True):
            new.copy_from(old)
    return found


class Recorded:
    """Recorded launches of a text, one for each set of arguments, whose memory they keep alive."""

    def __init__(self, device: CudaDevice, text: str, warps: int, launches: Sequence[Launch]) -> None:
        kernel = jn.kernel.from_ttir(text, cache=False)
        grid, arguments = launches[0]
        kernel.launch(grid, *arguments, device=device.name, warps=warps)  # loads the code, which is not allowed in a recording
        self._launches = launches
        self._recordings = [
            device.capture(lambda g=grid, a=arguments: kernel.launch(g, *a, device=device.name, warps=warps))
            for grid, arguments in launches
        ]

    def __call__(self, number: int) -> None:
        self._recordings[number].replay()


def our_fastest(
    device: CudaDevice,
    candidates: dict[str, tuple[str, int, Sequence[Launch]]],
    out: jn.Buffer,
    check: Callable[[Any], None],
    sizes: Sizes,
    notes: dict[str, str],
) -> Contender:
    """Returns the fastest of a kernel's texts. candidates: label → (text, warps, launches). Texts that need
    more than the device has, and texts with wrong results, are left out, which the notes say."""
    working = []
    for label, (text, warps, launches) in candidates.items():
        if label in sizes.without:
            notes[f"{WRONG} {label}"] = LEFT_OUT
            continue
        sizes.trying(label)
        try:
            run = Recorded(device, text, warps, launches)
            contender = Contender(label, run, device.time, lambda: out.numpy().astype(np.float32), ours=True)
            contender.run(0)
            check(contender.result())
            working.append(contender)
        except (jn.UserError, jn.UnsupportedError, jn.DeviceError) as error:
            device.check_alive()
            notes[f"{OURS} {label}"] = str(error).splitlines()[0][:200]
        except WrongResult as error:
            notes[f"{WRONG} {label}"] = str(error)
        out.copy_from(np.zeros(out.shape, out.dtype))
    if not working:
        raise RuntimeError(f"no configuration works: {notes}")
    best = fastest(working, len(next(iter(candidates.values()))[2]), sizes.effort)
    notes[OURS] = f"configuration {best.name}, the fastest of {len(working)}"
    return Contender(OURS, best.run, best.time, best.result, ours=True)


def compare(expected: Any, pick: Callable[[Any], Any], tolerance: float) -> Callable[[Any], None]:
    """Makes a check of the elements that `pick` takes from a result: their errors, relative to the largest
    expected value."""
    scale = float(np.abs(expected).max())

    def check(result: Any) -> None:
        found = pick(result)
        if found.shape != expected.shape:
            raise WrongResult(f"shape {found.shape}, expected {expected.shape}")
        error = np.abs(found.astype(np.float64) - expected) / scale
        worst = float(np.where(np.isnan(error), np.inf, error).max())
        if not worst <= tolerance:
            bad = int((~(error <= tolerance)).sum())
            raise WrongResult(f"{bad} of {error.size} elements are off, by {worst:.2e} at most (allowed {tolerance:.0e})")

    return check


# -- limits -----------------------------------------------------------------------------------


def copy_limit(device: CudaDevice, nbytes: int, effort: Effort) -> Callable[[], float]:
    """Returns a function that measures a copy on the device which reads and writes `nbytes` in all, in
    milliseconds."""
    half = max(nbytes // 2, 1)
    count = sets_beyond(device.l2_bytes, half)
    blocks = [device.allocate(half) for _ in range(count + 1)]
    pairs = list(pairwise(blocks))
    numbers = turns(count)

    def copy() -> None:
        source, target = pairs[next(numbers)]
        device.copy(target, 0, source, 0, half)

    def measure() -> float:
        for _ in range(effort.least):
            copy()
        return statistics.median(device.time(copy, effort.least + 2))

    return measure


def matrix_limit(device: CudaDevice, flops: float) -> tuple[Callable[[], float], str]:
    known = [each for each in MATRIX_FMAS if each <= device.capability]
    rate = 2.0 * MATRIX_FMAS[max(known)] * device.processors * device.clock_hz
    reason = f"{flops / 1e9:.0f} GFLOP at {rate / 1e12:.0f} TFLOP/s: {device.processors} multiprocessors at their highest clock"
    return lambda: flops / rate * 1e3, reason


# -- cases ------------------------------------------------------------------------------------


def matmul(full: int) -> Callable[[Sizes], GpuCase]:
    def make(sizes: Sizes) -> GpuCase:
        device, side = cuda_device(), sizes.pick(full, 96)
        a, b = (random((side, side), "bf16", seed) for seed in (1, 2))
        sets = sets_beyond(device.l2_bytes, 3 * a.nbytes)
        made = buffers(device, (a, b, np.zeros_like(a)), sets)
        rows = np.arange(0, side, sizes.pick(37, 5))  # some of every tile
        check = compare(a[rows].astype(np.float32) @ b.astype(np.float32), lambda c: c[rows], 1e-2)
        described = uses_descriptors(device)
        candidates = {}
        tiles = [(128, 256, 64, 8), (128, 128, 64, 8), (128, 128, 64, 4), (256, 128, 64, 8), (128, 128, 32, 8)]
        for m, n, k, warps in sizes.pick(tiles, [(64, 32, 32, 4), (32, 64, 16, 4)]):
            down, across = -(-side // m), -(-side // n)
            launches: list[Launch] = []
            for each in made:
                tensors = [jn.TensorDescriptor(x) for x in each] if described else each
                scalars = (side, down, across) if described else (side, down, across, side, side)
                launches.append(((down * across,), (*tensors, *scalars)))
            text = (texts.matmul_described if described else texts.matmul_pointers)(m, n, k)
            candidates[f"{m}x{n}x{k}, {warps} warps"] = text, warps, launches
            if described:
                fewer: list[Launch] = [((min(device.processors, down * across),), each) for _, each in launches]
                candidates[f"{m}x{n}x{k}, {warps} warps, persistent"] = texts.matmul_persistent(m, n, k), warps, fewer
        notes: dict[str, str] = {}
        contenders = [our_fastest(device, candidates, made[0][2], check, sizes, notes)]
        if peers.has_torch():
            torch, own = peers.torch_or_why(), peers.tensors((a, b, np.zeros_like(a)), sets)
            cublas = peers.torch_contender(
                "torch", lambda i: torch.matmul(own[i][0], own[i][1], out=own[i][2])
            )
            contenders += peers.attempted([cublas], check, sizes.effort, notes)
            contenders += with_triton(lambda triton: triton.matmuls(own), sets, check, sizes, notes)
        limit, reason = matrix_limit(device, 2.0 * side**3)
        return GpuCase(f"matmul bf16 {side}", sets, contenders, check, limit, reason, notes)

    return make


def with_triton(
    candidates: Callable[[Any], Any], sets: int, check: Callable[[Any], None], sizes: Sizes, notes: dict[str, str]
) -> list[Contender]:
    triton = peers.triton_or_why()
    if isinstance(triton, str):
        notes["Triton"] = triton
        return []
    return peers.triton_contender("Triton", candidates(triton), sets, check, sizes.effort, notes)


def attention(causal: bool) -> Callable[[Sizes], GpuCase]:
    def make(sizes: Sizes) -> GpuCase:
        device = cuda_device()
        batch, heads, length, width = sizes.pick((4, 16, 4096, 128), (1, 2, 128, 32))
        shape = (batch * heads, length, width)
        arrays = [random(shape, "bf16", seed, extent) for seed, extent in ((3, 6), (4, 1), (5, 1))]  # few keys have weight
        sets = sets_beyond(device.l2_bytes, 4 * arrays[0].nbytes)
        flat = [array.reshape(-1, width) for array in arrays]
        made = buffers(device, (*flat, np.zeros_like(flat[0])), sets)
        scale = 1 / math.sqrt(width)
        rows = np.arange(0, length, sizes.pick(61, 7))  # some of every program's block
        expected = attention_rows(arrays, rows, scale, causal)
        check = compare(expected, lambda o: o.reshape(shape)[:, rows], 2e-2)
        described = uses_descriptors(device)
        candidates = {}
        blocks = [(128, 64, 8), (64, 64, 4), (128, 128, 8), (64, 128, 4), (64, 32, 4)]
        for q, k, warps in sizes.pick(blocks, [(64, 32, 4), (32, 32, 4)]):
            grid = (length // q, batch * heads)
            launches: list[Launch] = []
            for each in made:
                tensors = [jn.TensorDescriptor(x) for x in each] if described else each
                launches.append((grid, (*tensors, length, scale * texts.LOG2_E)))
            text = texts.attention(q, k, width, causal=causal, described=described)
            candidates[f"{q}x{k}, {warps} warps"] = text, warps, launches
        notes: dict[str, str] = {}
        contenders = [our_fastest(device, candidates, made[0][3], check, sizes, notes)]
        if peers.has_torch():
            torch = peers.torch_or_why()
            wide = [array.reshape(batch, heads, length, width) for array in arrays]
            own = peers.tensors(wide, sets)
            attend = torch.nn.functional.scaled_dot_product_attention
            attending = [
                peers.torch_contender("torch", lambda i: attend(*own[i], is_causal=causal)),
                peers.torch_contender("torch, cuDNN", lambda i: with_cudnn(torch, lambda: attend(*own[i], is_causal=causal))),
            ]
            contenders += peers.attempted(attending, check, sizes.effort, notes)
            others = [[*(x.reshape(shape) for x in each), torch.empty_like(each[0]).reshape(shape)] for each in own]
            contenders += with_triton(lambda triton: triton.attentions(others, scale, causal), sets, check, sizes, notes)
        pairs = length * (length + 1) / 2 if causal else length * length
        limit, reason = matrix_limit(device, 4.0 * batch * heads * pairs * width)
        title = f"attention bf16 {batch}x{heads}x{length}x{width}{' causal' if causal else ''}"
        return GpuCase(title, sets, contenders, check, limit, reason, notes)

    return make


def with_cudnn(torch: Any, call: Callable[[], Any]) -> Any:
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.CUDNN_ATTENTION]):
        return call()


def attention_rows(arrays: Sequence[Any], rows: Any, scale: float, causal: bool) -> Any:
    """Computes the result in some rows of every head."""
    q, k, v = (array.astype(np.float32) for array in arrays)
    scores = q[:, rows] @ k.transpose(0, 2, 1) * np.float32(scale)
    if causal:
        scores = np.where(np.arange(k.shape[1])[None, None, :] <= rows[None, :, None], scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


def softmax(elem: str) -> Callable[[Sizes], GpuCase]:
    def make(sizes: Sizes) -> GpuCase:
        count, columns = sizes.pick((8192, 8192), (3, 100))
        x = random((count, columns), elem, 6)
        expected = softmax_of(x.astype(np.float32))

        def with_torch(torch: Any, own: Sequence[Any]) -> Any:
            return torch.softmax(own[0], dim=-1)

        return rows_case("softmax", elem, (x,), (), expected, texts.softmax, with_torch, sizes)

    return make


def softmax_of(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def layer_norm(elem: str) -> Callable[[Sizes], GpuCase]:
    def make(sizes: Sizes) -> GpuCase:
        count, columns = sizes.pick((8192, 8192), (3, 100))
        x, w, b = random((count, columns), elem, 7), random((columns,), elem, 8), random((columns,), elem, 9)
        wide = x.astype(np.float32)
        centred = wide - wide.mean(axis=1, keepdims=True)
        expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(1e-5))
        expected = expected * w.astype(np.float32) + b.astype(np.float32)

        def with_torch(torch: Any, own: Sequence[Any]) -> Any:
            return torch.nn.functional.layer_norm(own[0], (columns,), own[1], own[2], 1e-5)

        return rows_case("layer_norm", elem, (x, w, b), (1e-5,), expected, texts.layer_norm, with_torch, sizes)

    return make


def rows_case(
    name: str,
    elem: str,
    arrays: Sequence[Any],
    scalars: tuple[float, ...],
    expected: Any,
    text: Callable[[int, str], str],
    with_torch: Callable[[Any, Sequence[Any]], Any],
    sizes: Sizes,
) -> GpuCase:
    """Makes a case of a kernel that reads rows once and writes them once, one program per row."""
    device = cuda_device()
    count, columns = arrays[0].shape
    sets = sets_beyond(device.l2_bytes, 2 * arrays[0].nbytes)
    made = buffers(device, (*arrays, np.zeros_like(arrays[0])), sets)
    check = compare(expected, lambda o: o, 1e-5 if elem == "f32" else 1e-2)
    block = 1 << (columns - 1).bit_length()
    launches: list[Launch] = [((count,), (*each, columns, *scalars)) for each in made]
    candidates = {f"{warps} warps": (text(block, elem), warps, launches) for warps in sizes.pick((4, 8, 16), (4,))}
    notes: dict[str, str] = {}
    contenders = [our_fastest(device, candidates, made[0][-1], check, sizes, notes)]
    if peers.has_torch():
        torch, own = peers.torch_or_why(), peers.tensors((*arrays, np.zeros_like(arrays[0])), sets)
        contender = peers.torch_contender("torch", lambda i: with_torch(torch, own[i]))
        contenders += peers.attempted([contender], check, sizes.effort, notes)
        contenders += with_triton(
            lambda triton: triton.rows(getattr(triton, name), own, *scalars), sets, check, sizes, notes
        )
    nbytes = 2 * arrays[0].nbytes
    reason = f"a copy of {nbytes // 2 / 1e6:.0f} MB on the device"
    limit = copy_limit(device, nbytes, sizes.effort)
    return GpuCase(f"{name} {elem} {count}x{columns}", sets, contenders, check, limit, reason, notes)


def vector_add(sizes: Sizes) -> GpuCase:
    """Makes a case of the text kernels/gpu_vec_add.ttir."""
    device, size = cuda_device(), sizes.pick(1 << 26, 2000)
    x, y = random((size,), "f32", 10), random((size,), "f32", 11)
    sets = sets_beyond(device.l2_bytes, 3 * x.nbytes)
    made = buffers(device, (x, y, np.zeros_like(x)), sets)
    check = compare(x + y, lambda o: o, 1e-6)
    text = (Path(__file__).parent / "kernels" / "gpu_vec_add.ttir").read_text()
    launches: list[Launch] = [((-(-size // 1024),), (*each, size)) for each in made]
    notes: dict[str, str] = {}
    contenders = [our_fastest(device, {"4 warps": (text, 4, launches)}, made[0][2], check, sizes, notes)]
    if peers.has_torch():
        torch, own = peers.torch_or_why(), peers.tensors((x, y, np.zeros_like(x)), sets)
        contender = peers.torch_contender("torch", lambda i: torch.add(own[i][0], own[i][1], out=own[i][2]))
        contenders += peers.attempted([contender], check, sizes.effort, notes)
    limit, reason = copy_limit(device, 3 * x.nbytes, sizes.effort), f"a copy of {1.5 * x.nbytes / 1e6:.0f} MB on the device"
    return GpuCase(f"vector add f32 {size}", sets, contenders, check, limit, reason, notes)


def random(shape: tuple[int, ...], elem: str, seed: int, extent: float = 1) -> Any:
    """Returns random numbers from -extent to extent."""
    generator = np.random.default_rng(seed)
    return ((generator.random(shape, np.float32) * 2 - 1) * np.float32(extent)).astype(DTYPES[elem])


CASES: dict[str, Callable[[Sizes], GpuCase]] = {
    "matmul-4096": matmul(4096),
    "matmul-8192": matmul(8192),
    "attention": attention(causal=False),
    "attention-causal": attention(causal=True),
    "softmax-f32": softmax("f32"),
    "softmax-bf16": softmax("bf16"),
    "layer-norm-f32": layer_norm("f32"),
    "layer-norm-bf16": layer_norm("bf16"),
    "vec-add": vector_add,
}
