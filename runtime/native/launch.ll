; A launch of a kernel whose arguments are plain, a METH_FASTCALL function of a pool, a grid and the arguments: it takes them
; apart, compares the memory behind them, and runs all programs.  Compiled in one module with entry.ll.
;
; It returns None when all programs have run, the five status words as bytes when the launch was stopped, and False, having
; done nothing, for whatever is not exactly as its table says: the caller then looks in Python, and converts, complains, or
; runs other code.
;
; The callable's self is a NumPy int64 array whose data is the table:
;
;     0 kernel       1 most programs of a launch that nobody watches; larger launches begin and end with 7 and 8
;     2 bytes of memory from which on other code runs
;     3 arguments    4 values that the kernel reads (arguments less those of kind 0)
;     5 1 if the code compares accesses with the memory behind pointers, which it reads behind the status words
;     6 layout of arrays and tensors (below), where pointers may reach all memory that these are views of; 0: pointers take
;       arrays, and reach these alone
;     7 called with the address of the status words before a launch that may take long; returns True if it is to be ended, None if
;       not, False if it cannot be made here                     8 called at the end
;     9 a record of three words per argument: kind, and two details
;
;     kind 0  nothing that the kernel reads
;          1  memory; without a layout: the dtype, the bytes of an element
;          2  an integer; its bits, 0: as many as it has, of which the kernel reads 64
;          3  a float, read as float32         4  a float, read as float64
;
; The layout says where objects of other libraries keep what is needed, in bytes; whoever makes it has tried that they do:
;
;     0 another type of arrays    1 where a dtype has the bytes of an element
;     2, 3 types of tensors, 0: none          4 where a tensor's object has the tensor
;     where a tensor has    5 its dispatch keys    6, 7 the keys of those that are plain memory of this device
;                           8 its number of elements    9 its storage    10 its first element    11 its dtype, a number
;     where a storage has  12 its address   13 its bytes   14 the byte that is 0 if its memory may be used as it is
;    15 64 bytes: those of an element, by the number of the dtype

@PyLong_Type = external global i8
@PyBool_Type = external global i8
@PyFloat_Type = external global i8
@PyTuple_Type = external global i8
@_Py_FalseStruct = external global i8
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)

define internal ptr @type_of(ptr %object) nounwind alwaysinline {
  %type.p = getelementptr %Array, ptr %object, i32 0, i32 1
  %type = load ptr, ptr %type.p, align 8
  ret ptr %type
}

define internal i64 @word_at(ptr %base, i64 %offset) nounwind alwaysinline {
  %p = getelementptr i8, ptr %base, i64 %offset
  %word = load i64, ptr %p, align 8
  ret i64 %word
}

define internal i64 @elements_of(ptr %array) nounwind {
entry:
  %nd.p = getelementptr %Array, ptr %array, i32 0, i32 3
  %nd = load i32, ptr %nd.p, align 4
  %dims.p = getelementptr %Array, ptr %array, i32 0, i32 5
  %dims = load ptr, ptr %dims.p, align 8
  br label %axis
axis:
  %i = phi i32 [ 0, %entry ], [ %i.next, %multiply ]
  %elements = phi i64 [ 1, %entry ], [ %elements.next, %multiply ]
  %more = icmp slt i32 %i, %nd
  br i1 %more, label %multiply, label %done
multiply:
  %at = sext i32 %i to i64
  %extent.p = getelementptr i64, ptr %dims, i64 %at
  %extent = load i64, ptr %extent.p, align 8
  %elements.next = mul i64 %elements, %extent              ; arrays have at most 2^63 bytes
  %i.next = add i32 %i, 1
  br label %axis
done:
  ret i64 %elements
}

; Address, first byte and end of an array that must have a dtype, in one piece that may be written.
define internal i1 @array_alone(ptr %array, i64 %dtype, i64 %item, ptr %found) nounwind {
entry:
  %flags.p = getelementptr %Array, ptr %array, i32 0, i32 9
  %flags = load i32, ptr %flags.p, align 4
  %right = and i32 %flags, 1281                            ; C-contiguous | aligned | writeable
  %right.ok = icmp eq i32 %right, 1281
  %its.p = getelementptr %Array, ptr %array, i32 0, i32 8
  %its = load i64, ptr %its.p, align 8
  %its.ok = icmp eq i64 %its, %dtype
  %ok = and i1 %right.ok, %its.ok
  br i1 %ok, label %take, label %out
take:
  %data.p = getelementptr %Array, ptr %array, i32 0, i32 2
  %data = load i64, ptr %data.p, align 8
  %elements = call i64 @elements_of(ptr %array)
  %bytes = mul i64 %elements, %item
  %end = add i64 %data, %bytes
  store i64 %data, ptr %found, align 8
  %first.p = getelementptr i64, ptr %found, i64 1
  store i64 %data, ptr %first.p, align 8
  %end.p = getelementptr i64, ptr %found, i64 2
  store i64 %end, ptr %end.p, align 8
  br label %out
out:
  ret i1 %ok
}

