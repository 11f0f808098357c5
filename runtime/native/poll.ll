; What loops of compiled models call now and then, so that Ctrl-C ends them: signals are looked at every 50 ms, on the main thread,
; which alone runs their handlers.
;
; A loop calls jn_poll after %interval of its iterations. Returns after how many more it calls again, 0 to stop: a handler has raised
; an exception, which is set in this thread. %last is the time of the last look, 0 at first.  A call takes some 30 ns.
;
; A loop that has run for 20 microseconds releases the GIL, if its caller has kept it; jn_retake takes it back after the run.

declare i64 @pthread_self()
declare i32 @clock_gettime(i32, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyGILState_GetThisThreadState()
declare ptr @{{CURRENT}}()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

@jn_main_thread = dso_local global i64 0, align 8

define i64 @jn_poll(ptr %last, i64 %interval) nounwind {
entry:
  %time = alloca [2 x i64], align 8
  %failed = call i32 @clock_gettime(i32 {{CLOCK_MONOTONIC}}, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest.p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.p, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %before = load i64, ptr %last, align 8
  %is.first = icmp eq i64 %before, 0
  br i1 %is.first, label %first, label %later
first:
  store i64 %now, ptr %last, align 8
  br label %faster
later:
  %elapsed = sub i64 %now, %before
  %is.due = icmp sge i64 %elapsed, 50000000
  br i1 %is.due, label %due, label %not.due
not.due:
  %is.long = icmp sge i64 %elapsed, 20000
  br i1 %is.long, label %release, label %faster
release:
  call void @jn_release()
  br label %faster
faster:                                                    ; until the next look: twice as many iterations, but no more than 2^40
  %twice = shl i64 %interval, 1
  %more = call i64 @llvm.umin.i64(i64 %twice, i64 1099511627776)
  ret i64 %more
due:
  call void @jn_release()
  store i64 %now, ptr %last, align 8
  %half = lshr i64 %interval, 1
  %fewer = call i64 @llvm.umax.i64(i64 %half, i64 1)
  %self = call i64 @pthread_self()
  %main = load i64, ptr @jn_main_thread, align 8
  %is.main = icmp eq i64 %self, %main
  br i1 %is.main, label %look, label %go.on
look:
  %state = call i32 @PyGILState_Ensure()
  %status = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %raised = icmp ne i32 %status, 0
  br i1 %raised, label %stop, label %go.on
go.on:
  ret i64 %fewer
stop:
  ret i64 0
}

; The state of this thread if it holds the GIL, else null.
define internal ptr @jn_held() nounwind {
entry:
  %own = call ptr @PyGILState_GetThisThreadState()
  %now = call ptr @{{CURRENT}}()                           ; of whoever holds the GIL, or null
  %same = icmp eq ptr %own, %now
  %held = select i1 %same, ptr %own, ptr null
  ret ptr %held
}

define internal void @jn_release() nounwind {
entry:
  %held = call ptr @jn_held()
  %is.held = icmp ne ptr %held, null
  br i1 %is.held, label %release, label %out
release:
  %state = call ptr @PyEval_SaveThread()
  br label %out
out:
  ret void
}

; Takes the GIL back if a loop has released it.
define void @jn_retake() nounwind {
entry:
  %held = call ptr @jn_held()
  %own = call ptr @PyGILState_GetThisThreadState()
  %free = icmp eq ptr %held, null
  %known = icmp ne ptr %own, null
  %lost = and i1 %free, %known
  br i1 %lost, label %take, label %out
take:
  call void @PyEval_RestoreThread(ptr %own)
  br label %out
out:
  ret void
}

; Calls jn_run without the GIL.  Whoever calls this holds it, and looks afterwards whether an exception is set.
define void @jn_released(ptr %jn_run, ptr %pool, ptr %buffers, ptr %dims) nounwind {
entry:
  %thread = call ptr @PyEval_SaveThread()
  call void %jn_run(ptr %pool, ptr %buffers, ptr %dims)
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
