"""torch's table of operators, with its own sample inputs, compiled by its inductor to Triton kernels, beside eager torch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (torch.float32, torch.int64)
SAMPLES = 3
UNDEFINED = ("empty", "new_empty", "empty_like", "empty_strided", "empty_permuted", "new_empty_strided")
"""Operators that return memory as it is."""
CASES = {
    f"{op.name}{f'.{op.variant_test_name}' if op.variant_test_name else ''}-{dtype}".replace("torch.", ""): (op, dtype)
    for op in op_db
    for dtype in DTYPES
    if op.name not in UNDEFINED and op.supports_dtype(dtype, "cpu")
}


@pytest.fixture(autouse=True)
def _by_triton() -> Any:
    import torch._inductor.config as config

    torch._dynamo.reset()
    # Eager torch rounds after every operation, which inductor does where it is asked to.
    options = {"compile_threads": 1, "fx_graph_cache": False, "fallback_random": True, "emulate_precision_casts": True}
    with config.patch(cpu_backend="triton", **options):
        yield


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    op, dtype = CASES[name]
    compiled = torch.compile(lambda *args, **keywords: op(*args, **keywords))
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES):
        arguments = (sample.input, *sample.args)
        torch.manual_seed(0)
        expected = op(*arguments, **sample.kwargs)
        torch.manual_seed(0)
        found = compiled(*arguments, **sample.kwargs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