; Address of an array, first byte and end of the array that owns its memory, which must be in one piece.
define internal i1 @array_with_owner(ptr %array, ptr %layout, ptr %found) nounwind {
entry:
  %data.p = getelementptr %Array, ptr %array, i32 0, i32 2
  %data = load i64, ptr %data.p, align 8
  %other = load ptr, ptr %layout, align 8
  br label %look
look:
  %owner = phi ptr [ %array, %entry ], [ %base, %follow ]
  %base.p = getelementptr %Array, ptr %owner, i32 0, i32 7
  %base = load ptr, ptr %base.p, align 8
  %owns = icmp eq ptr %base, null
  br i1 %owns, label %found.it, label %follow
follow:
  %type = call ptr @type_of(ptr %base)
  %is.array = icmp eq ptr %type, @PyArray_Type
  %is.other = icmp eq ptr %type, %other
  %is.plain = or i1 %is.array, %is.other
  br i1 %is.plain, label %look, label %judge
judge:                                                     ; an array of another kind, or an owner that is none
  %sub = call i32 @PyType_IsSubtype(ptr %type, ptr @PyArray_Type)
  %is.sub = icmp ne i32 %sub, 0
  br i1 %is.sub, label %no, label %found.it
found.it:
  %flags.p = getelementptr %Array, ptr %owner, i32 0, i32 9
  %flags = load i32, ptr %flags.p, align 4
  %piece = and i32 %flags, 3                               ; C-contiguous | Fortran-contiguous
  %scattered = icmp eq i32 %piece, 0
  br i1 %scattered, label %no, label %measure
measure:
  %dtype.p = getelementptr %Array, ptr %owner, i32 0, i32 8
  %dtype = load ptr, ptr %dtype.p, align 8
  %item.p = getelementptr i64, ptr %layout, i64 1
  %item.offset = load i64, ptr %item.p, align 8
  %item = call i64 @word_at(ptr %dtype, i64 %item.offset)
  %elements = call i64 @elements_of(ptr %owner)
  %bytes = mul i64 %elements, %item
  %first.at = getelementptr %Array, ptr %owner, i32 0, i32 2
  %first = load i64, ptr %first.at, align 8
  %end = add i64 %first, %bytes
  store i64 %data, ptr %found, align 8
  %first.p = getelementptr i64, ptr %found, i64 1
  store i64 %first, ptr %first.p, align 8
  %end.p = getelementptr i64, ptr %found, i64 2
  store i64 %end, ptr %end.p, align 8
  ret i1 true
no:
  ret i1 false
}

