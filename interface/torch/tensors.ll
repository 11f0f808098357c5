; The call of a compiled model with tensors of PyTorch: one generic METH_FASTCALL function driven by a table, as `jn_entry` is for
; arrays of NumPy.  Tensors are read where PyTorch keeps them, by pointer, sizes and strides, and results are written into tensors
; that PyTorch allocates.
;
; The callable's self is a NumPy int64 array whose data is the table:
;
;     0 inputs         1 arguments given       2 dims (symbol slots)   3 outputs         4 constants
;     5 jn_prepare     6 jn_run                7 pool                  8 slow path (a Python callable)
;     9 bytes of constants read by a run      10 work, in bytes, from which the GIL is released
;    11 input records                         12 output records       13 constant addresses
;    14 extents jn_prepare writes             15 dispatch keys that a tensor may not have
;    16 those it must have                    17 torch.Tensor         18 torch.nn.Parameter
;    19 the function that allocates a tensor of sizes, strides and a dtype
;
; A record of an input: 0 its length in words, 1 which argument it is, 2 the number of its dtype, or -1 for an integer that is a size,
; or -2 for a tensor of which a size is taken, 3 bytes per element, 4 axes, 5 records of axes, 6 elements from one to the next
; of the innermost axis, or -1 - slot of a dim that its stride decides, and for each axis from the innermost to the outermost
;
;     0 its number    1 its size: an extent, or -1 - slot of a symbolic dim
;     2 0: neighbours lie side by side   1: repeated, its stride is 0   2, 3: there is room for more elements than it has
;     3 for how many: for 2 an extent, for 3 -1 - slot of a dim that the stride of the next axis decides
;     4 its step
;
; A record of an output: 0 length, 1 dtype, 2 bytes per element, 3 axes, 4 sizes and 5 strides as tuples, or 0 where they depend on
; symbolic sizes, and for each axis which of the axes in memory it is, the outermost being 0.
;
; Whatever is not exactly as the records say goes to the slow path with the same arguments.

@_Py_NoneStruct = external global i8
@PyLong_Type = external global i8
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare void @Py_DecRef(ptr)
declare ptr @jn_alloc(i64)
declare void @jn_free(ptr, ptr, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

define internal i64 @word(ptr %from, i64 %at) nounwind alwaysinline {
  %p = getelementptr i64, ptr %from, i64 %at
  %value = load i64, ptr %p, align 8
  ret i64 %value
}

define internal ptr @pointer(ptr %from, i64 %at) nounwind alwaysinline {
  %p = getelementptr i64, ptr %from, i64 %at
  %value = load ptr, ptr %p, align 8
  ret ptr %value
}

; Whether a size is what its code says; it decides the dim if none has before.
define internal i1 @agrees(ptr %dims, i64 %code, i64 %size) nounwind alwaysinline {
entry:
  %symbolic = icmp slt i64 %code, 0
  br i1 %symbolic, label %slot, label %constant
constant:
  %same = icmp eq i64 %code, %size
  ret i1 %same
slot:
  %at = sub i64 -1, %code
  %p = getelementptr i64, ptr %dims, i64 %at
  %bound = load i64, ptr %p, align 8
  %free = icmp eq i64 %bound, -1
  br i1 %free, label %bind, label %compare
bind:
  store i64 %size, ptr %p, align 8
  ret i1 true
compare:
  %equal = icmp eq i64 %bound, %size
  ret i1 %equal
}

; The implementation of a plain dense tensor of the CPU; null for anything else.
define internal ptr @plain(ptr %table, ptr %object) nounwind alwaysinline {
entry:
  %type = call ptr @pointer(ptr %object, i64 1)
  %tensor = call ptr @pointer(ptr %table, i64 17)
  %parameter = call ptr @pointer(ptr %table, i64 18)
  %is.tensor = icmp eq ptr %type, %tensor
  %is.parameter = icmp eq ptr %type, %parameter
  %known = or i1 %is.tensor, %is.parameter
  br i1 %known, label %keys, label %no
keys:
  %implementation = call ptr @pointer(ptr %object, i64 2)
  %set = call i64 @word(ptr %implementation, i64 21)
  %forbidden = call i64 @word(ptr %table, i64 15)
  %required = call i64 @word(ptr %table, i64 16)
  %bad = and i64 %set, %forbidden
  %good = and i64 %set, %required
  %none.bad = icmp eq i64 %bad, 0
  %all.good = icmp eq i64 %good, %required
  %fine = and i1 %none.bad, %all.good
  br i1 %fine, label %yes, label %no
yes:
  ret ptr %implementation
no:
  ret ptr null
}

; The sizes of a tensor: up to 5 of them, and as many strides, lie in the object.
define internal ptr @sizes(ptr %implementation, i64 %axes) nounwind alwaysinline {
  %inside = getelementptr i64, ptr %implementation, i64 8
  %outside = load ptr, ptr %inside, align 8
  %few = icmp ule i64 %axes, 5
  %found = select i1 %few, ptr %inside, ptr %outside
  ret ptr %found
}

; A tuple of integers; null with an exception.
define internal ptr @integers(ptr %values, i64 %count) nounwind {
entry:
  %tuple = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %none, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %put ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %make, label %done
make:
  %value = call i64 @word(ptr %values, i64 %i)
  %number = call ptr @PyLong_FromLongLong(i64 %value)
  %missing = icmp eq ptr %number, null
  br i1 %missing, label %drop, label %put
put:
  %status = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %number)
  %i.next = add i64 %i, 1
  br label %next
done:
  ret ptr %tuple
drop:
  call void @Py_DecRef(ptr %tuple)
  br label %none
none:
  ret ptr null
}

