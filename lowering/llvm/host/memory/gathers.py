"""Gathers elements at separate addresses, by instructions where the processor has them.

Elements that are a few apart, such as the real parts of complex numbers, come with those between them: a load and a shuffle
take a fraction of the time of a gather, and a shuffle and a store under a mask that of a scatter.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Function, mangle
from ...module import Module
from ...values import V, bits, const, element, i32, i64, int_vector, is_constant, lanes, vector, zero

FEW_APART, MAX_APART, MAX_BYTES_APART = 4, 10, 16
"""The most elements from one to the next that a shuffle or two pick; where one instruction picks elements of two registers, of
4 and 8 bytes; and of 1 and 2, which no gather takes. All columns of rows of 12 floats took 1.3 times as long as by gathers."""


def gather(f: Function, addresses: V, mask: V | None, type_: str, align: int, rarely: bool = False) -> V:
    """Emits the vector `type_` of the elements at `addresses` (a vector of pointers), zero where the mask is false.

    rarely: the code is seldom reached; where it would be long, which is so without instructions, it is a call.
    """
    n = lanes(type_)
    if rarely and not has_instructions(f.module, type_):
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


def are_few_apart(module: Module, size: int, stride: int, masks: Sequence[V | None], index: V) -> bool:
    """Whether elements of `size` bytes, `stride` apart, are loaded and stored as vectors of all between them, under a mask.

    masks: what a mask is made of. index: that of the first element. Masks that LLVM may find to be constant are left alone: it
    ends the process (`load_first`), or reads without a mask where none of a register's lanes is on. So are all masks where
    processors have no registers for them: LLVM 22 mixes up the lanes of those that several such loads are made of.
    """
    given = [mask for mask in masks if mask is not None]
    if given and ("avx512f" not in module.features or is_constant(index) or any(map(is_constant, given))):
        return False
    if size in (1, 2) and "avx512bw" not in module.features:  # nothing else loads bytes under a mask
        return False
    if size not in (1, 2, 4, 8) or stride < 2 or "avx2" not in module.features:
        return False
    picks = {1: "avx512vbmi", 2: "avx512bw"}.get(size, "avx512f")  # elements of two registers by one instruction
    return stride <= FEW_APART or (picks in module.features and stride <= (MAX_BYTES_APART if size <= 2 else MAX_APART))


def _spread(f: Function, mask: V | None, n: int, stride: int) -> V:
    """Returns the mask of n elements that are `stride` apart, as one of all elements from the first on."""
    if mask is None:  # a literal: LLVM takes the mask off where a shuffle of constants is no lane
        return int_vector([int(lane % stride == 0) for lane in range(stride * n)], "i1")
    on = f.splat(mask, n)
    lanes_of = [lane // stride if lane % stride == 0 else n for lane in range(stride * n)]
    return f.shuffle(on, const(False, vector("i1", n)), lanes_of)


def load_first(f: Function, pointer: V, type_: str, align: int) -> V:
    """Emits the vector `type_` with the element at a pointer as its first lane, and zeros.

    It is hidden from LLVM that it is loaded: of the widened lanes of such a load LLVM 22 makes an operation that it has no
    instruction for, and ends the process.
    """
    item = element(type_)
    whole = f"i{bits(item)}"
    value = f.load(whole, pointer, align)
    hidden = f.op(f'call {whole} asm "", "=r,0"({whole} {value.operand()})', whole)
    return f.insert(zero(type_), f.cast("inttoptr" if item == "ptr" else "bitcast", hidden, item), 0)


def load_apart(f: Function, pointer: V, mask: V | None, type_: str, stride: int, align: int) -> V:
    """Emits the vector `type_` of elements `stride` apart from a pointer on, zero where the mask is false."""
    n, wide = lanes(type_), vector(element(type_), stride * lanes(type_))
    found = f.masked_load(wide, pointer, _spread(f, mask, n, stride), zero(wide), align)
    return f.shuffle(found, found, range(0, stride * n, stride))


def store_apart(f: Function, value: V, pointer: V, mask: V | None, stride: int, align: int) -> None:
    """Emits a store of the lanes of a vector `stride` elements apart, from a pointer on, where the mask is true."""
    n = lanes(value.type)
    wide = f.shuffle(value, value, [lane // stride for lane in range(stride * n)])
    f.masked_store(wide, pointer, _spread(f, mask, n, stride), align)


def has_instructions(module: Module, type_: str) -> bool:
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
