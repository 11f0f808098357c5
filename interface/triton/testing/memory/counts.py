"""How many bytes the tensors on a "cuda:0" that stands in for a GPU's hold, now and at most.

Memory is handed over to that device by DLPack, with a function that gives it back. It is replaced by one that counts, in
compiled code: the last memory goes after Python has ended.
"""

from __future__ import annotations

import ctypes
from typing import Any

_BLOCK = 512
"""Bytes that torch's allocator for CUDA rounds sizes up to."""
_TEXT = f"""
@allocated = global i64 0
@peak = global i64 0
@blocks = global i64 0
@made = global i64 0
declare ptr @malloc(i64)
declare void @free(ptr)

define i64 @size(ptr %managed) {{
  %dims.at = getelementptr i8, ptr %managed, i64 16
  %dims.32 = load i32, ptr %dims.at
  %dims = zext i32 %dims.32 to i64
  %bits.at = getelementptr i8, ptr %managed, i64 21
  %bits.8 = load i8, ptr %bits.at
  %bits = zext i8 %bits.8 to i64
  %rounded = add i64 %bits, 7
  %width = lshr i64 %rounded, 3
  %lanes.at = getelementptr i8, ptr %managed, i64 22
  %lanes.16 = load i16, ptr %lanes.at
  %lanes = zext i16 %lanes.16 to i64
  %element = mul i64 %width, %lanes
  %shape.at = getelementptr i8, ptr %managed, i64 24
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %managed, i64 32
  %strides = load ptr, ptr %strides.at
  br label %loop
loop:
  %i = phi i64 [0, %0], [%next, %more]
  %last = phi i64 [0, %0], [%reached, %more]
  %ended = icmp uge i64 %i, %dims
  br i1 %ended, label %done, label %axis
axis:
  %extent.at = getelementptr i64, ptr %shape, i64 %i
  %extent = load i64, ptr %extent.at
  %is_empty = icmp eq i64 %extent, 0
  br i1 %is_empty, label %empty, label %more
more:
  %stride.at = getelementptr i64, ptr %strides, i64 %i
  %stride = load i64, ptr %stride.at
  %steps = sub i64 %extent, 1
  %reach = mul i64 %steps, %stride
  %reached = add i64 %last, %reach
  %next = add i64 %i, 1
  br label %loop
empty:
  ret i64 0
done:
  %elements = add i64 %last, 1
  %bytes = mul i64 %elements, %element
  %up = add i64 %bytes, {_BLOCK - 1}
  %whole = and i64 %up, {-_BLOCK}
  ret i64 %whole
}}

define void @give_back(ptr %managed) {{
  %context.at = getelementptr i8, ptr %managed, i64 48
  %deleter.at = getelementptr i8, ptr %managed, i64 56
  %record = load ptr, ptr %context.at
  %context = load ptr, ptr %record
  %plain.at = getelementptr i8, ptr %record, i64 8
  %plain = load ptr, ptr %plain.at
  %bytes.at = getelementptr i8, ptr %record, i64 16
  %bytes = load i64, ptr %bytes.at
  store ptr %context, ptr %context.at
  store ptr %plain, ptr %deleter.at
  call void @free(ptr %record)
  %before = atomicrmw sub ptr @allocated, i64 %bytes seq_cst
  %blocks = atomicrmw sub ptr @blocks, i64 1 seq_cst
  %has = icmp ne ptr %plain, null
  br i1 %has, label %call, label %end
call:
  call void %plain(ptr %managed)
  br label %end
end:
  ret void
}}

define void @count(ptr %managed) {{
  %bytes = call i64 @size(ptr %managed)
  %is_empty = icmp eq i64 %bytes, 0
  br i1 %is_empty, label %end, label %note
note:
  %record = call ptr @malloc(i64 24)
  %context.at = getelementptr i8, ptr %managed, i64 48
  %deleter.at = getelementptr i8, ptr %managed, i64 56
  %context = load ptr, ptr %context.at
  %plain = load ptr, ptr %deleter.at
  %plain.at = getelementptr i8, ptr %record, i64 8
  %bytes.at = getelementptr i8, ptr %record, i64 16
  store ptr %context, ptr %record
  store ptr %plain, ptr %plain.at
  store i64 %bytes, ptr %bytes.at
  store ptr %record, ptr %context.at
  store ptr @give_back, ptr %deleter.at
  %before = atomicrmw add ptr @allocated, i64 %bytes seq_cst
  %allocated = add i64 %before, %bytes
  %was = atomicrmw max ptr @peak, i64 %allocated seq_cst
  %blocks = atomicrmw add ptr @blocks, i64 1 seq_cst
  %made = atomicrmw add ptr @made, i64 1 seq_cst
  br label %end
end:
  ret void
}}
"""
"""A `DLManagedTensor`: data 0, device 8, dimensions 16, dtype 20, shape 24, strides 32, offset 40, context 48, deleter 56."""
_kept: list[Any] = []


class Counts:
    """Bytes of living memory on the device, and the most that there were; blocks of it, and all that were ever made."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(_TEXT)
        engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
        engine.finalize_object()
        _kept.append(engine)
        self.note = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("count"))
        """Count the memory behind a `DLManagedTensor`, by its address, until it is given back."""
        names = ("allocated", "peak", "blocks", "made")
        self._allocated, self._peak, self._blocks, self._made = (
            ctypes.c_int64.from_address(engine.get_global_value_address(name)) for name in names
        )

    def allocated(self) -> int:
        return self._allocated.value

    def peak(self) -> int:
        return self._peak.value

    def forget_peak(self) -> None:
        self._peak.value = self._allocated.value

    def statistics(self) -> dict[str, int]:
        """What `torch.cuda.memory_stats` tells of all pools together."""
        found: dict[str, int] = {}
        for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
            found |= {f"{name}.all.current": self.allocated(), f"{name}.all.peak": self.peak()}
        for name in ("allocation", "segment", "active"):
            found[f"{name}.all.current"] = self._blocks.value
            found[f"{name}.all.allocated"] = self._made.value
            found[f"{name}.all.freed"] = self._made.value - self._blocks.value
        return found