; Address of a tensor's first element, first byte and end of its storage.
define internal i1 @tensor_memory(ptr %object, ptr %layout, ptr %found) nounwind {
entry:
  %tensor.at.p = getelementptr i64, ptr %layout, i64 4
  %tensor.at = load i64, ptr %tensor.at.p, align 8
  %tensor.word = call i64 @word_at(ptr %object, i64 %tensor.at)
  %tensor = inttoptr i64 %tensor.word to ptr
  %gone = icmp eq ptr %tensor, null
  br i1 %gone, label %no, label %keys
keys:
  %keys.at.p = getelementptr i64, ptr %layout, i64 5
  %keys.at = load i64, ptr %keys.at.p, align 8
  %its.keys = call i64 @word_at(ptr %tensor, i64 %keys.at)
  %one.p = getelementptr i64, ptr %layout, i64 6
  %one = load i64, ptr %one.p, align 8
  %two.p = getelementptr i64, ptr %layout, i64 7
  %two = load i64, ptr %two.p, align 8
  %is.one = icmp eq i64 %its.keys, %one
  %is.two = icmp eq i64 %its.keys, %two
  %is.plain = or i1 %is.one, %is.two
  br i1 %is.plain, label %elements, label %no
elements:                                                  ; a tensor without elements has the address 0, whatever its storage
  %elements.at.p = getelementptr i64, ptr %layout, i64 8
  %elements.at = load i64, ptr %elements.at.p, align 8
  %its.elements = call i64 @word_at(ptr %tensor, i64 %elements.at)
  %some = icmp sgt i64 %its.elements, 0
  br i1 %some, label %dtype, label %no
dtype:
  %dtype.at.p = getelementptr i64, ptr %layout, i64 11
  %dtype.at = load i64, ptr %dtype.at.p, align 8
  %dtype.p = getelementptr i8, ptr %tensor, i64 %dtype.at
  %its.dtype = load i16, ptr %dtype.p, align 2
  %known = icmp ult i16 %its.dtype, 64
  br i1 %known, label %lies, label %no
lies:
  %items = getelementptr i64, ptr %layout, i64 15
  %dtype.number = zext i16 %its.dtype to i64
  %item.p = getelementptr i8, ptr %items, i64 %dtype.number
  %item.byte = load i8, ptr %item.p, align 1
  %item = zext i8 %item.byte to i64
  %storage.at.p = getelementptr i64, ptr %layout, i64 9
  %storage.at = load i64, ptr %storage.at.p, align 8
  %storage.word = call i64 @word_at(ptr %tensor, i64 %storage.at)
  %storage = inttoptr i64 %storage.word to ptr
  %has.item = icmp ne i8 %item.byte, 0
  %has.storage = icmp ne ptr %storage, null
  %has.both = and i1 %has.item, %has.storage
  br i1 %has.both, label %usable, label %no
usable:
  %state.at.p = getelementptr i64, ptr %layout, i64 14
  %state.at = load i64, ptr %state.at.p, align 8
  %state.p = getelementptr i8, ptr %storage, i64 %state.at
  %state = load i8, ptr %state.p, align 1
  %as.it.is = icmp eq i8 %state, 0
  %address.at.p = getelementptr i64, ptr %layout, i64 12
  %address.at = load i64, ptr %address.at.p, align 8
  %first = call i64 @word_at(ptr %storage, i64 %address.at)
  %there = icmp ne i64 %first, 0
  %bytes.at.p = getelementptr i64, ptr %layout, i64 13
  %bytes.at = load i64, ptr %bytes.at.p, align 8
  %bytes = call i64 @word_at(ptr %storage, i64 %bytes.at)
  %sane = icmp ult i64 %bytes, 140737488355328             ; 2^47; a size that is an expression is negative
  %ok.1 = and i1 %as.it.is, %there
  %ok.2 = and i1 %ok.1, %sane
  br i1 %ok.2, label %take, label %no
take:
  %begin.at.p = getelementptr i64, ptr %layout, i64 10
  %begin.at = load i64, ptr %begin.at.p, align 8
  %begin = call i64 @word_at(ptr %tensor, i64 %begin.at)
  %begin.bytes = mul i64 %begin, %item
  %address = add i64 %first, %begin.bytes
  %end = add i64 %first, %bytes
  store i64 %address, ptr %found, align 8
  %first.p = getelementptr i64, ptr %found, i64 1
  store i64 %first, ptr %first.p, align 8
  %end.p = getelementptr i64, ptr %found, i64 2
  store i64 %end, ptr %end.p, align 8
  ret i1 true
no:
  ret i1 false
}

define internal i1 @memory_of(ptr %object, ptr %table, ptr %record, ptr %found) nounwind {
entry:
  %layout.p = getelementptr i64, ptr %table, i64 6
  %layout = load ptr, ptr %layout.p, align 8
  %type = call ptr @type_of(ptr %object)
  %is.array = icmp eq ptr %type, @PyArray_Type
  %alone = icmp eq ptr %layout, null
  br i1 %alone, label %array, label %whole
array:
  br i1 %is.array, label %array.alone, label %no
array.alone:
  %dtype.p = getelementptr i64, ptr %record, i64 1
  %dtype = load i64, ptr %dtype.p, align 8
  %item.p = getelementptr i64, ptr %record, i64 2
  %item = load i64, ptr %item.p, align 8
  %alone.ok = call i1 @array_alone(ptr %object, i64 %dtype, i64 %item, ptr %found)
  ret i1 %alone.ok
whole:
  %other = load ptr, ptr %layout, align 8
  %is.other = icmp eq ptr %type, %other
  %is.memory = or i1 %is.array, %is.other
  br i1 %is.memory, label %with.owner, label %tensor
with.owner:
  %owner.ok = call i1 @array_with_owner(ptr %object, ptr %layout, ptr %found)
  ret i1 %owner.ok
tensor:
  %kind.1.p = getelementptr ptr, ptr %layout, i64 2
  %kind.1 = load ptr, ptr %kind.1.p, align 8
  %kind.2.p = getelementptr ptr, ptr %layout, i64 3
  %kind.2 = load ptr, ptr %kind.2.p, align 8
  %is.1 = icmp eq ptr %type, %kind.1
  %is.2 = icmp eq ptr %type, %kind.2
  %is.tensor = or i1 %is.1, %is.2
  br i1 %is.tensor, label %read, label %no
read:
  %read.ok = call i1 @tensor_memory(ptr %object, ptr %layout, ptr %found)
  ret i1 %read.ok
no:
  ret i1 false
}

