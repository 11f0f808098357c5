"""Object code linked without LLVM: every kind of reference, the same as LLVM links it, and errors instead of damage."""

from __future__ import annotations

import ctypes
import gc
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from joinery.promotion.errors import InternalError
from joinery.runtime.native import elf
from joinery.runtime.native.codegen import emit_object, link_by_llvm
from joinery.runtime.native.linking import address_of, link

pytestmark = pytest.mark.skipif(not elf.is_supported(), reason="links code for x86-64 on Linux only")

TEXT = """
@table = internal constant [5 x i64] [i64 3, i64 1, i64 4, i64 1, i64 5]
@count = internal global i64 0
@pointers = internal constant [2 x ptr] [ptr @double, ptr @triple]
@shared = global i64 40
@name = private constant [6 x i8] c"hello\\00"
declare i64 @strlen(ptr)
declare double @outside(double)

define i64 @double(i64 %x) noinline {
  %y = mul i64 %x, 2
  ret i64 %y
}

define internal i64 @triple(i64 %x) noinline {
  %y = mul i64 %x, 3
  ret i64 %y
}

define i64 @chosen(i64 %which, i64 %x) {
  %at = getelementptr ptr, ptr @pointers, i64 %which
  %f = load ptr, ptr %at
  %y = call i64 %f(i64 %x)
  ret i64 %y
}

define i64 @counted() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}

define i64 @from_table(i64 %i) {
  %at = getelementptr i64, ptr @table, i64 %i
  %y = load i64, ptr %at
  ret i64 %y
}

define i64 @switched(i64 %x) {
  switch i64 %x, label %other [ i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e ]
a:
  ret i64 11
b:
  ret i64 7
c:
  ret i64 100
d:
  %n = call i64 @strlen(ptr @name)
  ret i64 %n
e:
  %s = load i64, ptr @shared
  %p = add i64 %s, 2
  ret i64 %p
other:
  ret i64 -1
}

define double @called(double %x) {
  %y = call double @outside(double %x)
  %z = fadd double %y, 1.5
  ret double %z
}

define ptr @address_of_outside() {
  ret ptr @outside
}
"""
NAMES = ("chosen", "counted", "from_table", "switched", "called", "address_of_outside", "double")
OUTSIDE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: 10 * x)


@pytest.fixture(scope="module")
def code() -> bytes:
    return emit_object(TEXT)


def mapped() -> list[str]:
    """The lines of this process's map, in which names of files need not be UTF-8."""
    return Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()


def imports() -> dict[str, int]:
    return {
        "strlen": address_of(ctypes.CDLL(None), "strlen"),
        "outside": ctypes.cast(OUTSIDE, ctypes.c_void_p).value or 0,
    }


def answers(addresses: Mapping[str, int]) -> list[object]:
    whole = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    pair = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    found: list[object] = [pair(addresses["chosen"])(which, 7) for which in (0, 1)]
    found += [ctypes.CFUNCTYPE(ctypes.c_int64)(addresses["counted"])() for _ in range(3)]
    found += [whole(addresses[name])(x) for name in ("from_table", "switched") for x in range(5)]
    found.append(whole(addresses["switched"])(9))
    found.append(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(addresses["called"])(4.0))
    found.append(ctypes.CFUNCTYPE(ctypes.c_void_p)(addresses["address_of_outside"])() == imports()["outside"])
    return found


EXPECTED = [14, 21, 1, 2, 3, 3, 1, 4, 1, 5, 11, 7, 100, 5, 42, -1, 41.5, True]


def test_every_kind_of_reference(code: bytes) -> None:
    assert elf.can_load(code)
    image = elf.load([code], imports())
    assert answers(image.symbols) == EXPECTED
    addresses, kept = link_by_llvm([code], NAMES, imports())
    assert answers(addresses) == EXPECTED
    assert kept is not None


def test_each_image_has_data_of_its_own(code: bytes) -> None:
    first, second = (elf.load([code], imports()) for _ in range(2))
    assert answers(first.symbols) == answers(second.symbols) == EXPECTED


def test_objects_that_use_each_other(code: bytes) -> None:
    other = emit_object("""
@shared = external global i64
declare i64 @double(i64)
define i64 @uses() {
  %x = load i64, ptr @shared
  %y = call i64 @double(i64 %x)
  ret i64 %y
}
define double @outside(double %x) {
  ret double 0.25
}
""")
    image = elf.load([other, code], {"strlen": imports()["strlen"]})
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(image.symbols["uses"])() == 80
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(image.symbols["called"])(4.0) == 1.75


def test_code_cannot_be_written_and_data_cannot_be_run(code: bytes) -> None:
    image = elf.load([code], imports())
    rights = {}
    for line in mapped():
        low, _, high = line.split()[0].partition("-")
        for name in ("chosen", "shared"):
            if int(low, 16) <= image.symbols[name] < int(high, 16):
                rights[name] = line.split()[1]
    assert rights == {"chosen": "r-xp", "shared": "rw-p"}


def test_memory_is_given_back(code: bytes) -> None:
    image = elf.load([code], imports())
    address = f"{image.symbols['chosen'] & -4096:x}-"
    assert any(line.startswith(address) for line in mapped())
    del image
    gc.collect()
    assert not any(line.startswith(address) for line in mapped())


def test_missing_and_repeated_symbols(code: bytes) -> None:
    with pytest.raises(InternalError, match="symbol 'outside' is missing"):
        elf.load([code], {"strlen": 1})
    with pytest.raises(InternalError, match="'double' is defined twice"):
        elf.load([code, code], imports())
    with pytest.raises(InternalError, match="symbol 'nothing' is missing"):
        link([code], ["nothing"], imports())


def test_what_is_left_to_llvm() -> None:
    lines = emit_object("""
define void @f() !dbg !4 {
  ret void, !dbg !7
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "f.c", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 2, !"Dwarf Version", i32 4}
!4 = distinct !DISubprogram(name: "f", file: !1, line: 1, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{null}
!7 = !DILocation(line: 1, scope: !4)
""")
    local = emit_object("@x = thread_local global i64 5\ndefine ptr @f() {\n  ret ptr @x\n}")
    for code in (lines, local, b"", b"\xcf\xfa\xed\xfe" + bytes(100)):
        assert not elf.can_load(code)
    link([lines], ["f"], {})


@pytest.mark.slow
def test_damaged_objects_are_refused_or_linked(code: bytes) -> None:
    """Nothing is written outside of the mapping: what is linked is not run here."""
    rng = random.Random(5)
    refused = 0
    for _ in range(3000):
        data = bytearray(code)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(64) if rng.random() < 0.2 else rng.randrange(len(data))
            data[at] = rng.choice([0, 1, 0x7F, 0xFF, rng.randrange(256)])
        cut = bytes(data[: rng.randrange(len(data))] if rng.random() < 0.1 else data)
        try:
            if elf.can_load(cut):
                elf.load([cut], imports())
        except InternalError:
            refused += 1
    assert refused > 100
