; MXCSR: six flags that stay, then modes: 0xFFC0, of which 0x1F80 (nothing traps, to nearest, no flushing) are the default.

declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal i64 @default_modes() nounwind {
entry:
  %slot = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %was = load i32, ptr %slot, align 4
  %modes = and i32 %was, 65472
  %other = icmp ne i32 %modes, 8064
  br i1 %other, label %set, label %done
set:
  store i32 8064, ptr %slot, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  br label %done
done:
  %answer = zext i32 %was to i64
  ret i64 %answer
}

define internal void @restore_modes(i64 %was.long) nounwind {
entry:
  %slot = alloca i32, align 4
  %was = trunc i64 %was.long to i32
  %modes = and i32 %was, 65472
  %other = icmp ne i32 %modes, 8064
  br i1 %other, label %set, label %done
set:
  store i32 %was, ptr %slot, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  br label %done
done:
  ret void
}
