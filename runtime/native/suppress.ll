; Takes boxes in a given order, and drops those that overlap one that was taken before.
;
; boxes: x low, y low, x high, y high and area, each of all %total boxes; order: which of them, %count; taken: the numbers of those
; that were taken, %already when it is called; kept: their five values, each in a row of %room numbers, a multiple of 16.
; Returns how many are taken, %limit at most.  A box overlaps another one if it shares more than %most of their union with it.

declare <16 x float> @llvm.minimum.v16f32(<16 x float>, <16 x float>)
declare <16 x float> @llvm.maximum.v16f32(<16 x float>, <16 x float>)
declare i1 @llvm.vector.reduce.or.v16i1(<16 x i1>)

define i64 @jn_suppress(ptr %boxes, i64 %total, ptr %order, i64 %count, i64 %limit, float %most, ptr %taken, ptr %kept,
                        i64 %room, i64 %already) nounwind {
entry:
  %most.0 = insertelement <16 x float> poison, float %most, i32 0
  %most.n = shufflevector <16 x float> %most.0, <16 x float> poison, <16 x i32> zeroinitializer
  br label %next
next:                                              ; the next candidate
  %i = phi i64 [ 0, %entry ], [ %i.1, %dropped ], [ %i.1, %take ]
  %t = phi i64 [ %already, %entry ], [ %t, %dropped ], [ %t.1, %take ]
  %more = icmp slt i64 %i, %count
  %free = icmp slt i64 %t, %limit
  %go = and i1 %more, %free
  br i1 %go, label %read, label %done
read:
  %i.1 = add i64 %i, 1
  %order.i = getelementptr i64, ptr %order, i64 %i
  %box = load i64, ptr %order.i, align 8
{{READ}}
  %last = insertelement <16 x i64> poison, i64 %t, i32 0
  %last.n = shufflevector <16 x i64> %last, <16 x i64> poison, <16 x i32> zeroinitializer
  br label %compare
compare:                                           ; sixteen of those that were taken
  %j = phi i64 [ 0, %read ], [ %j.1, %passed ]
  %inside = icmp slt i64 %j, %t
  br i1 %inside, label %sixteen, label %take
sixteen:
{{KEPT}}
  %right = call <16 x float> @llvm.minimum.v16f32(<16 x float> %k2, <16 x float> %b2)
  %left = call <16 x float> @llvm.maximum.v16f32(<16 x float> %k0, <16 x float> %b0)
  %upper = call <16 x float> @llvm.minimum.v16f32(<16 x float> %k3, <16 x float> %b3)
  %lower = call <16 x float> @llvm.maximum.v16f32(<16 x float> %k1, <16 x float> %b1)
  %wide = fsub <16 x float> %right, %left
  %high = fsub <16 x float> %upper, %lower
  %w = call <16 x float> @llvm.maximum.v16f32(<16 x float> %wide, <16 x float> zeroinitializer)
  %h = call <16 x float> @llvm.maximum.v16f32(<16 x float> %high, <16 x float> zeroinitializer)
  %shared = fmul <16 x float> %w, %h
  %both = fadd <16 x float> %k4, %b4
  %union = fsub <16 x float> %both, %shared
  %some = fcmp ogt <16 x float> %union, zeroinitializer
  %part = fdiv <16 x float> %shared, %union
  %ratio = select <16 x i1> %some, <16 x float> %part, <16 x float> zeroinitializer
  %over = fcmp ogt <16 x float> %ratio, %most.n
  %first = insertelement <16 x i64> poison, i64 %j, i32 0
  %first.n = shufflevector <16 x i64> %first, <16 x i64> poison, <16 x i32> zeroinitializer
  %number = add <16 x i64> %first.n, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11,
                                      i64 12, i64 13, i64 14, i64 15>
  %valid = icmp slt <16 x i64> %number, %last.n
  %hit = and <16 x i1> %over, %valid
  %any = call i1 @llvm.vector.reduce.or.v16i1(<16 x i1> %hit)
  br i1 %any, label %dropped, label %passed
passed:
  %j.1 = add i64 %j, 16
  br label %compare
dropped:
  br label %next
take:
{{STORE}}
  %taken.t = getelementptr i64, ptr %taken, i64 %t
  store i64 %box, ptr %taken.t, align 8
  %t.1 = add i64 %t, 1
  br label %next
done:
  ret i64 %t
}
