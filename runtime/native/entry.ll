; The Python entry of every compiled model: one generic METH_FASTCALL function driven by a table, so that a call
; costs one C function from the interpreter to the kernels and back.
;
; The callable's self is a NumPy int64 array whose data is the table:
;
;     0 inputs         1 dims (symbol slots)   2 outputs          3 constants
;     4 jn_prepare     5 jn_run                6 pool             7 slow path (a Python callable)
;     8 bytes of constants read by a run       9 work, in bytes, from which the GIL is released
;    10 input records -> descr, bytes per element, ndim, then one word per axis: an extent, or -1 - slot of a symbolic dim
;    11 output records -> descr, bytes per element, ndim
;    12 constant addresses                    13 extents jn_prepare writes (all outputs)
;    14 the inputs' names, interned           15 jn_retake where there are loops, which release the GIL and may be interrupted
;
; Keywords are put in order, and arrays that are right but for their layout are copied, by a second call of the entry.  Whatever
; else is not exactly as the records say (type, dtype, rank, extent, unknown names, a failed check, no memory) goes to the slow
; path with the same arguments; it converts, or explains.  Nothing here raises, except NumPy and Python themselves.

; ndarray, as in NumPy's public header (2.x, 64-bit, GIL build); the library compares it with a live array before use
%Array = type { i64, ptr, ptr, i32, i32, ptr, ptr, ptr, ptr, i32, i32, ptr, ptr, ptr }
;               refs type data nd   pad  dims str  base dscr flags pad  weak buf  handler
;                0    1    2    3    4    5    6    7    8    9    10   11   12   13

@PyArray_Type = external global i8
@jn_handler_capsule = external global i8
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyArray_NewCopy(ptr, i32)
declare ptr @PyErr_Occurred()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
@_Py_NoneStruct = external global i8
declare void @jn_launch(ptr, ptr, ptr, i64, i64)
; compiled in one module with memory.ll, which defines jn_alloc and jn_free

; A C-contiguous array in a block of our own.  Null without an exception: bad extents or no memory.
define ptr @jn_new_array(ptr %descr, i64 %item, i64 %ndim, ptr %extents) nounwind {
entry:
  br label %axis
axis:
  %i = phi i64 [ 0, %entry ], [ %i.next, %multiply ]
  %bytes = phi i64 [ %item, %entry ], [ %bytes.next, %multiply ]
  %sides = phi i64 [ %item, %entry ], [ %sides.next, %multiply ]   ; axes of size 0 count as 1, as NumPy counts them
  %more = icmp slt i64 %i, %ndim
  %too.large = icmp slt i64 %sides, 0
  %goes.on = select i1 %more, i1 true, i1 %too.large
  br i1 %goes.on, label %check, label %allocate
check:
  br i1 %too.large, label %none, label %read
read:
  %extent.p = getelementptr i64, ptr %extents, i64 %i
  %extent = load i64, ptr %extent.p, align 8
  %negative = icmp slt i64 %extent, 0
  br i1 %negative, label %none, label %multiply
multiply:
  %bytes.next = mul i64 %bytes, %extent                    ; no more than %sides
  %is.empty = icmp eq i64 %extent, 0
  %side = select i1 %is.empty, i64 1, i64 %extent
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %sides, i64 %side)
  %sides.next = extractvalue { i64, i1 } %pair, 0
  %overflow = extractvalue { i64, i1 } %pair, 1
  %i.next = add i64 %i, 1
  br i1 %overflow, label %none, label %axis
allocate:
  %data = call ptr @jn_alloc(i64 %bytes)
  %no.memory = icmp eq ptr %data, null
  br i1 %no.memory, label %none, label %wrap
wrap:
  call void @Py_IncRef(ptr %descr)                         ; NewFromDescr steals it
  %nd = trunc i64 %ndim to i32
  ; C-contiguous | aligned | writeable
  %array = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %nd, ptr %extents, ptr null, ptr %data, i32 1281, ptr null)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %undo, label %own