; A new tensor whose axes in memory have the extents, in row-major order; null with an exception.
define internal ptr @allocated(ptr %allocate, ptr %record, ptr %extents) nounwind {
entry:
  %axes = call i64 @word(ptr %record, i64 3)
  %arguments = alloca ptr, i64 3, align 8
  %dtype = call ptr @pointer(ptr %record, i64 1)
  %third = getelementptr ptr, ptr %arguments, i64 2
  store ptr %dtype, ptr %third, align 8
  %sizes.made = call ptr @pointer(ptr %record, i64 4)
  %strides.made = call ptr @pointer(ptr %record, i64 5)
  %static = icmp ne ptr %sizes.made, null
  br i1 %static, label %ready, label %dynamic
ready:
  %ready.strides.p = getelementptr ptr, ptr %arguments, i64 1
  store ptr %sizes.made, ptr %arguments, align 8
  store ptr %strides.made, ptr %ready.strides.p, align 8
  %tensor = call ptr @PyObject_Vectorcall(ptr %allocate, ptr %arguments, i64 3, ptr null)
  ret ptr %tensor
dynamic:
  %in.memory = alloca i64, i64 %axes, align 8
  %sizes = alloca i64, i64 %axes, align 8
  %strides = alloca i64, i64 %axes, align 8
  br label %step
step:                                                      ; strides of the axes in memory, from the innermost on
  %i = phi i64 [ %axes, %dynamic ], [ %at, %step.one ]
  %running = phi i64 [ 1, %dynamic ], [ %running.next, %step.one ]
  %more = icmp sgt i64 %i, 0
  br i1 %more, label %step.one, label %order
step.one:
  %at = sub i64 %i, 1
  %extent = call i64 @word(ptr %extents, i64 %at)
  %stride.p = getelementptr i64, ptr %in.memory, i64 %at
  store i64 %running, ptr %stride.p, align 8
  %least = call i64 @llvm.smax.i64(i64 %extent, i64 1)
  %running.next = mul i64 %running, %least
  br label %step
order:
  %o = phi i64 [ 0, %step ], [ %o.next, %order.one ]
  %o.more = icmp slt i64 %o, %axes
  br i1 %o.more, label %order.one, label %make
order.one:
  %o.word = add i64 %o, 6
  %from = call i64 @word(ptr %record, i64 %o.word)
  %o.size = call i64 @word(ptr %extents, i64 %from)
  %o.stride = call i64 @word(ptr %in.memory, i64 %from)
  %o.size.p = getelementptr i64, ptr %sizes, i64 %o
  %o.stride.p = getelementptr i64, ptr %strides, i64 %o
  store i64 %o.size, ptr %o.size.p, align 8
  store i64 %o.stride, ptr %o.stride.p, align 8
  %o.next = add i64 %o, 1
  br label %order
make:
  %sizes.tuple = call ptr @integers(ptr %sizes, i64 %axes)
  %no.sizes = icmp eq ptr %sizes.tuple, null
  br i1 %no.sizes, label %none, label %make.strides
make.strides:
  %strides.tuple = call ptr @integers(ptr %strides, i64 %axes)
  %no.strides = icmp eq ptr %strides.tuple, null
  br i1 %no.strides, label %drop.sizes, label %make.tensor
make.tensor:
  %second = getelementptr ptr, ptr %arguments, i64 1
  store ptr %sizes.tuple, ptr %arguments, align 8
  store ptr %strides.tuple, ptr %second, align 8
  %made = call ptr @PyObject_Vectorcall(ptr %allocate, ptr %arguments, i64 3, ptr null)
  call void @Py_DecRef(ptr %strides.tuple)
  call void @Py_DecRef(ptr %sizes.tuple)
  ret ptr %made
drop.sizes:
  call void @Py_DecRef(ptr %sizes.tuple)
  br label %none
none:
  ret ptr null
}

