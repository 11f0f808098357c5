"""torch's CUDA surface as suites find it: in processes of their own, since the stand-in lasts as long as a process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

DEVICES = {"a device of torch's": "", "one device": "guard.register = lambda torch: False"}


def one_can_tell_torch() -> bool:
    """Whether torch is built without GPUs, so that "cuda:0" is a device of its own."""
    return torch.version.cuda is None and torch.version.hip is None


START = """
import torch
from joinery.interface.triton.testing import guard
{devices}
from joinery.interface.triton.testing.stand_in import install
install()
"""


@pytest.fixture(params=DEVICES.values(), ids=DEVICES)
def devices(request: pytest.FixtureRequest) -> str:
    """The way in which torch gets its device: a statement for the start of programs."""
    return str(request.param)


def run(text: str, folder: Path, devices: str = "") -> None:
    """Run statements under the stand-in."""
    file = folder / "program.py"
    file.write_text(START.format(devices=devices) + textwrap.dedent(text))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_implementations_for_cuda_are_called_and_see_cuda(tmp_path: Path, devices: str) -> None:
    run(
        """
        seen = []
        def negate(x):
            seen.append((x.device.type, x.is_cuda))
            return torch.empty(x.shape, device="cuda").copy_(torch.mul(x, -1))
        library = torch.library.Library("aten", "IMPL")
        library.impl("neg", negate, "CUDA")
        x = torch.arange(4.0, device="cuda")
        assert (-x).tolist() == [0, -1, -2, -3] and seen == [("cuda", True)], seen
        def copy(x, **options):
            keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)
            options["device"] = torch.device("cuda")
            return torch.ops.aten._to_copy.default.redispatch(keys, x, **options)
        library.impl("_to_copy", copy, "CUDA")
        assert x.to(torch.float64).tolist() == [0, 1, 2, 3]
        del library

        @torch.library.custom_op("suite::double", mutates_args=(), device_types="cuda")
        def double(x: torch.Tensor) -> torch.Tensor:
            seen.append(x.device.type)
            return torch.ones(x.shape, device="cuda") * 2 * x
        assert double(x).tolist() == [0, 2, 4, 6] and seen[1:] == ["cuda"], seen

        own = torch.library.Library("suite", "FRAGMENT")
        own.define("triple(Tensor x) -> Tensor")
        own.impl("triple", lambda x: 3 * x, dispatch_key="CUDA")
        assert torch.ops.suite.triple(x).tolist() == [0, 3, 6, 9]
        """,
        tmp_path,
        devices,
    )


def test_backward_passes_see_cuda(tmp_path: Path, devices: str) -> None:
    run(
        """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x
            @staticmethod
            def backward(ctx, gradient):
                x, = ctx.saved_tensors
                assert x.is_cuda and gradient.device == torch.device("cuda", 0)
                return torch.full(x.shape, 2.0, device="cuda") * x * gradient
        x = torch.arange(3.0, device="cuda", requires_grad=True)
        Square.apply(x).sum().backward()
        assert x.grad.tolist() == [0, 2, 4]
        assert torch.autograd.grad(Square.apply(x).sum(), x)[0].tolist() == [0, 2, 4]
        """,
        tmp_path,
        devices,
    )


def test_what_the_cpu_lacks(tmp_path: Path, devices: str) -> None:
    run(
        """
        a, b = torch.randn(5, 300, device="cuda").bfloat16(), torch.randn(300, 7, device="cuda").bfloat16()
        c, exact = torch.randn(5, 7, device="cuda"), a.double() @ b.double()
        for found in (torch.mm(a, b, out_dtype=torch.float32), torch.mm(a, b, torch.float32)):
            assert found.dtype == torch.float32
            torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)
        found = torch.addmm(c, a, b, beta=2, out_dtype=torch.float32)
        torch.testing.assert_close(found.double(), 2 * c.double() + exact, rtol=1e-5, atol=1e-4)
        assert torch.mm(a, b).dtype == torch.bfloat16
        counted = torch.histc(torch.tensor([0, 2, 2, 3], device="cuda"), bins=4, min=0, max=3)
        assert counted.tolist() == [1, 0, 2, 1] and counted.dtype == torch.int64
        try:
            torch.mm(a, a, out_dtype=torch.float32)
        except RuntimeError as error:
            assert "shapes" in str(error)
        else:
            raise AssertionError
        """,
        tmp_path,
        devices,
    )


def test_default_devices(tmp_path: Path, devices: str) -> None:
    run(
        """
        import torch.utils._device
        with torch.device("cuda"):
            assert torch.zeros(3).is_cuda and torch.arange(3, device="cuda:0").tolist() == [0, 1, 2]
        torch.set_default_device("cuda:0")
        assert torch.empty(2).device.type == "cuda" and torch.randn(2).new_zeros(2).tolist() == [0, 0]
        torch.set_default_device(None)
        """,
        tmp_path,
        devices,
    )


def test_functions_are_not_compiled_for_a_gpu(tmp_path: Path, devices: str) -> None:
    run(
        """
        add = torch.compile(lambda x: x + 1)
        assert add(torch.zeros(3, device="cuda")).tolist() == [1, 1, 1]

        @torch.compile(dynamic=True)
        def double(x):
            return x * 2
        assert double(torch.ones(2, device="cuda")).tolist() == [2, 2]
        """,
        tmp_path,
        devices,
    )


@pytest.mark.skipif(not one_can_tell_torch(), reason="this torch cannot be told of a device")
def test_another_back_end_compiles_functions(tmp_path: Path) -> None:
    run(
        """
        graphs = []
        def noted(graph, inputs):
            graphs.append(inputs[-1].device.type)
            return graph.forward
        add = torch.compile(lambda x: x + torch.ones(x.shape, device=x.device), backend=noted, dynamic=True)
        for n in (3, 5, 8):
            assert add(torch.ones(n, device="cuda")).tolist() == [2] * n
        assert graphs == ["cuda"], graphs
        """,
        tmp_path,
    )


@pytest.mark.slow
@pytest.mark.skipif(not one_can_tell_torch(), reason="this torch cannot be told of a device")
def test_inductor_compiles_for_the_device_where_it_is_asked_to(tmp_path: Path) -> None:
    run(
        """
        import os
        from joinery.interface.triton.testing import record
        from joinery.interface.triton.testing.suites import Choices, prepare

        os.environ["TORCHDYNAMO_DISABLE"] = "0"
        prepare(Choices("native", "cuda", "sm_90a", None, True, 1))
        launched = record.start()

        def weigh(x, y):
            return torch.softmax(x * y + 1, -1).sum(0)

        x, y = (torch.randn(64, 100, device="cuda", requires_grad=True) for _ in range(2))
        found = torch.compile(weigh)(x, y)
        found.square().sum().backward()
        exact = [each.detach().cpu().requires_grad_() for each in (x, y)]
        expected = weigh(*exact)
        expected.square().sum().backward()
        torch.testing.assert_close([found.cpu(), x.grad.cpu(), y.grad.cpu()], [expected, *(each.grad for each in exact)])
        assert len(launched.launches) >= 3 and all(name.startswith("triton_") for name in launched.launches), launched.launches
        """,
        tmp_path,
    )


def test_generators_have_a_seed_and_an_offset(tmp_path: Path, devices: str) -> None:
    run(
        """
        def state(generator):
            return tuple(generator.get_state().view(torch.int64).tolist())

        own = torch.Generator(device="cuda").manual_seed(7)
        assert isinstance(own, torch.Generator) and own.device.type == "cuda" and state(own) == (7, 0)
        first = own.get_state()
        drawn = torch.rand(5, device="cuda", generator=own)
        assert state(own)[0] == 7 and state(own)[1] > 0 and state(own) == state(own)
        more = torch.rand(5, device="cuda", generator=own)
        own.set_state(first)
        assert torch.equal(torch.rand(5, device="cuda", generator=own), drawn)
        assert torch.equal(torch.rand(5, device="cuda", generator=own), more)

        default = torch.cuda.default_generators[torch.cuda.current_device()]
        torch.manual_seed(3)
        seed, offset = state(default)
        moved = torch.tensor([seed, offset + 40]).view(torch.uint8)
        default.set_state(moved)
        assert (seed, offset) == (3, 0) and state(default) == (3, 40) and default.get_offset() == 40
        torch.manual_seed(3)
        kept = torch.cuda.get_rng_state()
        drawn = torch.randn(4, device="cuda")
        torch.cuda.set_rng_state(kept)
        assert kept.numel() == 16 and torch.equal(torch.randn(4, device="cuda"), drawn)
        assert torch.Generator().get_state().numel() > 16 and torch.cuda.initial_seed() == 3
        """,
        tmp_path,
        devices,
    )


def test_autotuning_is_cut_after_pruning_and_goes_on_after_what_does_not_compile(tmp_path: Path) -> None:
    run(
        """
        import triton
        import triton.language as tl
        from joinery.interface.triton.activation import activate
        from joinery.interface.triton.testing.suites import become_cuda, cut_autotuning

        activate("native", None, "sm_90a", "strict", False)
        become_cuda()
        cut_autotuning(1)

        def kernel(x, n, BLOCK: tl.constexpr):
            tl.static_assert(BLOCK <= 64)
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(x + i, BLOCK, mask=i < n)

        def tuned(sizes, kept):
            configs = [triton.Config({"BLOCK": size}) for size in sizes]
            pruning = {"early_config_prune": lambda every, named, **rest: [c for c in every if c.kwargs["BLOCK"] in kept]}
            return triton.autotune(configs, key=["n"], prune_configs_by=pruning)(triton.jit(kernel))

        x = torch.zeros(100, dtype=torch.int32, device="cuda")
        grid = lambda named: (triton.cdiv(100, named["BLOCK"]),)
        for sizes, kept, chosen in [((16, 32, 64), (32, 64), 32), ((256, 128, 64, 32), (256, 128, 64, 32), 64)]:
            program = tuned(sizes, kept)
            for _ in range(2):
                x.zero_()
                program[grid](x, 100)
                assert x.tolist() == [chosen] * 100, x
        try:
            tuned((128, 256), (128, 256))[grid](x, 100)
        except triton.compiler.errors.CompileTimeAssertionFailure:
            pass
        else:
            raise AssertionError
        assert triton.testing.nvsmi(["clocks.max.sm", "clocks.current.memory"]) == [1000, 1000]  # by which pruning models speed
        assert triton.testing.get_max_tensorcore_tflops(torch.float16, 1000) > 0
        try:
            triton.testing.nvsmi(["power.draw", "clocks.max.sm"])
        except FileNotFoundError as error:
            assert "nvidia-smi" in str(error)
        else:
            raise AssertionError
        """,
        tmp_path,
    )