own:
  ; the array owns the block and frees it through our handler
  %flags.p = getelementptr %Array, ptr %array, i32 0, i32 9
  %flags = load i32, ptr %flags.p, align 4
  %owned = or i32 %flags, 4
  store i32 %owned, ptr %flags.p, align 4
  call void @Py_IncRef(ptr @jn_handler_capsule)
  %handler.p = getelementptr %Array, ptr %array, i32 0, i32 13
  store ptr @jn_handler_capsule, ptr %handler.p, align 8
  ret ptr %array
undo:
  call void @jn_free(ptr null, ptr %data, i64 0)
  br label %none
none:
  ret ptr null
}

define ptr @jn_entry(ptr %self, ptr %args, i64 %given, ptr %keywords) nounwind {
entry:
  %table.p = getelementptr %Array, ptr %self, i32 0, i32 2
  %table = load ptr, ptr %table.p, align 8
  %inputs = load i64, ptr %table, align 8
  %dims.n.p = getelementptr i64, ptr %table, i64 1
  %dims.n = load i64, ptr %dims.n.p, align 8
  %outputs.p = getelementptr i64, ptr %table, i64 2
  %outputs = load i64, ptr %outputs.p, align 8
  %constants.p = getelementptr i64, ptr %table, i64 3
  %constants = load i64, ptr %constants.p, align 8
  %slow.p = getelementptr i64, ptr %table, i64 7
  %slow.callable = load ptr, ptr %slow.p, align 8
  %count.ok = icmp eq i64 %given, %inputs
  %no.keywords = icmp eq ptr %keywords, null
  %plain = and i1 %count.ok, %no.keywords
  br i1 %plain, label %reserve, label %other
other:
  br i1 %no.keywords, label %slow, label %name
name:
  %named = call ptr @jn_entry_named(ptr %self, ptr %args, i64 %given, ptr %keywords)
  ret ptr %named
reserve:
  %extents.n.p = getelementptr i64, ptr %table, i64 13
  %extents.n = load i64, ptr %extents.n.p, align 8
  %sizes.n = add i64 %extents.n, 1
  %b0 = add i64 %inputs, %constants
  %b1 = add i64 %b0, %outputs
  %buffers.n = add i64 %b1, 1
  %dims = alloca i64, i64 %dims.n, align 8
  %sizes = alloca i64, i64 %sizes.n, align 8
  %buffers = alloca ptr, i64 %buffers.n, align 8
  %results = alloca ptr, i64 %outputs, align 8
  %work.p = getelementptr i64, ptr %table, i64 8
  %work.constants = load i64, ptr %work.p, align 8
  %records.p = getelementptr i64, ptr %table, i64 10
  %records = load ptr, ptr %records.p, align 8
  br label %unbind
unbind:                                                    ; every slot starts as -1, which no extent is
  %u = phi i64 [ 0, %reserve ], [ %u.next, %unbind.one ]
  %u.more = icmp slt i64 %u, %dims.n
  br i1 %u.more, label %unbind.one, label %input
unbind.one:
  %u.p = getelementptr i64, ptr %dims, i64 %u
  store i64 -1, ptr %u.p, align 8
  %u.next = add i64 %u, 1
  br label %unbind

; --- inputs: exact type, dtype, rank, C-contiguous and aligned, extents
input:
  %i = phi i64 [ 0, %unbind ], [ %i.next, %input.done ]
  %record = phi ptr [ %records, %unbind ], [ %record.next, %input.done ]
  %work = phi i64 [ %work.constants, %unbind ], [ %work.next, %input.done ]
  %i.more = icmp slt i64 %i, %inputs
  br i1 %i.more, label %input.type, label %constant
input.type:
  %array.p = getelementptr ptr, ptr %args, i64 %i
  %array = load ptr, ptr %array.p, align 8
  %type.p = getelementptr %Array, ptr %array, i32 0, i32 1
  %type = load ptr, ptr %type.p, align 8
  %type.ok = icmp eq ptr %type, @PyArray_Type
  br i1 %type.ok, label %input.format, label %slow
input.format:
  %descr.p = getelementptr %Array, ptr %array, i32 0, i32 8
  %descr = load ptr, ptr %descr.p, align 8
  %descr.want = load ptr, ptr %record, align 8
  %descr.ok = icmp eq ptr %descr, %descr.want
  %nd.p = getelementptr %Array, ptr %array, i32 0, i32 3
  %nd = load i32, ptr %nd.p, align 8
  %nd.long = sext i32 %nd to i64
  %nd.want.p = getelementptr i64, ptr %record, i64 2
  %nd.want = load i64, ptr %nd.want.p, align 8
  %nd.ok = icmp eq i64 %nd.long, %nd.want
  %flags.p = getelementptr %Array, ptr %array, i32 0, i32 9
  %flags = load i32, ptr %flags.p, align 8
  %layout = and i32 %flags, 257                            ; C-contiguous | aligned
  %layout.ok = icmp eq i32 %layout, 257
  %format.ok = and i1 %descr.ok, %nd.ok
  br i1 %format.ok, label %input.layout, label %slow
input.layout:
  br i1 %layout.ok, label %input.shape, label %copy
copy:
  %copied = call ptr @jn_entry_copied(ptr %self, ptr %args, i64 %given)
  ret ptr %copied
input.shape:
  %data.p = getelementptr %Array, ptr %array, i32 0, i32 2
  %data = load ptr, ptr %data.p, align 8
  %buffer.p = getelementptr ptr, ptr %buffers, i64 %i
  store ptr %data, ptr %buffer.p, align 8
  %shape.p = getelementptr %Array, ptr %array, i32 0, i32 5
  %shape = load ptr, ptr %shape.p, align 8
  %item.p = getelementptr i64, ptr %record, i64 1
  %item = load i64, ptr %item.p, align 8
  %axes = getelementptr i64, ptr %record, i64 3
  br label %axis
axis:
  %a = phi i64 [ 0, %input.shape ], [ %a.next, %axis.done ]
  %bytes = phi i64 [ %item, %input.shape ], [ %bytes.next, %axis.done ]
  %a.more = icmp slt i64 %a, %nd.want
  br i1 %a.more, label %axis.look, label %input.done
axis.look:
  %extent.p = getelementptr i64, ptr %shape, i64 %a
  %extent = load i64, ptr %extent.p, align 8
  %want.p = getelementptr i64, ptr %axes, i64 %a
  %want = load i64, ptr %want.p, align 8
  %symbolic = icmp slt i64 %want, 0
  br i1 %symbolic, label %axis.symbol, label %axis.constant
axis.constant:
  %same = icmp eq i64 %extent, %want
  br i1 %same, label %axis.done, label %slow
axis.symbol:
  %slot = sub i64 -1, %want
  %slot.p = getelementptr i64, ptr %dims, i64 %slot
  %bound = load i64, ptr %slot.p, align 8
  %unbound = icmp eq i64 %bound, -1
  br i1 %unbound, label %axis.bind, label %axis.compare
axis.bind:
  store i64 %extent, ptr %slot.p, align 8
  br label %axis.done
axis.compare:
  %agrees = icmp eq i64 %extent, %bound
  br i1 %agrees, label %axis.done, label %slow
axis.done:
  %bytes.next = mul i64 %bytes, %extent
  %a.next = add i64 %a, 1
  br label %axis
input.done:
  %record.next = getelementptr i64, ptr %axes, i64 %nd.want
  %work.next = add i64 %work, %bytes
  %i.next = add i64 %i, 1
  br label %input

; --- constants
constant:
  %addresses.p = getelementptr i64, ptr %table, i64 12
  %addresses = load ptr, ptr %addresses.p, align 8
  %to = getelementptr ptr, ptr %buffers, i64 %inputs
  br label %constant.next
constant.next:
  %c = phi i64 [ 0, %constant ], [ %c.next, %constant.one ]
  %c.more = icmp slt i64 %c, %constants
  br i1 %c.more, label %constant.one, label %prepare
constant.one:
  %c.from = getelementptr ptr, ptr %addresses, i64 %c
  %c.address = load ptr, ptr %c.from, align 8
  %c.to = getelementptr ptr, ptr %to, i64 %c
  store ptr %c.address, ptr %c.to, align 8
  %c.next = add i64 %c, 1
  br label %constant.next

; --- sizes, arena
prepare:
  %prepare.p = getelementptr i64, ptr %table, i64 4
  %jn_prepare = load ptr, ptr %prepare.p, align 8
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
  %output.records.p = getelementptr i64, ptr %table, i64 11
  %output.records = load ptr, ptr %output.records.p, align 8
  %output.buffers = getelementptr ptr, ptr %buffers, i64 %b0
  br label %output

; --- outputs
output:
  %o = phi i64 [ 0, %arena.ready ], [ %o.next, %output.made ]
  %o.record = phi ptr [ %output.records, %arena.ready ], [ %o.record.next, %output.made ]
  %o.extents = phi ptr [ %first.extent, %arena.ready ], [ %o.extents.next, %output.made ]
  %o.work = phi i64 [ %work.arena, %arena.ready ], [ %o.work.next, %output.made ]
  %o.more = icmp slt i64 %o, %outputs
  br i1 %o.more, label %output.make, label %run
output.make:
  %o.descr = load ptr, ptr %o.record, align 8
  %o.item.p = getelementptr i64, ptr %o.record, i64 1
  %o.item = load i64, ptr %o.item.p, align 8
  %o.ndim.p = getelementptr i64, ptr %o.record, i64 2
  %o.ndim = load i64, ptr %o.ndim.p, align 8
  %o.array = call ptr @jn_new_array(ptr %o.descr, i64 %o.item, i64 %o.ndim, ptr %o.extents)
  %o.failed = icmp eq ptr %o.array, null
  br i1 %o.failed, label %abandon, label %output.made
output.made:
  %o.slot = getelementptr ptr, ptr %results, i64 %o
  store ptr %o.array, ptr %o.slot, align 8
  %o.data.p = getelementptr %Array, ptr %o.array, i32 0, i32 2
  %o.data = load ptr, ptr %o.data.p, align 8
  %o.buffer = getelementptr ptr, ptr %output.buffers, i64 %o
  store ptr %o.data, ptr %o.buffer, align 8
  %o.capacity.p = getelementptr i8, ptr %o.data, i64 -64   ; in the block's header: its bytes, rounded up
  %o.capacity = load i64, ptr %o.capacity.p, align 8
  %o.work.next = add i64 %o.work, %o.capacity
  %o.record.next = getelementptr i64, ptr %o.record, i64 3
  %o.extents.next = getelementptr i64, ptr %o.extents, i64 %o.ndim
  %o.next = add i64 %o, 1
  br label %output

; --- run, without the GIL when that pays: a release and a return cost as much as a small kernel
run:
  %run.p = getelementptr i64, ptr %table, i64 5
  %jn_run = load ptr, ptr %run.p, align 8
  %pool.p = getelementptr i64, ptr %table, i64 6
  %pool = load ptr, ptr %pool.p, align 8
  %threshold.p = getelementptr i64, ptr %table, i64 9
  %threshold = load i64, ptr %threshold.p, align 8
  %long = icmp sge i64 %o.work, %threshold
  br i1 %long, label %run.released, label %run.held
run.held:
  call void %jn_run(ptr %pool, ptr %buffers, ptr %dims)
  %retake.p = getelementptr i64, ptr %table, i64 15
  %jn_retake = load ptr, ptr %retake.p, align 8
  %no.loops = icmp eq ptr %jn_retake, null
  br i1 %no.loops, label %ran, label %retake
retake:
  call void %jn_retake()
  br label %look
run.released:
  %thread = call ptr @PyEval_SaveThread()
  call void %jn_run(ptr %pool, ptr %buffers, ptr %dims)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %look
look:
  %interrupt = call ptr @PyErr_Occurred()                  ; a loop was interrupted: see poll.ll
  %ended = icmp eq ptr %interrupt, null
  br i1 %ended, label %ran, label %interrupted
interrupted:
  call void @jn_free(ptr null, ptr %arena.block, i64 0)
  br label %drop
ran:
  call void @jn_free(ptr null, ptr %arena.block, i64 0)
  %single = icmp eq i64 %outputs, 1
  br i1 %single, label %one, label %several
one:
  %result = load ptr, ptr %results, align 8
  ret ptr %result
several:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %tuple.failed = icmp eq ptr %tuple, null
  br i1 %tuple.failed, label %drop, label %fill
fill:
  %f = phi i64 [ 0, %several ], [ %f.next, %fill.one ]
  %f.more = icmp slt i64 %f, %outputs
  br i1 %f.more, label %fill.one, label %filled
fill.one:
  %f.slot = getelementptr ptr, ptr %results, i64 %f
  %f.array = load ptr, ptr %f.slot, align 8
  %f.status = call i32 @PyTuple_SetItem(ptr %tuple, i64 %f, ptr %f.array)
  %f.next = add i64 %f, 1
  br label %fill
filled:
  ret ptr %tuple

; --- failures
abandon:
  call void @jn_free(ptr null, ptr %arena.block, i64 0)
  br label %drop
drop:                                                      ; the arrays made so far: o of them, or all
  %made = phi i64 [ %o, %abandon ], [ %outputs, %several ], [ %outputs, %interrupted ]
  br label %drop.next
drop.next:
  %d = phi i64 [ 0, %drop ], [ %d.next, %drop.one ]
  %d.more = icmp slt i64 %d, %made
  br i1 %d.more, label %drop.one, label %dropped
drop.one:
  %d.slot = getelementptr ptr, ptr %results, i64 %d
  %d.array = load ptr, ptr %d.slot, align 8
  call void @Py_DecRef(ptr %d.array)
  %d.next = add i64 %d, 1
  br label %drop.next
dropped:
  %raised = call ptr @PyErr_Occurred()
  %silent = icmp eq ptr %raised, null
  br i1 %silent, label %slow, label %propagate
propagate:
  ret ptr null
slow:
  %answer = call ptr @PyObject_Vectorcall(ptr %slow.callable, ptr %args, i64 %given, ptr %keywords)
  ret ptr %answer
}

