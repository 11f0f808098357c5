"""What Triton cannot take for an argument of a kernel, in words: which one it is, why, and what to pass in its place.

Triton itself looks up the name of a dtype in a table, and says which name is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....promotion.errors import UserError


class ArgumentError(UserError, TypeError):
    """An argument that a kernel cannot be given: a `TypeError`, as Triton has for some of them."""

    __module__ = "joinery.triton"


def explain(parameters: Sequence[Any], args: Sequence[Any], keywords: dict[str, Any], error: Exception) -> None:
    """Raise `ArgumentError` for the first argument that is the reason why arguments were not bound, if one is."""
    names = [each.name for each in parameters]
    constants = {each.name for each in parameters if each.is_constexpr}
    for name, value in [*zip(names, args, strict=False), *keywords.items()]:
        if name in names and name not in constants:
            for what, each in _parts(name, value):
                reason = _reason(what, each)
                if reason is not None:
                    raise ArgumentError(f"{what}: {reason}") from error


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        for i, each in enumerate(value):
            yield from _parts(f"{name}[{i}]", each)
    else:
        yield name, value


def _reason(what: str, value: Any) -> str | None:
    """Why a value is no argument, and what would be; None if it is one as far as is known."""
    if isinstance(value, np.ndarray | np.generic):
        return _reason_of_array(what, value)
    if hasattr(value, "dtype") and hasattr(value, "data_ptr"):
        return _reason_of_tensor(what, value)
    kind = type(value).__name__
    if isinstance(value, complex):
        return f"a complex number; kernels compute with real ones; fix: pass {what}.real and {what}.imag"
    if kind.endswith("Storage") and hasattr(value, "data_ptr"):
        return f"a {kind}, which has no dtype; fix: pass a tensor that lies in it"
    if isinstance(value, str | bytes | list | dict | set):
        return f"a {kind}; kernels take tensors and numbers; fix: a tensor, or a parameter declared as {what}: tl.constexpr"
    return None


def _reason_of_array(what: str, value: Any) -> str | None:
    dtype, kind = value.dtype, "a scalar" if isinstance(value, np.generic) else "an array"
    fix = "complex numbers are pairs of real ones; fix: "
    if dtype.kind == "c":
        real = f"pass {what}.real and {what}.imag" if kind == "a scalar" else f"pass {what}.view({what}.real.dtype)"
        return f"{kind} of {dtype}; {fix}{real}"
    if dtype.kind not in "biuf" and dtype.name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return f"{kind} of {dtype}, which holds no numbers; fix: .astype(…) of it"
    if dtype.itemsize > 8:
        return f"{kind} of {dtype}, which is wider than 64 bits; fix: {what}.astype(np.float64)"
    if isinstance(value, np.ma.MaskedArray):
        fix = f"pass {what}.filled(…), or {what}.data and np.ma.getmaskarray({what})"
        return f"a {type(value).__name__}, whose mask kernels do not see; fix: {fix}"
    if isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap):
        return f"a {type(value).__name__}, which may mean more than its memory says; fix: pass np.asarray({what})"
    return f"{kind} of NumPy; fix: pass {what}.item()" if kind == "a scalar" else None


def _reason_of_tensor(what: str, value: Any) -> str | None:
    dtype, layout = str(value.dtype).removeprefix("torch."), str(getattr(value, "layout", "")).removeprefix("torch.")
    if getattr(value, "is_nested", False):
        return f"a nested tensor, which is several; fix: pass {what}.values() and {what}.offsets()"
    if layout == "sparse_coo":
        parts = f"{what}.indices() and {what}.values()"
        return f"a sparse tensor, which is no memory in rows; fix: pass {parts}, or {what}.to_dense()"
    if layout in ("sparse_csr", "sparse_bsr", "sparse_csc", "sparse_bsc"):
        first, second = ("ccol", "row") if layout.endswith("c") else ("crow", "col")
        parts = f"{what}.{first}_indices(), {what}.{second}_indices() and {what}.values()"
        return f"a sparse tensor ({layout}), which is no memory in rows; fix: pass {parts}"
    if layout not in ("", "strided"):
        return f"a tensor of layout {layout}; fix: {what}.to_dense()"
    if getattr(value, "is_quantized", False):
        return f"a quantized tensor ({dtype}); fix: pass {what}.int_repr(), its scale and its zero point"
    if dtype.startswith("complex"):
        return f"a tensor of {dtype}; complex numbers are pairs of real ones; fix: pass torch.view_as_real({what})"
    if not _is_known(dtype):
        return f"a tensor of {dtype}, which Triton has no type for; fix: pass {what}.view(torch.uint8)"
    return None


def _is_known(dtype: str) -> bool:
    """Whether Triton has a type for a dtype of torch."""
    from triton._utils import type_canonicalisation_dict

    return dtype in type_canonicalisation_dict
