; Memory for outputs and arenas: 64-byte aligned blocks, recycled by size class.
;
; A fresh 64 MiB buffer costs more in page faults than many kernels cost in work, so blocks are kept.  Blocks of 1 MiB and more
; are mapped on 2 MiB boundaries with huge pages asked for.  All of this is guarded by the GIL: arrays are created and destroyed
; under it, so the lists need no lock.
;
; Size classes: four steps per power of two, at most 25 % larger than asked.  Before every block lies a header of 64 bytes:
;     0 i64 capacity   8 ptr what to free or unmap   16 i64 bytes mapped (0: from the C heap)   24 ptr next free   32 i64 class
;
; The allocator also serves NumPy as a memory handler (NumPy Enhancement Proposal 49), so that an output array owns its block
; like any other array owns its memory, and frees it here.

declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

@heads = internal global [512 x ptr] zeroinitializer, align 64
@counts = internal global [512 x i32] zeroinitializer, align 64
@jn_cached_bytes = global i64 0, align 8
@jn_cached_limit = global i64 0, align 8   ; set by the library when it is loaded

define ptr @jn_alloc(i64 %asked) nounwind {
entry:
  %tiny = icmp ult i64 %asked, 64
  %size = select i1 %tiny, i64 64, i64 %asked
  %absurd = icmp ugt i64 %size, 140737488355328          ; 2^47: no address space has it
  br i1 %absurd, label %none, label %classify
classify:
  ; size - 1 = m * 2^shift + rest with 4 <= m < 8; the capacity is (m + 1) * 2^shift
  %less = sub i64 %size, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %less, i1 false)
  %shift = sub i64 61, %zeros
  %m = lshr i64 %less, %shift
  %m.up = add i64 %m, 1
  %capacity = shl i64 %m.up, %shift
  %octave = shl i64 %shift, 3
  %class = add i64 %octave, %m
  %head.p = getelementptr ptr, ptr @heads, i64 %class
  %head = load ptr, ptr %head.p, align 8
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %fresh, label %reuse
reuse:
  %next.p = getelementptr i8, ptr %head, i64 -40
  %next = load ptr, ptr %next.p, align 8
  store ptr %next, ptr %head.p, align 8
  %count.p = getelementptr i32, ptr @counts, i64 %class
  %count = load i32, ptr %count.p, align 4
  %count.less = sub i32 %count, 1
  store i32 %count.less, ptr %count.p, align 4
  %cached = load i64, ptr @jn_cached_bytes, align 8
  %cached.less = sub i64 %cached, %capacity
  store i64 %cached.less, ptr @jn_cached_bytes, align 8
  ret ptr %head
fresh:
  %large = icmp uge i64 %capacity, 1048576
  br i1 %large, label %map, label %heap
heap:
  %slot = alloca ptr, align 8
  %with.header = add i64 %capacity, 64
  %failed = call i32 @posix_memalign(ptr %slot, i64 64, i64 %with.header)
  %heap.ok = icmp eq i32 %failed, 0
  br i1 %heap.ok, label %heap.block, label %none
heap.block:
  %base = load ptr, ptr %slot, align 8
  br label %header
map:
  ; whole huge pages, plus one to align within, plus room for the header in front
  %up = add i64 %capacity, 2097151
  %pages = and i64 %up, -2097152
  %length = add i64 %pages, 2101248
  %region = call ptr @mmap(ptr null, i64 %length, i32 3, i32 {{MAP_PRIVATE_ANONYMOUS}}, i32 -1, i64 0)
  %region.int = ptrtoint ptr %region to i64
  %map.ok = icmp ne i64 %region.int, -1
  br i1 %map.ok, label %map.block, label %none
map.block:
  %first = add i64 %region.int, 2097215                   ; 64 for the header, then round up
  %aligned = and i64 %first, -2097152
  %before = sub i64 %aligned, %region.int
  %data.map = getelementptr i8, ptr %region, i64 %before
  %r = call i32 @madvise(ptr %data.map, i64 %pages, i32 {{MADV_HUGEPAGE}})
  %base.map = getelementptr i8, ptr %data.map, i64 -64
  br label %header
header:
  %h = phi ptr [ %base, %heap.block ], [ %base.map, %map.block ]
  %origin = phi ptr [ %base, %heap.block ], [ %region, %map.block ]
  %mapped = phi i64 [ 0, %heap.block ], [ %length, %map.block ]
  %h.origin = getelementptr i8, ptr %h, i64 8
  %h.mapped = getelementptr i8, ptr %h, i64 16
  %h.class = getelementptr i8, ptr %h, i64 32
  store i64 %capacity, ptr %h, align 8
  store ptr %origin, ptr %h.origin, align 8
  store i64 %mapped, ptr %h.mapped, align 8
  store i64 %class, ptr %h.class, align 8
  %data = getelementptr i8, ptr %h, i64 64
  ret ptr %data