; The entry for a call with keywords: the arguments in the order of the inputs.
define internal ptr @jn_entry_named(ptr %self, ptr %args, i64 %given, ptr %keywords) nounwind {
entry:
  %table.p = getelementptr %Array, ptr %self, i32 0, i32 2
  %table = load ptr, ptr %table.p, align 8
  %inputs = load i64, ptr %table, align 8
  %names.p = getelementptr i64, ptr %table, i64 14
  %names = load ptr, ptr %names.p, align 8
  %count = call i64 @PyTuple_Size(ptr %keywords)
  %all = add i64 %given, %count
  %all.ok = icmp eq i64 %all, %inputs
  br i1 %all.ok, label %reserve, label %slow
reserve:
  %ordered = alloca ptr, i64 %inputs, align 8
  br label %position
position:
  %i = phi i64 [ 0, %reserve ], [ %i.next, %placed ]
  %i.more = icmp slt i64 %i, %inputs
  br i1 %i.more, label %place, label %call
place:
  %by.position = icmp slt i64 %i, %given
  br i1 %by.position, label %found, label %seek
seek:                                                      ; as many keywords as inputs are left: each name must be there
  %wanted.p = getelementptr ptr, ptr %names, i64 %i
  %wanted = load ptr, ptr %wanted.p, align 8
  br label %look
look:
  %k = phi i64 [ 0, %seek ], [ %k.next, %look.next ]
  %k.more = icmp slt i64 %k, %count
  br i1 %k.more, label %compare, label %slow
compare:
  %name = call ptr @PyTuple_GetItem(ptr %keywords, i64 %k)
  %same = icmp eq ptr %name, %wanted
  br i1 %same, label %matched, label %look.next
look.next:
  %k.next = add i64 %k, 1
  br label %look
matched:
  %k.at = add i64 %given, %k
  br label %found
found:
  %at = phi i64 [ %i, %place ], [ %k.at, %matched ]
  %from = getelementptr ptr, ptr %args, i64 %at
  %value = load ptr, ptr %from, align 8
  %to = getelementptr ptr, ptr %ordered, i64 %i
  store ptr %value, ptr %to, align 8
  br label %placed
placed:
  %i.next = add i64 %i, 1
  br label %position
call:
  %result = call ptr @jn_entry(ptr %self, ptr %ordered, i64 %inputs, ptr null)
  ret ptr %result
slow:
  %slow.p = getelementptr i64, ptr %table, i64 7
  %slow.callable = load ptr, ptr %slow.p, align 8
  %answer = call ptr @PyObject_Vectorcall(ptr %slow.callable, ptr %args, i64 %given, ptr %keywords)
  ret ptr %answer
}