; The integer as the kernel reads it; false for another object, and for one that does not fit.
define internal i1 @integer_of(ptr %object, i64 %bits, ptr %found) nounwind {
entry:
  %overflow = alloca i32, align 4
  %type = call ptr @type_of(ptr %object)
  %is.int = icmp eq ptr %type, @PyLong_Type
  %any = icmp eq i64 %bits, 0
  br i1 %any, label %mask, label %fit
mask:
  %is.bool = icmp eq ptr %type, @PyBool_Type
  %is.number = or i1 %is.int, %is.bool
  br i1 %is.number, label %masked, label %no
masked:
  %low = call i64 @PyLong_AsUnsignedLongLongMask(ptr %object)
  store i64 %low, ptr %found, align 8
  ret i1 true
fit:
  br i1 %is.int, label %read, label %no
read:
  %value = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %beyond = load i32, ptr %overflow, align 4
  %in.words = icmp eq i32 %beyond, 0
  %below = sub i64 %bits, 1
  %rest = ashr i64 %value, %below                          ; 0 or -1 for a number that fits
  %raised = add i64 %rest, 1
  %fits = icmp ult i64 %raised, 2
  %ok = and i1 %in.words, %fits
  store i64 %value, ptr %found, align 8
  ret i1 %ok
no:
  ret i1 false
}

; The bits of a float, rounded to float32 in integers: as IEEE 754 says, whatever the thread's modes are.
define internal i1 @float_of(ptr %object, i1 %single, ptr %found) nounwind {
entry:
  %type = call ptr @type_of(ptr %object)
  %is.float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is.float, label %read, label %no
read:
  %value = call double @PyFloat_AsDouble(ptr %object)
  %bits = bitcast double %value to i64
  br i1 %single, label %round, label %double
double:
  store i64 %bits, ptr %found, align 8
  ret i1 true
round:
  %magnitude = and i64 %bits, 9223372036854775807
  %sign.64 = lshr i64 %bits, 32
  %sign = and i64 %sign.64, 2147483648
  %zero = icmp eq i64 %magnitude, 0
  %infinite = icmp eq i64 %magnitude, 9218868437227405312
  ; from 2^-126, below 2^128: results are normal, but for those that are rounded up to infinity, of which NumPy warns
  %from = sub i64 %magnitude, 4039728865751334912
  %normal = icmp ult i64 %from, 1143914305352105984
  %shifted = lshr i64 %from, 29
  %odd = and i64 %shifted, 1
  %half = add i64 %odd, 268435455
  %up = add i64 %from, %half
  %rounded = lshr i64 %up, 29
  %biased = add i64 %rounded, 8388608                      ; the exponent of 2^-126
  %finite = icmp ult i64 %biased, 2139095040
  %of.zero = select i1 %zero, i64 0, i64 %biased
  %of.all = select i1 %infinite, i64 2139095040, i64 %of.zero
  %signed = or i64 %of.all, %sign
  store i64 %signed, ptr %found, align 8
  %ok.1 = or i1 %zero, %infinite
  %fits = and i1 %normal, %finite
  %ok = or i1 %ok.1, %fits
  ret i1 %ok
no:
  ret i1 false
}

