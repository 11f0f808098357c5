; The pool's part for other POSIX systems: sleeping on one condition variable, and no say about CPUs.
;
; One mutex and one condition serve all pools: they are used only to fall asleep and to wake, and sleepers look again.

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

@mutex = internal global [128 x i8] zeroinitializer, align 64
@condition = internal global [128 x i8] zeroinitializer, align 64

; Sleeps while the word holds the value.
define internal void @sleep_while(ptr %word, i32 %value) nounwind {
entry:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
look:
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %wait, label %out
wait:
  %w = call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %look
out:
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

; Wakes who sleeps on the word; the word was changed before, and the mutex orders that before the next look.
define internal void @wake(ptr %word) nounwind {
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @condition)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define internal i32 @thread_id() nounwind {
  ret i32 0
}

define internal i32 @current_cpu() nounwind {
  ret i32 -1
}

define internal void @set_cpus(i32 %thread, i64 %bytes, ptr %mask) nounwind {
  ret void
}

; Called once before the first use, and in a child after fork, where a thread that no longer exists may have held the mutex.
define void @jn_pool_reset() nounwind {
  call void @make_worker_key()
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr @condition, ptr null)
  ret void
}