none:
  ret ptr null
}

define internal void @give_back(ptr %data) nounwind {
entry:
  %origin.p = getelementptr i8, ptr %data, i64 -56
  %mapped.p = getelementptr i8, ptr %data, i64 -48
  %origin = load ptr, ptr %origin.p, align 8
  %mapped = load i64, ptr %mapped.p, align 8
  %heap = icmp eq i64 %mapped, 0
  br i1 %heap, label %release, label %unmap
release:
  call void @free(ptr %origin)
  ret void
unmap:
  %r = call i32 @munmap(ptr %origin, i64 %mapped)
  ret void
}

; The signature is that of a NumPy memory handler: (context, block, size); only the block is used.
define void @jn_free(ptr %context, ptr %data, i64 %size) nounwind {
entry:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %out, label %consider
consider:
  %capacity.p = getelementptr i8, ptr %data, i64 -64
  %class.p = getelementptr i8, ptr %data, i64 -32
  %capacity = load i64, ptr %capacity.p, align 8
  %class = load i64, ptr %class.p, align 8
  %count.p = getelementptr i32, ptr @counts, i64 %class
  %count = load i32, ptr %count.p, align 4
  %few = icmp slt i32 %count, 32
  %cached = load i64, ptr @jn_cached_bytes, align 8
  %limit = load i64, ptr @jn_cached_limit, align 8
  %sum = add i64 %cached, %capacity
  %fits = icmp ule i64 %sum, %limit
  %keep = and i1 %few, %fits
  br i1 %keep, label %store, label %drop
store:
  %head.p = getelementptr ptr, ptr @heads, i64 %class
  %head = load ptr, ptr %head.p, align 8
  %next.p = getelementptr i8, ptr %data, i64 -40
  store ptr %head, ptr %next.p, align 8
  store ptr %data, ptr %head.p, align 8
  %count.more = add i32 %count, 1
  store i32 %count.more, ptr %count.p, align 4
  store i64 %sum, ptr @jn_cached_bytes, align 8
  br label %out
drop:
  call void @give_back(ptr %data)
  br label %out
out:
  ret void
}

; Returns every cached block to the system.
define void @jn_trim() nounwind {
entry:
  br label %class
class:
  %i = phi i64 [ 0, %entry ], [ %i.next, %emptied ]
  %head.p = getelementptr ptr, ptr @heads, i64 %i
  br label %block
block:
  %head = load ptr, ptr %head.p, align 8
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %emptied, label %drop
drop:
  %next.p = getelementptr i8, ptr %head, i64 -40
  %next = load ptr, ptr %next.p, align 8
  store ptr %next, ptr %head.p, align 8
  call void @give_back(ptr %head)
  br label %block
emptied:
  %count.p = getelementptr i32, ptr @counts, i64 %i
  store i32 0, ptr %count.p, align 4
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 512
  br i1 %more, label %class, label %done
done:
  store i64 0, ptr @jn_cached_bytes, align 8
  ret void
}

; The rest of the memory handler.  NumPy itself only ever calls free, and realloc from ndarray.resize.

define ptr @jn_handler_malloc(ptr %context, i64 %size) nounwind {
  %data = call ptr @jn_alloc(i64 %size)
  ret ptr %data
}

define ptr @jn_handler_calloc(ptr %context, i64 %count, i64 %item) nounwind {
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %item)
  %size = extractvalue { i64, i1 } %pair, 0
  %overflow = extractvalue { i64, i1 } %pair, 1
  br i1 %overflow, label %none, label %some
some:
  %data = call ptr @jn_alloc(i64 %size)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %none, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 false)
  ret ptr %data
none:
  ret ptr null
}

define ptr @jn_handler_realloc(ptr %context, ptr %data, i64 %size) nounwind {
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %new, label %old
new:
  %created = call ptr @jn_alloc(i64 %size)
  ret ptr %created
old:
  %capacity.p = getelementptr i8, ptr %data, i64 -64
  %capacity = load i64, ptr %capacity.p, align 8
  %fits = icmp ule i64 %size, %capacity
  br i1 %fits, label %same, label %grow
same:
  ret ptr %data
grow:
  %larger = call ptr @jn_alloc(i64 %size)
  %failed = icmp eq ptr %larger, null
  br i1 %failed, label %none, label %move
move:
  call void @llvm.memcpy.p0.p0.i64(ptr %larger, ptr %data, i64 %capacity, i1 false)
  call void @jn_free(ptr null, ptr %data, i64 0)
  ret ptr %larger
none:
  ret ptr null
}
