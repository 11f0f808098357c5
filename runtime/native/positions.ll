; Writes the positions of what is not 0, and counts those of each row.
;
; flags: %rows rows of %columns bytes; positions: those of all rows, %total of them; counts: how many each row has. Positions of
; eight bytes come from a table by their bits, at %table: eight are stored at a time, of which the next ones overwrite the rest.

declare i8 @llvm.ctpop.i8(i8)
declare i32 @llvm.cttz.i32(i32, i1)

define void @jn_positions(ptr noalias readonly %flags, i64 %rows, i64 %columns, ptr noalias %positions, i64 %total,
                          ptr noalias %counts, ptr noalias readonly %table) nounwind {
entry:
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r.1, %counted ]
  %begun = phi i64 [ 0, %entry ], [ %t.rest, %counted ]
  %is.row = icmp slt i64 %r, %rows
  br i1 %is.row, label %begin, label %done
begin:
  %start = mul i64 %r, %columns
  %line = getelementptr i8, ptr %flags, i64 %start
  br label %chunk
chunk:                                             ; 32 bytes
  %c = phi i64 [ 0, %begin ], [ %c.1, %passed ]
  %t = phi i64 [ %begun, %begin ], [ %t.1, %passed ]
  %c.1 = add i64 %c, 32
  %is.chunk = icmp sle i64 %c.1, %columns
  br i1 %is.chunk, label %look, label %rest
look:
  %p = getelementptr i8, ptr %line, i64 %c
  %v = load <32 x i8>, ptr %p, align 1
  %set = icmp ne <32 x i8> %v, zeroinitializer
  %bits = bitcast <32 x i1> %set to i32
  %none = icmp eq i32 %bits, 0
  br i1 %none, label %passed, label %some
some:
  %last = add i64 %t, 32
  %has.room = icmp sle i64 %last, %total
  br i1 %has.room, label %together, label %few
few:
  %has.any = icmp slt i64 %t, %total
  br i1 %has.any, label %single, label %passed
together:
{{TOGETHER}}
  br label %passed
single:                                            ; near the end of all positions
  %left = phi i32 [ %bits, %few ], [ %left.1, %single ]
  %s = phi i64 [ %t, %few ], [ %s.1, %single ]
  %first = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %first.n = zext i32 %first to i64
  %at = add i64 %c, %first.n
  %to = getelementptr i64, ptr %positions, i64 %s
  store i64 %at, ptr %to, align 8
  %s.1 = add i64 %s, 1
  %less = sub i32 %left, 1
  %left.1 = and i32 %left, %less
  %more = icmp ne i32 %left.1, 0
  %within = icmp slt i64 %s.1, %total                ; where another thread has changed flags since they were counted
  %again = and i1 %more, %within
  br i1 %again, label %single, label %passed
passed:
  %t.1 = phi i64 [ %t, %look ], [ %t, %few ], [ %t.{{LAST}}, %together ], [ %s.1, %single ]
  br label %chunk
rest:
  %c.rest = phi i64 [ %c, %chunk ], [ %c.next, %stepped ]
  %t.rest = phi i64 [ %t, %chunk ], [ %t.next, %stepped ]
  %is.rest = icmp slt i64 %c.rest, %columns
  br i1 %is.rest, label %byte, label %counted
byte:
  %q = getelementptr i8, ptr %line, i64 %c.rest
  %b = load i8, ptr %q, align 1
  %is.true = icmp ne i8 %b, 0
  %is.free = icmp slt i64 %t.rest, %total
  %is.set = and i1 %is.true, %is.free
  br i1 %is.set, label %note, label %stepped
note:
  %n.p = getelementptr i64, ptr %positions, i64 %t.rest
  store i64 %c.rest, ptr %n.p, align 8
  br label %stepped
stepped:
  %one = zext i1 %is.set to i64
  %t.next = add i64 %t.rest, %one
  %c.next = add i64 %c.rest, 1
  br label %rest
counted:
  %own = sub i64 %t.rest, %begun
  %count.p = getelementptr i64, ptr %counts, i64 %r
  store i64 %own, ptr %count.p, align 8
  %r.1 = add i64 %r, 1
  br label %row
done:
  ret void
}