define ptr @jn_tensors(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %table = call ptr @pointer(ptr %self, i64 2)
  %inputs = call i64 @word(ptr %table, i64 0)
  %expected = call i64 @word(ptr %table, i64 1)
  %dims.n = call i64 @word(ptr %table, i64 2)
  %outputs = call i64 @word(ptr %table, i64 3)
  %constants = call i64 @word(ptr %table, i64 4)
  %slow.callable = call ptr @pointer(ptr %table, i64 8)
  %extents.n = call i64 @word(ptr %table, i64 14)
  %sizes.n = add i64 %extents.n, 1
  %b0 = add i64 %inputs, %constants
  %b1 = add i64 %b0, %outputs
  %buffers.n = add i64 %b1, 1
  %dims = alloca i64, i64 %dims.n, align 8
  %sizes = alloca i64, i64 %sizes.n, align 8
  %buffers = alloca ptr, i64 %buffers.n, align 8
  %results = alloca ptr, i64 %outputs, align 8
  %work.constants = call i64 @word(ptr %table, i64 9)
  %records = call ptr @pointer(ptr %table, i64 11)
  %count.ok = icmp eq i64 %given, %expected
  br i1 %count.ok, label %unbind, label %slow
unbind:                                                    ; every slot starts as -1, which no extent is
  %u = phi i64 [ 0, %entry ], [ %u.next, %unbind.one ]
  %u.more = icmp slt i64 %u, %dims.n
  br i1 %u.more, label %unbind.one, label %input
unbind.one:
  %u.p = getelementptr i64, ptr %dims, i64 %u
  store i64 -1, ptr %u.p, align 8
  %u.next = add i64 %u, 1
  br label %unbind

; --- inputs
input:
  %i = phi i64 [ 0, %unbind ], [ %i.next, %input.done ]
  %record = phi ptr [ %records, %unbind ], [ %record.next, %input.done ]
  %work = phi i64 [ %work.constants, %unbind ], [ %work.next, %input.done ]
  %i.more = icmp slt i64 %i, %inputs
  br i1 %i.more, label %input.look, label %constant
input.look:
  %length = call i64 @word(ptr %record, i64 0)
  %argument = call i64 @word(ptr %record, i64 1)
  %object = call ptr @pointer(ptr %args, i64 %argument)
  %kind = call i64 @word(ptr %record, i64 2)
  %first.code = call i64 @word(ptr %record, i64 8)
  %buffer.p = getelementptr ptr, ptr %buffers, i64 %i
  %is.number = icmp eq i64 %kind, -1
  br i1 %is.number, label %number, label %tensor
number:
  %number.type = call ptr @pointer(ptr %object, i64 1)
  %is.int = icmp eq ptr %number.type, @PyLong_Type
  br i1 %is.int, label %number.value, label %slow
number.value:
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %object)
  %negative = icmp slt i64 %value, 0                       ; -1 also where there is an exception: the slow path meets it again
  br i1 %negative, label %number.bad, label %number.bind
