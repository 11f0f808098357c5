; jn_parallel where there is no thread pool for the platform: everything runs on the caller.

define void @jn_parallel(ptr %pool, ptr %kernel, ptr %args, i64 %n, i64 %grain) nounwind {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %run, label %out
run:
  call void %kernel(ptr %args, i64 0, i64 %n)
  br label %out
out:
  ret void
}

define void @jn_pool_reset() nounwind {
  ret void
}

define void @jn_pause(i64 %n) nounwind {
  ret void
}

define i32 @jn_worker() nounwind {
  ret i32 0
}

define i32 @jn_workers() nounwind {
  ret i32 1
}
