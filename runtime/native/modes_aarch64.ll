; FPCR: nothing but modes; zero is the default.

declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @default_modes() nounwind {
entry:
  %was = call i64 @llvm.aarch64.get.fpcr()
  %other = icmp ne i64 %was, 0
  br i1 %other, label %set, label %done
set:
  call void @llvm.aarch64.set.fpcr(i64 0)
  br label %done
done:
  ret i64 %was
}

define internal void @restore_modes(i64 %was) nounwind {
entry:
  %other = icmp ne i64 %was, 0
  br i1 %other, label %set, label %done
set:
  call void @llvm.aarch64.set.fpcr(i64 %was)
  br label %done
done:
  ret void
}