number.bad:
  call void @PyErr_Clear()
  br label %slow
number.bind:
  %number.ok = call i1 @agrees(ptr %dims, i64 %first.code, i64 %value)
  br i1 %number.ok, label %number.empty, label %slow
number.empty:
  store ptr null, ptr %buffer.p, align 8
  br label %input.done
tensor:
  %implementation = call ptr @plain(ptr %table, ptr %object)
  %is.plain = icmp ne ptr %implementation, null
  br i1 %is.plain, label %tensor.axes, label %slow
tensor.axes:
  %rank = call i64 @word(ptr %implementation, i64 7)
  %rank.wanted = call i64 @word(ptr %record, i64 4)
  %rank.ok = icmp eq i64 %rank, %rank.wanted
  br i1 %rank.ok, label %tensor.kind, label %slow
tensor.kind:
  %shape = call ptr @sizes(ptr %implementation, i64 %rank)
  %is.size = icmp eq i64 %kind, -2
  br i1 %is.size, label %size.of, label %tensor.dtype
size.of:
  %of.axis = call i64 @word(ptr %record, i64 7)
  %of.size = call i64 @word(ptr %shape, i64 %of.axis)
  %of.ok = call i1 @agrees(ptr %dims, i64 %first.code, i64 %of.size)
  br i1 %of.ok, label %size.empty, label %slow
size.empty:
  store ptr null, ptr %buffer.p, align 8
  br label %input.done
tensor.dtype:
  %dtype.p = getelementptr i64, ptr %implementation, i64 20
  %dtype.short = load i16, ptr %dtype.p, align 8
  %dtype = zext i16 %dtype.short to i64
  %dtype.ok = icmp eq i64 %dtype, %kind
  br i1 %dtype.ok, label %tensor.data, label %slow
tensor.data:
  %few = icmp ule i64 %rank, 5
  %strides.at = select i1 %few, i64 5, i64 %rank
  %steps = getelementptr i64, ptr %shape, i64 %strides.at
  %item = call i64 @word(ptr %record, i64 3)
  %numel = call i64 @word(ptr %implementation, i64 19)
  %offset = call i64 @word(ptr %implementation, i64 18)
  %storage = call ptr @pointer(ptr %implementation, i64 2)
  %has.storage = icmp ne ptr %storage, null
  br i1 %has.storage, label %tensor.address, label %slow
tensor.address:
  %begin = call ptr @pointer(ptr %storage, i64 2)
  %offset.bytes = mul i64 %offset, %item
  %data = getelementptr i8, ptr %begin, i64 %offset.bytes
  store ptr %data, ptr %buffer.p, align 8
  %empty = icmp eq i64 %numel, 0
  %no.memory = icmp eq ptr %begin, null
  %some = xor i1 %empty, true
  %absent = and i1 %some, %no.memory
  br i1 %absent, label %slow, label %axes
axes:
  %axes.n = call i64 @word(ptr %record, i64 5)
  %unit.code = call i64 @word(ptr %record, i64 6)
  %unit.known = icmp sgt i64 %unit.code, 0
  br i1 %unit.known, label %axes.known, label %axes.found
axes.found:
  %inner = call i64 @word(ptr %record, i64 7)
  %inner.stride = call i64 @word(ptr %steps, i64 %inner)
  %inner.forward = icmp sgt i64 %inner.stride, 0
  %inner.clear = and i1 %inner.forward, %some
  br i1 %inner.clear, label %axes.bind, label %slow
