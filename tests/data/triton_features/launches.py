"""Launches: grids, arguments, autotuning, hooks, options, texts, errors."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import joinery
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from features import MODES, Absent, feature, needs
from triton.compiler import CompiledKernel
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction


@triton.jit
def add(x, y, out, n, factor, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) * factor + tl.load(y + i, mask=inside), mask=inside)


def added() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    x, y = torch.randn(100), torch.randn(100)
    return x, y, torch.zeros(100), x * 2 + y


@feature("launch: grids, views, arguments by name", MODES)
def launches() -> None:
    x, y, out, expected = added()
    add[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, y, out, 100, 2.0, BLOCK=32)
    torch.testing.assert_close(out, expected)
    out.zero_()
    add[(0,)](x, y, out, 100, 2.0)
    assert not out.any()
    add[(2, 1, 1)](x, y, out, n=100, factor=2)
    torch.testing.assert_close(out, expected)
    whole = torch.zeros(120)
    add[(2,)](x[3:], y[:-3], whole[7:], 97, 2.0)
    torch.testing.assert_close(whole[7:104], x[3:] * 2 + y[:-3])
    assert not whole[104:].any()


@triton.jit
def configured(out, maybe, FLAG: tl.constexpr, NAME: tl.constexpr, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.full((BLOCK,), 1.5, DTYPE)
    if FLAG:
        value += 1
    if NAME == "twice":
        value += value
    if maybe is not None:
        value += tl.load(maybe)
    tl.store(out + i, value)


@feature("constexprs, None, types and texts as arguments", MODES)
def constexprs() -> None:
    out = torch.zeros(16)
    for flag, name, dtype, maybe in [
        (True, "once", tl.float32, None), (False, "twice", tl.float16, torch.ones(1)), (True, "twice", tl.bfloat16, None),
    ]:  # fmt: skip
        configured[(1,)](out, maybe, flag, name, dtype, BLOCK=16)
        assert (out == (1.5 + flag) * (1 + (name == "twice")) + (maybe is not None)).all()


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b in (32, 64) for w in (1, 4)], key=["n"])
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=["n"], reset_to_zero=["total"])
@triton.jit
def tuned_sum(x, total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@feature("autotune")
def autotune() -> str | None:
    x, out, grid = torch.randn(100), torch.zeros(100), lambda meta: (triton.cdiv(100, meta["BLOCK"]),)
    tuned[grid](x, out, 100)
    torch.testing.assert_close(out, x + 1)
    assert tuned.best_config.kwargs["BLOCK"] in (32, 64)
    total = torch.zeros(1)
    tuned_sum[grid](x, total, 100)
    torch.testing.assert_close(total, x.sum()[None])
    assert len(tuned_sum.configs_timings) == 2
    asks = "driver.active" in inspect.getsource(type(tuned).__init__)
    return "`enable()` has to stand before `@triton.autotune`, which asks for the driver" if asks else None


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def heuristic(out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 1 if EVEN else 0, mask=i < n)


@feature("heuristics")
def heuristics() -> None:
    out = torch.full((16,), 7, dtype=torch.int32)
    heuristic[(1,)](out, 16, BLOCK=16)
    assert (out == 1).all()
    heuristic[(1,)](out, 15, BLOCK=16)
    assert (out[:15] == 0).all()
    assert out[15] == 1


class Pair(NamedTuple):
    source: object
    target: object


@triton.jit
def tuples(pair, numbers, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(pair[1] + i, tl.load(pair[0] + i) * numbers[0] + numbers[1][1])


@triton.jit
def named_tuples(pair, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(pair.target + i, tl.load(pair.source + i))


@feature("tuples and named tuples", MODES)
def tuples_of_arguments() -> None:
    x, out = torch.randn(16), torch.zeros(16)
    tuples[(1,)]((x, out), (2.0, (None, 1)), BLOCK=16)
    torch.testing.assert_close(out, x * 2 + 1)
    named_tuples[(1,)](Pair(x, out), BLOCK=16)
    torch.testing.assert_close(out, x)


@feature("arrays of NumPy", MODES)
def arrays() -> None:
    for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8):
        x, y, out = (np.arange(1, 101).astype(dtype) for _ in range(3))
        add[(2,)](x[::-1][::-1], y, out=out, n=100, factor=1)
        assert (out == x + y).all(), dtype
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    named_tuples[(1,)](Pair(x, out), BLOCK=16)
    assert (out == x).all()
    tuples[(1,)](pair=(x, out), numbers=(2.0, (None, 1)), BLOCK=16)
    assert (out == 2 * x + 1).all()
    whole = np.zeros(32, np.float32)
    add[(1,)](whole[:8], whole[8:16] + 1, whole[16:24], 8, 1.0)
    assert whole.tolist() == [0.0] * 16 + [1.0] * 8 + [0.0] * 8


@triton.jit
def through_table(addresses, out, BLOCK: tl.constexpr):
    source = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + i, tl.load(source + i))


@feature("tables of pointers", ("native", "interpret"))
def tables() -> None:
    sources = [torch.randn(16) for _ in range(3)]
    out = torch.zeros(3, 16)
    through_table[(3,)](torch.tensor([t.data_ptr() for t in sources]), out, BLOCK=16)
    torch.testing.assert_close(out, torch.stack(sources))


def describe(grid: object, metadata: object, args: dict[str, object]) -> dict[str, object]:
    return {"n": args["n"], "programs": grid[0]}


@triton.jit(launch_metadata=describe)
def hooked(x, n, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), n)


@feature("hooks of launches and compilations")
def hooks() -> str | None:
    log: list[object] = []
    x = torch.zeros(16)

    def before(metadata: object) -> None:
        log.append(("enter", metadata.get()["n"], metadata.get()["name"]))

    def after(metadata: object) -> None:
        log.append(("exit", x[0].item()))

    def compiled(*args: object, **keywords: object) -> None:
        log.append(("compiled", keywords["fn"].name.split(".")[-1]))

    differs = None
    if not hasattr(triton, "knobs"):
        CompiledKernel.launch_enter_hook, CompiledKernel.launch_exit_hook = before, after
        JITFunction.compiled_hook = compiled
        differs = "attributes of `CompiledKernel` and `JITFunction`"
    elif hasattr(triton.knobs.runtime.launch_enter_hook, "add"):
        triton.knobs.runtime.launch_enter_hook.add(before)
        triton.knobs.runtime.launch_exit_hook.add(after)
        triton.knobs.runtime.jit_post_compile_hook = compiled
    else:
        triton.knobs.runtime.launch_enter_hook, triton.knobs.runtime.launch_exit_hook = before, after
        triton.knobs.runtime.jit_post_compile_hook = compiled
        differs = "one hook of each kind"
    try:
        hooked.add_pre_run_hook(lambda *args, **keywords: log.append("run"))
        hooked[(1,)](x, 3, BLOCK=16)
    finally:
        if not hasattr(triton, "knobs"):
            CompiledKernel.launch_enter_hook = CompiledKernel.launch_exit_hook = JITFunction.compiled_hook = None
        elif differs is None:
            triton.knobs.runtime.launch_enter_hook.remove(before)
            triton.knobs.runtime.launch_exit_hook.remove(after)
            triton.knobs.runtime.jit_post_compile_hook = None
        else:
            triton.knobs.runtime.launch_enter_hook = triton.knobs.runtime.launch_exit_hook = None
            triton.knobs.runtime.jit_post_compile_hook = None
    assert log == ["run", ("compiled", "hooked"), ("enter", 3, "hooked"), ("exit", 3.0)], log
    return differs


@feature("warmup, and launches of what it made")
def warmup() -> None:
    kernel = add.warmup(torch.float32, torch.float32, torch.float32, 100, 2.0, BLOCK=128, grid=(1,))
    assert "tt.func public @add" in kernel.asm["ttir"]
    x, y, out, expected = added()
    kernel = add[(1,)](x, y, out, 100, 2.0, BLOCK=128)
    torch.testing.assert_close(out, expected)
    out.zero_()
    kernel[(1, 1, 1)](x, y, out, 100, 2.0, 128)
    torch.testing.assert_close(out, expected)


@triton.jit
def compiled_aside(x, value, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), value)


@feature("asynchronous compilation")
def asynchronous() -> None:
    mode = needs(triton, "AsyncCompileMode", "triton.AsyncCompileMode")
    x = torch.zeros(32)
    with ThreadPoolExecutor(2) as pool, mode(pool):
        for block in (16, 32):
            compiled_aside.warmup(torch.float32, 2.0, BLOCK=block, grid=(1,))
    compiled_aside[(1,)](x, 2.0, BLOCK=32)
    assert (x == 2).all()


@feature("do_bench")
def do_bench() -> None:
    x, y, out, _ = added()
    milliseconds = triton.testing.do_bench(lambda: add[(2,)](x, y, out, 100, 2.0), warmup=1, rep=2)
    assert 0 < milliseconds < 1000
    low, high = triton.testing.do_bench(lambda: add[(2,)](x, y, out, 100, 2.0), warmup=1, rep=2, quantiles=[0.2, 0.8])
    assert 0 < low <= high


@feature('texts: kernel.asm["ttir"], ["llir"], ["ptx"], ["asm"]')
def texts() -> None:
    x, y, out, _ = added()
    kernel = add[(2,)](x, y, out, 100, 2.0)
    assert "tt.func public @add" in kernel.asm["ttir"]
    assert "define" in kernel.asm["llir"]
    assert ".visible .entry" in kernel.asm["ptx"]
    assert "ret" in kernel.asm["asm"]
    with pytest.raises(KeyError, match="'ptx'"):
        kernel.asm["cubin"]


@triton.jit
def much_shared(a, b, out, M: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, M), tl.arange(0, K)
    x, y = tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * M + i[None, :])
    tl.store(out + i[:, None] * M + i[None, :], tl.dot(x, y))


@feature("OutOfResources for too much shared memory", ("ptxsim",))
def out_of_resources() -> None:
    a, b = torch.zeros(256, 256), torch.zeros(256, 256)
    with pytest.raises(OutOfResources, match="shared memory"):
        much_shared[(1,)](a, b, torch.zeros(256, 256), M=256, K=256, device="ptxsim", gpu="sm_80")


@feature("launches that are refused")
def refused() -> None:
    x, y, out, _ = added()
    for wrong in (torch.ones(100, device="meta"), torch.ones(100).to_sparse()):
        with pytest.raises((joinery.UserError, RuntimeError, NotImplementedError)):
            add[(2,)](wrong, y, out, 100, 2.0)
    with pytest.raises(KeyError, match="nonsense"):
        add[(2,)](x, y, out, 100, 2.0, nonsense=1)
    with pytest.raises(joinery.UserError, match="the grid"):
        add[(-1,)](x, y, out, 100, 2.0)
    with pytest.raises(joinery.UserError, match="device='cuda'"):
        add[(2,)](x, y, out, 100, 2.0, device="cuda")
    with pytest.raises(AssertionError, match="power of 2"):
        add[(2,)](x, y, out, 100, 2.0, num_warps=3)
    with pytest.raises(Exception, match=r"arange"):
        add[(2,)](x, y, out, 100, 2.0, BLOCK=48)


@triton.jit
def unmasked(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i), mask=i < n)


@feature("options of a launch: modes, threads, numerics, those of GPUs")
def options() -> None:
    for given in (
        {"interpret": True}, {"sanitize": True}, {"device": "ptxsim", "gpu": "sm_80"}, {"device": "cpu", "threads": 1},
        {"numerics": "fast"}, {"num_warps": 8, "num_stages": 2, "maxnreg": 64, "waves_per_eu": 1, "enable_fp_fusion": True},
    ):  # fmt: skip
        x, y, out, expected = added()
        add[(2,)](x, y, out, 100, 2.0, **given)
        torch.testing.assert_close(out, expected)
    with pytest.raises(joinery.SanitizerError, match="out-of-bounds") as found:
        unmasked[(1,)](torch.ones(100), torch.zeros(100), 100, BLOCK=128, sanitize=True)
    line = inspect.getsourcelines(unmasked.fn)[1] + 3
    assert f"launches.py:{line}" in str(found.value)


@feature("Gluon's kernels are refused")
def gluon() -> None:
    try:
        from triton.experimental import gluon
    except ImportError:
        raise Absent("no Gluon") from None

    @gluon.jit
    def kernel(x):
        pass

    with pytest.raises(joinery.UnsupportedError, match="Gluon"):
        kernel[(1,)](torch.zeros(1))
