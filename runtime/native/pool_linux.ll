; Linux's part of the pool: sleeping on a futex, and keeping workers off the caller's CPU.

declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @sched_setaffinity(i32, i64, ptr)

; Sleeps while the word holds the value; may return early, callers look again.
define internal void @sleep_while(ptr %word, i32 %value) nounwind {
  ; FUTEX_WAIT | FUTEX_PRIVATE_FLAG: the kernel compares the word once more before it sleeps
  %r = call i64 (i64, ...) @syscall(i64 {{SYS_FUTEX}}, ptr %word, i64 128, i32 %value, ptr null, ptr null, i64 0)
  ret void
}

; Wakes who sleeps on the word; the word was changed before.
define internal void @wake(ptr %word) nounwind {
  ; FUTEX_WAKE | FUTEX_PRIVATE_FLAG, one sleeper
  %r = call i64 (i64, ...) @syscall(i64 {{SYS_FUTEX}}, ptr %word, i64 129, i32 1, ptr null, ptr null, i64 0)
  ret void
}

define internal i32 @thread_id() nounwind {
  %long = call i64 (i64, ...) @syscall(i64 {{SYS_GETTID}})
  %id = trunc i64 %long to i32
  ret i32 %id
}

define internal i32 @current_cpu() nounwind {
  %cpu = call i32 @sched_getcpu()
  ret i32 %cpu
}

; The CPUs a thread may run on; thread 0 is the calling one.
define internal void @set_cpus(i32 %thread, i64 %bytes, ptr %mask) nounwind {
  %r = call i32 @sched_setaffinity(i32 %thread, i64 %bytes, ptr %mask)
  ret void
}

; Called once before the first use, and in a child after fork.
define void @jn_pool_reset() nounwind {
  call void @make_worker_key()
  ret void
}