axes.bind:
  %unit.ok = call i1 @agrees(ptr %dims, i64 %unit.code, i64 %inner.stride)
  br i1 %unit.ok, label %axes.known, label %slow
axes.known:
  %unit = phi i64 [ %unit.code, %axes ], [ %inner.stride, %axes.bind ]
  br label %axis
axis:
  %a = phi i64 [ 0, %axes.known ], [ %a.next, %axis.done ]
  %from = phi i64 [ 7, %axes.known ], [ %from.next, %axis.done ]
  %running = phi i64 [ %unit, %axes.known ], [ %running.done, %axis.done ]
  %a.more = icmp slt i64 %a, %axes.n
  br i1 %a.more, label %axis.look, label %tensor.done
axis.look:
  %axis.p = getelementptr i64, ptr %record, i64 %from
  %number.of = call i64 @word(ptr %axis.p, i64 0)
  %size.code = call i64 @word(ptr %axis.p, i64 1)
  %mode = call i64 @word(ptr %axis.p, i64 2)
  %room.code = call i64 @word(ptr %axis.p, i64 3)
  %step = call i64 @word(ptr %axis.p, i64 4)
  %size = call i64 @word(ptr %shape, i64 %number.of)
  %stride = call i64 @word(ptr %steps, i64 %number.of)
  %size.ok = call i1 @agrees(ptr %dims, i64 %size.code, i64 %size)
  br i1 %size.ok, label %axis.empty, label %slow
axis.empty:                                                ; the strides of a tensor without elements mean nothing
  %spacious = icmp sge i64 %mode, 2
  %unclear = and i1 %empty, %spacious
  br i1 %unclear, label %slow, label %axis.mode
axis.mode:
  br i1 %empty, label %axis.skip, label %axis.some
axis.skip:
  br label %axis.done
axis.some:
  %single = icmp eq i64 %size, 1
  %repeated = icmp eq i64 %mode, 1
  br i1 %repeated, label %axis.repeated, label %axis.stride
axis.repeated:
  %still = icmp eq i64 %stride, 0
  %repeated.ok = or i1 %still, %single
  br i1 %repeated.ok, label %axis.done, label %slow
axis.stride:
  %wanted = mul i64 %running, %step
  %beside = icmp eq i64 %stride, %wanted
  %stride.ok = or i1 %beside, %single
  br i1 %stride.ok, label %axis.room, label %slow
axis.room:
  switch i64 %mode, label %room.dense [ i64 2, label %room.known
                                        i64 3, label %room.found ]
room.dense:
  %running.dense = mul i64 %running, %size
  br label %axis.done
room.known:
  %running.known = mul i64 %running, %room.code
  br label %axis.done
room.found:
  %outer.at = add i64 %from, 5
  %outer.number = call i64 @word(ptr %record, i64 %outer.at)
  %outer.stride = call i64 @word(ptr %steps, i64 %outer.number)
  %forward = icmp sgt i64 %outer.stride, 0
  br i1 %forward, label %room.divide, label %slow
room.divide:
  %room = udiv i64 %outer.stride, %running
  %back = mul i64 %room, %running
  %exact = icmp eq i64 %back, %outer.stride
  %last = sub i64 %size, 1
  %reach = mul i64 %last, %step
  %enough = icmp sgt i64 %room, %reach
  %room.fine = and i1 %exact, %enough
  br i1 %room.fine, label %room.bind, label %slow
room.bind:
  %room.ok = call i1 @agrees(ptr %dims, i64 %room.code, i64 %room)
  br i1 %room.ok, label %axis.done, label %slow
axis.done:
  %running.done = phi i64 [ %running, %axis.skip ], [ %running, %axis.repeated ], [ %running.dense, %room.dense ],
                          [ %running.known, %room.known ], [ %outer.stride, %room.bind ]
  %a.next = add i64 %a, 1
  %from.next = add i64 %from, 5
  br label %axis
tensor.done:
  %bytes = mul i64 %numel, %item
  br label %input.done