; The entry for a call with arrays that are not C-contiguous and aligned: with copies of these.
define internal ptr @jn_entry_copied(ptr %self, ptr %args, i64 %given) nounwind {
entry:
  %ours = alloca ptr, i64 %given, align 8
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %kept ]
  %more = icmp slt i64 %i, %given
  br i1 %more, label %look, label %call
look:
  %from = getelementptr ptr, ptr %args, i64 %i
  %value = load ptr, ptr %from, align 8
  %type.p = getelementptr %Array, ptr %value, i32 0, i32 1
  %type = load ptr, ptr %type.p, align 8
  %is.array = icmp eq ptr %type, @PyArray_Type
  br i1 %is.array, label %layout, label %keep
layout:
  %flags.p = getelementptr %Array, ptr %value, i32 0, i32 9
  %flags = load i32, ptr %flags.p, align 4
  %right = and i32 %flags, 257                             ; C-contiguous | aligned
  %right.ok = icmp eq i32 %right, 257
  br i1 %right.ok, label %keep, label %copy
keep:
  call void @Py_IncRef(ptr %value)
  br label %kept
copy:
  %new = call ptr @PyArray_NewCopy(ptr %value, i32 0)      ; in C order
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %drop, label %kept
kept:
  %held = phi ptr [ %value, %keep ], [ %new, %copy ]
  %to = getelementptr ptr, ptr %ours, i64 %i
  store ptr %held, ptr %to, align 8
  %i.next = add i64 %i, 1
  br label %next
