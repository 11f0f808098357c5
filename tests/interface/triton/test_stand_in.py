"""torch's CUDA surface as suites find it: in processes of their own, since the stand-in lasts as long as a process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

START = """
import torch
from joinery.interface.triton.testing.stand_in import install
install()
"""


def run(text: str, folder: Path) -> None:
    """Run statements under the stand-in."""
    file = folder / "program.py"
    file.write_text(START + textwrap.dedent(text))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_implementations_for_cuda_are_called_and_see_cuda(tmp_path: Path) -> None:
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
    )


def test_backward_passes_see_cuda(tmp_path: Path) -> None:
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
    )


def test_products_that_say_the_dtype_of_their_result(tmp_path: Path) -> None:
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
        try:
            torch.mm(a, a, out_dtype=torch.float32)
        except RuntimeError as error:
            assert "shapes" in str(error)
        else:
            raise AssertionError
        """,
        tmp_path,
    )


def test_functions_are_not_compiled_for_a_gpu(tmp_path: Path) -> None:
    run(
        """
        add = torch.compile(lambda x: x + 1)
        assert add(torch.zeros(3, device="cuda")).tolist() == [1, 1, 1]
        """,
        tmp_path,
    )