; The extents of a grid, a number or a tuple of one to three, and the programs; 0 extents are programs that need not be run.
define internal i1 @grid_of(ptr %grid, ptr %extents) nounwind {
entry:
  %y.p = getelementptr i64, ptr %extents, i64 1
  %z.p = getelementptr i64, ptr %extents, i64 2
  store i64 1, ptr %y.p, align 8
  store i64 1, ptr %z.p, align 8
  %type = call ptr @type_of(ptr %grid)
  %is.tuple = icmp eq ptr %type, @PyTuple_Type
  br i1 %is.tuple, label %tuple, label %number
number:
  %n.ok = call i1 @integer_of(ptr %grid, i64 32, ptr %extents)
  br i1 %n.ok, label %judge, label %no
tuple:
  %count = call i64 @PyTuple_Size(ptr %grid)
  %from.one = sub i64 %count, 1
  %few = icmp ult i64 %from.one, 3
  br i1 %few, label %next, label %no
next:
  %i = phi i64 [ 0, %tuple ], [ %i.next, %took ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %take, label %judge
take:
  %each = call ptr @PyTuple_GetItem(ptr %grid, i64 %i)
  %at = getelementptr i64, ptr %extents, i64 %i
  %ok = call i1 @integer_of(ptr %each, i64 32, ptr %at)
  br i1 %ok, label %took, label %no
took:
  %i.next = add i64 %i, 1
  br label %next
judge:
  %x = load i64, ptr %extents, align 8
  %y = load i64, ptr %y.p, align 8
  %z = load i64, ptr %z.p, align 8
  %xy.bits = or i64 %x, %y
  %bits = or i64 %xy.bits, %z
  %negative = icmp slt i64 %bits, 0
  br i1 %negative, label %no, label %multiply
multiply:
  %xy = mul i64 %x, %y                                     ; below 2^62
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %xy, i64 %z)
  %programs = extractvalue { i64, i1 } %pair, 0
  %overflow = extractvalue { i64, i1 } %pair, 1
  %programs.p = getelementptr i64, ptr %extents, i64 3
  store i64 %programs, ptr %programs.p, align 8
  %ok.all = xor i1 %overflow, true
  ret i1 %ok.all
no:
  ret i1 false
}