call:
  %result = call ptr @jn_entry(ptr %self, ptr %ours, i64 %given, ptr null)
  br label %drop
drop:                                                      ; what is held: all, or what came before a copy that failed
  %answer = phi ptr [ %result, %call ], [ null, %copy ]
  br label %drop.next
drop.next:
  %d = phi i64 [ 0, %drop ], [ %d.next, %drop.one ]
  %d.more = icmp slt i64 %d, %i
  br i1 %d.more, label %drop.one, label %dropped
drop.one:
  %d.p = getelementptr ptr, ptr %ours, i64 %d
  %d.value = load ptr, ptr %d.p, align 8
  call void @Py_DecRef(ptr %d.value)
  %d.next = add i64 %d, 1
  br label %drop.next
dropped:
  ret ptr %answer
}

; A prepared call (METH_NOARGS): every address is known, nothing is checked or allocated.  Its table:
;     0 jn_run   1 pool   2 buffers   3 dims   4 release the GIL?   5 result (a Python object)   6 busy   7 callable when busy
;     8 jn_retake where there are loops
define ptr @jn_bound(ptr %self, ptr %nothing) nounwind {
entry:
  %table.p = getelementptr %Array, ptr %self, i32 0, i32 2
  %table = load ptr, ptr %table.p, align 8
  %busy.p = getelementptr i64, ptr %table, i64 6
  %pair = cmpxchg ptr %busy.p, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %run, label %busy
run:
  %jn_run = load ptr, ptr %table, align 8
  %pool.p = getelementptr i64, ptr %table, i64 1
  %pool = load ptr, ptr %pool.p, align 8
  %buffers.p = getelementptr i64, ptr %table, i64 2
  %buffers = load ptr, ptr %buffers.p, align 8
  %dims.p = getelementptr i64, ptr %table, i64 3
  %dims = load ptr, ptr %dims.p, align 8
  %release.p = getelementptr i64, ptr %table, i64 4
  %release = load i64, ptr %release.p, align 8
  %result.p = getelementptr i64, ptr %table, i64 5
  %result = load ptr, ptr %result.p, align 8
  %long = icmp ne i64 %release, 0
  br i1 %long, label %released, label %held
held:
  call void %jn_run(ptr %pool, ptr %buffers, ptr %dims)
  %retake.p = getelementptr i64, ptr %table, i64 8
  %jn_retake = load ptr, ptr %retake.p, align 8
  %no.loops = icmp eq ptr %jn_retake, null
  br i1 %no.loops, label %done, label %retake
retake:
  call void %jn_retake()
  br label %look
released:
  %thread = call ptr @PyEval_SaveThread()
  call void %jn_run(ptr %pool, ptr %buffers, ptr %dims)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %look
look:
  %interrupt = call ptr @PyErr_Occurred()                  ; a loop was interrupted: see poll.ll
  %ended = icmp eq ptr %interrupt, null
  br i1 %ended, label %done, label %interrupted
interrupted:
  store atomic i64 0, ptr %busy.p release, align 8
  ret ptr null
done:
  store atomic i64 0, ptr %busy.p release, align 8
  call void @Py_IncRef(ptr %result)
  ret ptr %result
busy:
  %busy.callable.p = getelementptr i64, ptr %table, i64 7
  %busy.callable = load ptr, ptr %busy.callable.p, align 8
  %answer = call ptr @PyObject_Vectorcall(ptr %busy.callable, ptr null, i64 0, ptr null)
  ret ptr %answer
}

