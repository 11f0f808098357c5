"""Gathers elements at separate addresses, by instructions where the processor has them."""

from __future__ import annotations

from ...ir import Function, mangle
from ...module import Module
from ...values import V, bits, const, element, i32, i64, lanes, vector, zero


def gather(f: Function, addresses: V, mask: V | None, type_: str, align: int, rarely: bool = False) -> V:
    """Emits the vector `type_` of the elements at `addresses` (a vector of pointers), zero where the mask is false.

    rarely: the code is seldom reached; where it would be long, which is so without instructions, it is a call.
    """
    n = lanes(type_)
    if rarely and not _has_instructions(f.module, type_):
        name = _function(f.module, type_, align)
        if mask is not None:
            nothing = f.alloca("i64", 1, 8)
            f.store(i64(0), nothing, 8)
            addresses = f.select(mask, addresses, f.splat(nothing, n))
        return f.op(f"call {type_} @{name}({addresses.type} {addresses.operand()}) cold", type_)
    on = const(True, vector("i1", n)) if mask is None else mask
    name = f"llvm.masked.gather.{mangle(type_)}.v{n}p0"
    f.module.declare(name, type_, [addresses.type, "i32", on.type, type_])
    return f.call(name, type_, [addresses, i32(align), on, zero(type_)])


def _has_instructions(module: Module, type_: str) -> bool:
    """Whether LLVM uses gather instructions: x86's take 4 and 8 bytes, and those before AVX-512 are slow."""
    return "avx512f" in module.features and bits(element(type_)) in (32, 64)


def _function(module: Module, type_: str, align: int) -> str:
    """Returns the name of a function that loads element after element."""
    n, item = lanes(type_), element(type_)
    name = f"jn_gather_{mangle(type_)}_{align}"
    if name not in module.functions:
        f = Function(
            module, name, [(vector("ptr", n), "addresses")], type_, "nounwind noinline cold", linkage="internal"
        )
        (addresses,) = f.params
        value = zero(type_)
        for lane in range(n):
            value = f.insert(value, f.load(item, f.extract(addresses, lane), align), lane)
        f.ret(value)
        module.add(f)
    return name