input.done:
  %more.work = phi i64 [ 0, %number.empty ], [ 0, %size.empty ], [ %bytes, %tensor.done ]
  %record.next = getelementptr i64, ptr %record, i64 %length
  %work.next = add i64 %work, %more.work
  %i.next = add i64 %i, 1
  br label %input

; --- constants
constant:
  %addresses = call ptr @pointer(ptr %table, i64 13)
  %to = getelementptr ptr, ptr %buffers, i64 %inputs
  br label %constant.next
constant.next:
  %c = phi i64 [ 0, %constant ], [ %c.next, %constant.one ]
  %c.more = icmp slt i64 %c, %constants
  br i1 %c.more, label %constant.one, label %prepare
constant.one:
  %c.address = call ptr @pointer(ptr %addresses, i64 %c)
  %c.to = getelementptr ptr, ptr %to, i64 %c
  store ptr %c.address, ptr %c.to, align 8
  %c.next = add i64 %c, 1
  br label %constant.next

; --- sizes, arena
prepare:
  %jn_prepare = call ptr @pointer(ptr %table, i64 5)
  %check = call i64 %jn_prepare(ptr %dims, ptr %sizes)
  %passed = icmp eq i64 %check, -1
  br i1 %passed, label %arena, label %slow
arena:
  %arena.bytes = load i64, ptr %sizes, align 8
  %arena.bad = icmp slt i64 %arena.bytes, 0
  br i1 %arena.bad, label %slow, label %arena.take
arena.take:
  %arena.none = icmp eq i64 %arena.bytes, 0
  br i1 %arena.none, label %arena.ready, label %arena.allocate
arena.allocate:
  %arena.new = call ptr @jn_alloc(i64 %arena.bytes)
  %arena.failed = icmp eq ptr %arena.new, null
  br i1 %arena.failed, label %slow, label %arena.ready
arena.ready:
  %arena.block = phi ptr [ null, %arena.take ], [ %arena.new, %arena.allocate ]
  %arena.slot = getelementptr ptr, ptr %buffers, i64 %b1
  store ptr %arena.block, ptr %arena.slot, align 8
  %work.arena = add i64 %work, %arena.bytes
  %first.extent = getelementptr i64, ptr %sizes, i64 1
  %output.records = call ptr @pointer(ptr %table, i64 12)
  %output.buffers = getelementptr ptr, ptr %buffers, i64 %b0
  %allocate = call ptr @pointer(ptr %table, i64 19)
  br label %output

; --- outputs
output:
  %o = phi i64 [ 0, %arena.ready ], [ %o.next, %output.kept ]
  %o.record = phi ptr [ %output.records, %arena.ready ], [ %o.record.next, %output.kept ]
  %o.extents = phi ptr [ %first.extent, %arena.ready ], [ %o.extents.next, %output.kept ]
  %o.work = phi i64 [ %work.arena, %arena.ready ], [ %o.work.next, %output.kept ]
  %o.more = icmp slt i64 %o, %outputs
  br i1 %o.more, label %output.bytes, label %run
output.bytes:                                              ; a negative extent, or too many bytes: the slow path says so
  %o.item = call i64 @word(ptr %o.record, i64 2)
  %o.axes = call i64 @word(ptr %o.record, i64 3)
  br label %extent
extent:
  %e = phi i64 [ 0, %output.bytes ], [ %e.next, %extent.good ]
  %e.bytes = phi i64 [ %o.item, %output.bytes ], [ %e.bytes.next, %extent.good ]
  %e.more = icmp slt i64 %e, %o.axes
  br i1 %e.more, label %extent.look, label %output.make
extent.look:
  %e.size = call i64 @word(ptr %o.extents, i64 %e)
  %e.negative = icmp slt i64 %e.size, 0
  %e.pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %e.bytes, i64 %e.size)
  %e.bytes.next = extractvalue { i64, i1 } %e.pair, 0
  %e.overflow = extractvalue { i64, i1 } %e.pair, 1
  %e.bad = or i1 %e.negative, %e.overflow
  br i1 %e.bad, label %abandon, label %extent.good