; A launch of a single kernel, a METH_FASTCALL function of integers: pool, kernel, programs, programs that a thread takes at a time,
; and what the kernel reads first, its arguments and the extents of the grid.  The address of the status words and those, five
; zeros, are put behind.  Returns None, or the status words as bytes if the launch was stopped.
define ptr @jn_start(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  ; whole cache lines, which no other data of this thread shares
  %more = add i64 %count, 13
  %words = and i64 %more, -8
  %block = alloca i64, i64 %words, align 64
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %put ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %take, label %launch
take:
  %object.p = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object.p, align 8
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %object)
  %suspect = icmp eq i64 %value, -1
  br i1 %suspect, label %doubt, label %put
doubt:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %refuse, label %put
refuse:
  ret ptr null
put:
  %value.p = getelementptr i64, ptr %block, i64 %i
  store i64 %value, ptr %value.p, align 8
  %i.next = add i64 %i, 1
  br label %next
launch:
  %address.p = getelementptr i64, ptr %block, i64 %count
  %status = getelementptr i64, ptr %address.p, i64 1
  store ptr %status, ptr %address.p, align 8
  call void @llvm.memset.p0.i64(ptr %status, i8 0, i64 40, i1 false)
  %pool = load ptr, ptr %block, align 8
  %kernel.p = getelementptr i64, ptr %block, i64 1
  %kernel = load ptr, ptr %kernel.p, align 8
  %programs.p = getelementptr i64, ptr %block, i64 2
  %programs = load i64, ptr %programs.p, align 8
  %grain.p = getelementptr i64, ptr %block, i64 3
  %grain = load i64, ptr %grain.p, align 8
  %slots = getelementptr i64, ptr %block, i64 4
  %thread = call ptr @PyEval_SaveThread()
  call void @jn_launch(ptr %pool, ptr %kernel, ptr %slots, i64 %programs, i64 %grain)
  call void @PyEval_RestoreThread(ptr %thread)
  %state = load i64, ptr %status, align 8
  %ran = icmp eq i64 %state, 0
  br i1 %ran, label %none, label %stopped
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
stopped:
  %words.read = call ptr @PyBytes_FromStringAndSize(ptr %status, i64 40)
  ret ptr %words.read
}