define ptr @jn_launch_plain(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %extents = alloca [4 x i64], align 8
  %found = alloca [3 x i64], align 8
  %one.argument = alloca ptr, align 8
  %error.0 = alloca ptr, align 8
  %error.1 = alloca ptr, align 8
  %error.2 = alloca ptr, align 8
  %table.p = getelementptr %Array, ptr %self, i32 0, i32 2
  %table = load ptr, ptr %table.p, align 8
  %n.p = getelementptr i64, ptr %table, i64 3
  %n = load i64, ptr %n.p, align 8
  %given = sub i64 %count, 2
  %as.many = icmp eq i64 %given, %n
  br i1 %as.many, label %grid, label %slow
grid:
  %grid.p = getelementptr ptr, ptr %args, i64 1
  %grid.object = load ptr, ptr %grid.p, align 8
  %grid.ok = call i1 @grid_of(ptr %grid.object, ptr %extents)
  br i1 %grid.ok, label %reserve, label %slow
reserve:
  %programs.p = getelementptr i64, ptr %extents, i64 3
  %programs = load i64, ptr %programs.p, align 8
  %m.p = getelementptr i64, ptr %table, i64 4
  %m = load i64, ptr %m.p, align 8
  %checked.p = getelementptr i64, ptr %table, i64 5
  %checked = load i64, ptr %checked.p, align 8
  %is.checked = icmp ne i64 %checked, 0
  ; values, the grid, the address of the status words, those, and two words per value and two more: whole cache lines
  %m.3 = mul i64 %m, 3
  %more = add i64 %m.3, 18
  %words = and i64 %more, -8
  %slots = alloca i64, i64 %words, align 64
  %after = add i64 %m, 4
  %status = getelementptr i64, ptr %slots, i64 %after
  %reach = getelementptr i64, ptr %status, i64 5
  %spans = alloca { i64, i64 }, i64 %n, align 8
  %behind = sub i64 %words, %after
  %behind.bytes = shl i64 %behind, 3
  call void @llvm.memset.p0.i64(ptr %status, i8 0, i64 %behind.bytes, i1 false)
  %records = getelementptr i64, ptr %table, i64 9
  %objects = getelementptr ptr, ptr %args, i64 2
  br label %next
next:
  %i = phi i64 [ 0, %reserve ], [ %i.next, %taken ]
  %at = phi i64 [ 0, %reserve ], [ %at.next, %taken ]
  %pointers = phi i64 [ 0, %reserve ], [ %pointers.next, %taken ]
  %bytes = phi i64 [ 0, %reserve ], [ %bytes.next, %taken ]
  %left = icmp slt i64 %i, %n
  br i1 %left, label %take, label %all
take:
  %object.p = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object.p, align 8
  %i.3 = mul i64 %i, 3
  %record = getelementptr i64, ptr %records, i64 %i.3
  %kind = load i64, ptr %record, align 8
  %slot = getelementptr i64, ptr %slots, i64 %at
  switch i64 %kind, label %skip [ i64 1, label %memory
                                  i64 2, label %integer
                                  i64 3, label %single
                                  i64 4, label %double ]
skip:
  br label %taken
integer:
  %bits.p = getelementptr i64, ptr %record, i64 1
  %bits = load i64, ptr %bits.p, align 8
  %integer.ok = call i1 @integer_of(ptr %object, i64 %bits, ptr %slot)
  br i1 %integer.ok, label %value, label %slow
single:
  %single.ok = call i1 @float_of(ptr %object, i1 true, ptr %slot)
  br i1 %single.ok, label %value, label %slow
double:
  %double.ok = call i1 @float_of(ptr %object, i1 false, ptr %slot)
  br i1 %double.ok, label %value, label %slow
value:
  br label %taken
memory:
  %memory.ok = call i1 @memory_of(ptr %object, ptr %table, ptr %record, ptr %found)
  br i1 %memory.ok, label %span, label %slow
span:
  %address = load i64, ptr %found, align 8
  %first.p = getelementptr i64, ptr %found, i64 1
  %first = load i64, ptr %first.p, align 8
  %end.p = getelementptr i64, ptr %found, i64 2
  %end = load i64, ptr %end.p, align 8
  %size = sub i64 %end, %first
  store i64 %address, ptr %slot, align 8
  br i1 %is.checked, label %bound, label %apart
bound:
  %at.2 = shl i64 %at, 1
  %low.p = getelementptr i64, ptr %reach, i64 %at.2
  store i64 %first, ptr %low.p, align 8
  %size.p = getelementptr i64, ptr %low.p, i64 1
  store i64 %size, ptr %size.p, align 8
  br label %apart
apart:                                                     ; memory that two pointers reach takes code that knows of it
  %j = phi i64 [ 0, %span ], [ 0, %bound ], [ %j.next, %differs ]
  %j.more = icmp slt i64 %j, %pointers
  br i1 %j.more, label %compare, label %note
compare:
  %its.first.p = getelementptr { i64, i64 }, ptr %spans, i64 %j, i32 0
  %its.first = load i64, ptr %its.first.p, align 8
  %its.end.p = getelementptr { i64, i64 }, ptr %spans, i64 %j, i32 1
  %its.end = load i64, ptr %its.end.p, align 8
  %before = icmp ule i64 %end, %its.first
  %behind.it = icmp uge i64 %first, %its.end
  %differs.ok = or i1 %before, %behind.it
  br i1 %differs.ok, label %differs, label %slow
differs:
  %j.next = add i64 %j, 1
  br label %apart
note:
  %note.first = getelementptr { i64, i64 }, ptr %spans, i64 %pointers, i32 0
  store i64 %first, ptr %note.first, align 8
  %note.end = getelementptr { i64, i64 }, ptr %spans, i64 %pointers, i32 1
  store i64 %end, ptr %note.end, align 8
  %pointers.more = add i64 %pointers, 1
  %bytes.more = add i64 %bytes, %size
  br label %taken
taken:
  %step = phi i64 [ 0, %skip ], [ 1, %value ], [ 1, %note ]
  %pointers.next = phi i64 [ %pointers, %skip ], [ %pointers, %value ], [ %pointers.more, %note ]
  %bytes.next = phi i64 [ %bytes, %skip ], [ %bytes, %value ], [ %bytes.more, %note ]
  %at.next = add i64 %at, %step
  %i.next = add i64 %i, 1
  br label %next
all:
  %large.p = getelementptr i64, ptr %table, i64 2
  %large = load i64, ptr %large.p, align 8
  %fits = icmp slt i64 %bytes, %large
  br i1 %fits, label %pool, label %slow
pool:
  %pool.object = load ptr, ptr %args, align 8
  %pool.word = call i64 @PyLong_AsUnsignedLongLongMask(ptr %pool.object)
  %pool.address = inttoptr i64 %pool.word to ptr
  %idle = icmp eq i64 %programs, 0
  br i1 %idle, label %ran, label %fill
fill:
  %grid.at = getelementptr i64, ptr %slots, i64 %m
  call void @llvm.memcpy.p0.p0.i64(ptr %grid.at, ptr %extents, i64 24, i1 false)
  %status.p = getelementptr i64, ptr %grid.at, i64 3
  store ptr %status, ptr %status.p, align 8
  %alone = icmp eq ptr %pool.address, null
  br i1 %alone, label %start, label %several
several:
  %threads.32 = load i32, ptr %pool.address, align 4
  %threads.64 = sext i32 %threads.32 to i64
  br label %start
start:
  %threads = phi i64 [ 1, %fill ], [ %threads.64, %several ]
  %chunks = shl i64 %threads, 4
  %grain.0 = udiv i64 %programs, %chunks
  %grain.none = icmp eq i64 %grain.0, 0
  %grain = select i1 %grain.none, i64 1, i64 %grain.0
  %kernel = load ptr, ptr %table, align 8
  %most.p = getelementptr i64, ptr %table, i64 1
  %most = load i64, ptr %most.p, align 8
  %brief = icmp ule i64 %programs, %most
  br i1 %brief, label %run, label %begin
begin:
  %begin.p = getelementptr i64, ptr %table, i64 7
  %begin.callable = load ptr, ptr %begin.p, align 8
  %status.word = ptrtoint ptr %status to i64
  %status.object = call ptr @PyLong_FromLongLong(i64 %status.word)
  %no.object = icmp eq ptr %status.object, null
  br i1 %no.object, label %raise, label %ask
ask:
  store ptr %status.object, ptr %one.argument, align 8
  %watched = call ptr @PyObject_Vectorcall(ptr %begin.callable, ptr %one.argument, i64 1, ptr null)
  call void @Py_DecRef(ptr %status.object)
  %failed = icmp eq ptr %watched, null
  br i1 %failed, label %raise, label %asked
raise:
  ret ptr null
asked:
  call void @Py_DecRef(ptr %watched)                       ; None, True and False stay
  %elsewhere = icmp eq ptr %watched, @_Py_FalseStruct
  br i1 %elsewhere, label %slow, label %run
run:
  %watcher = phi ptr [ @_Py_NoneStruct, %start ], [ %watched, %asked ]
  %thread = call ptr @PyEval_SaveThread()
  call void @jn_launch(ptr %pool.address, ptr %kernel, ptr %slots, i64 %programs, i64 %grain)
  call void @PyEval_RestoreThread(ptr %thread)
  %alone.ran = icmp eq ptr %watcher, @_Py_NoneStruct
  br i1 %alone.ran, label %look, label %end.watch
end.watch:
  %end.callable.p = getelementptr i64, ptr %table, i64 8
  %end.callable = load ptr, ptr %end.callable.p, align 8
  %ended = call ptr @PyObject_Vectorcall(ptr %end.callable, ptr null, i64 0, ptr null)
  %end.failed = icmp eq ptr %ended, null
  br i1 %end.failed, label %interrupted, label %end.watched
interrupted:                                               ; by the signal, whose handler ran first: end it all the same
  call void @PyErr_Fetch(ptr %error.0, ptr %error.1, ptr %error.2)
  %again = call ptr @PyObject_Vectorcall(ptr %end.callable, ptr null, i64 0, ptr null)
  %again.failed = icmp eq ptr %again, null
  br i1 %again.failed, label %restore, label %again.ended
again.ended:
  call void @Py_DecRef(ptr %again)
  br label %restore
restore:
  %first.error = load ptr, ptr %error.0, align 8
  %first.value = load ptr, ptr %error.1, align 8
  %first.traceback = load ptr, ptr %error.2, align 8
  call void @PyErr_Restore(ptr %first.error, ptr %first.value, ptr %first.traceback)
  ret ptr null
end.watched:
  call void @Py_DecRef(ptr %ended)
  br label %look
look:
  %state = load i64, ptr %status, align 8
  %as.usual = icmp eq i64 %state, 0
  br i1 %as.usual, label %ran, label %stopped
ran:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
stopped:
  %words.read = call ptr @PyBytes_FromStringAndSize(ptr %status, i64 40)
  ret ptr %words.read
slow:
  call void @Py_IncRef(ptr @_Py_FalseStruct)
  ret ptr @_Py_FalseStruct
}