extent.good:
  %e.next = add i64 %e, 1
  br label %extent
output.make:
  %o.tensor = call ptr @allocated(ptr %allocate, ptr %o.record, ptr %o.extents)
  %o.failed = icmp eq ptr %o.tensor, null
  br i1 %o.failed, label %abandon, label %output.made
output.made:
  %o.slot = getelementptr ptr, ptr %results, i64 %o
  store ptr %o.tensor, ptr %o.slot, align 8
  %o.next = add i64 %o, 1
  %o.implementation = call ptr @pointer(ptr %o.tensor, i64 2)
  %o.storage = call ptr @pointer(ptr %o.implementation, i64 2)
  %o.data = call ptr @pointer(ptr %o.storage, i64 2)
  %o.address = ptrtoint ptr %o.data to i64
  %o.low = and i64 %o.address, 63
  %o.aligned = icmp eq i64 %o.low, 0
  br i1 %o.aligned, label %output.kept, label %abandon.made
output.kept:
  %o.buffer = getelementptr ptr, ptr %output.buffers, i64 %o
  store ptr %o.data, ptr %o.buffer, align 8
  %o.work.next = add i64 %o.work, %e.bytes
  %o.length = call i64 @word(ptr %o.record, i64 0)
  %o.record.next = getelementptr i64, ptr %o.record, i64 %o.length
  %o.extents.next = getelementptr i64, ptr %o.extents, i64 %o.axes
  br label %output

; --- run, without the GIL when that pays
run:
  %jn_run = call ptr @pointer(ptr %table, i64 6)
  %pool = call ptr @pointer(ptr %table, i64 7)
  %threshold = call i64 @word(ptr %table, i64 10)
  %long = icmp sge i64 %o.work, %threshold
  br i1 %long, label %run.released, label %run.held
run.held:
  call void %jn_run(ptr %pool, ptr %buffers, ptr %dims)
  br label %ran
run.released:
  %thread = call ptr @PyEval_SaveThread()
  call void %jn_run(ptr %pool, ptr %buffers, ptr %dims)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %ran
ran:
  call void @jn_free(ptr null, ptr %arena.block, i64 0)
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %tuple.failed = icmp eq ptr %tuple, null
  br i1 %tuple.failed, label %drop, label %fill
fill:
  %f = phi i64 [ 0, %ran ], [ %f.next, %fill.one ]
  %f.more = icmp slt i64 %f, %outputs
  br i1 %f.more, label %fill.one, label %filled
fill.one:
  %f.tensor = call ptr @pointer(ptr %results, i64 %f)
  %f.status = call i32 @PyTuple_SetItem(ptr %tuple, i64 %f, ptr %f.tensor)
  %f.next = add i64 %f, 1
  br label %fill
filled:
  ret ptr %tuple

; --- failures
abandon.made:
  br label %abandon
abandon:
  %begun = phi i64 [ %o, %extent.look ], [ %o, %output.make ], [ %o.next, %abandon.made ]
  call void @jn_free(ptr null, ptr %arena.block, i64 0)
  br label %drop
drop:                                                      ; the tensors made so far
  %made = phi i64 [ %begun, %abandon ], [ %outputs, %ran ]
  br label %drop.next
drop.next:
  %d = phi i64 [ 0, %drop ], [ %d.next, %drop.one ]
  %d.more = icmp slt i64 %d, %made
  br i1 %d.more, label %drop.one, label %dropped
drop.one:
  %d.tensor = call ptr @pointer(ptr %results, i64 %d)
  call void @Py_DecRef(ptr %d.tensor)
  %d.next = add i64 %d, 1
  br label %drop.next
dropped:
  %raised = call ptr @PyErr_Occurred()
  %silent = icmp eq ptr %raised, null
  br i1 %silent, label %slow, label %propagate
propagate:
  ret ptr null
slow:
  %answer = call ptr @PyObject_Vectorcall(ptr %slow.callable, ptr %args, i64 %given, ptr null)
  ret ptr %answer
}
