; The thread pool: jn_parallel, the one parallel construct generated code uses.
;
; A pool is a block of memory laid out as below and never freed, because its threads look at it until the process ends.
; Workers are created by the first jn_parallel that needs them.  A worker is in one of three states:
;
;     0 idle      1 posted: the caller offers it a job      2 running: it took the job
;
; The caller moves 0 -> 1 for each worker it wants, works on the job itself, and at the end takes back (1 -> 0) the offers
; nobody has accepted yet.  So a worker that is still waking up never delays a short job: the join waits only for workers that
; really run.  A job is the range [0, n), in chunks of `grain`.  Each of the team begins with a share of its own, chunks that
; lie side by side, and then helps with the shares of the others: kernels that follow each other over the same rows find in a
; core's own cache what they left there, and nobody waits for a worker that is late.
;
; An idle worker spins for a bounded number of pauses and then sleeps until its state word changes; the caller sleeps on the state
; word of a running worker in the same way.  How to sleep, and what is known about CPUs, is the platform's part: pool_linux.ll or
; pool_posix.ll, compiled in one module with this file, define @sleep_while, @wake, @thread_id, @current_cpu and @set_cpus.  One job at a time: whoever finds the pool taken (another thread, or a kernel that
; calls jn_parallel itself) runs its range inline, so nothing can deadlock.
;
; Pool:     0 i32 threads (with the caller)   4 i32 spin (pauses)     8 i64 bytes of a CPU mask
;          16 ptr mask of allowed CPUs       24 ptr scratch mask     32 i32 started   36 i32 limit of threads (0: none)
;          64 i32 lock (0 free, 1 taken)     68 i32 caller sleeps in the join
;         128 ptr kernel, 136 ptr args, 144 i64 n, 152 i64 grain, 160 i64 team
;         256 the workers, 128 bytes each; worker 0 is the caller, which has a share alone
; Worker:   0 i32 state   4 i32 sleeps   8 i32 thread id   12 i32 CPU it is kept off, plus 1   16 ptr pool
;          64 i64 next index of its share to hand out, 72 i64 end of its share

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
; pthread_key_t has 32 bits on Linux and 64 on macOS; a register with 64 passes both
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_setspecific(i64, ptr)
declare ptr @pthread_getspecific(i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
{{PAUSE_DECLARATION}}

; A thread's own value is the worker that it is while it works on a job.
@worker.key = internal global i64 0, align 8
@worker.key.made = internal global i32 0, align 4

define internal void @make_worker_key() nounwind {
entry:
  %made = load i32, ptr @worker.key.made, align 4
  %fresh = icmp eq i32 %made, 0
  br i1 %fresh, label %make, label %out
make:
  %failed = call i32 @pthread_key_create(ptr @worker.key, ptr null)
  %ok = icmp eq i32 %failed, 0
  %known = zext i1 %ok to i32
  store i32 %known, ptr @worker.key.made, align 4
  br label %out
out:
  ret void
}

; Makes the thread this worker (null: none); returns the one it was.
define internal ptr @become(ptr %worker) nounwind {
entry:
  %made = load i32, ptr @worker.key.made, align 4
  %known = icmp ne i32 %made, 0
  br i1 %known, label %set, label %out
set:
  %key = load i64, ptr @worker.key, align 8
  %was = call ptr @pthread_getspecific(i64 %key)
  %s = call i32 @pthread_setspecific(i64 %key, ptr %worker)
  ret ptr %was
out:
  ret ptr null
}

define internal ptr @this_worker() nounwind {
entry:
  %made = load i32, ptr @worker.key.made, align 4
  %known = icmp ne i32 %made, 0
  br i1 %known, label %get, label %out
get:
  %key = load i64, ptr @worker.key, align 8
  %worker = call ptr @pthread_getspecific(i64 %key)
  ret ptr %worker
out:
  ret ptr null
}

; Pauses n times, as a worker that waits does: how long that takes is measured, since it differs tenfold between processors.
define void @jn_pause(i64 %n) nounwind {
entry:
  br label %look
look:
  %round = phi i64 [ 0, %entry ], [ %round.next, %pause ]
  %some = icmp slt i64 %round, %n
  br i1 %some, label %pause, label %done
pause:
  {{PAUSE}}
  %round.next = add i64 %round, 1
  br label %look
done:
  ret void
}

; The number of the worker that the thread is; 0, that of callers, outside of jobs.
define i32 @jn_worker() nounwind {
entry:
  %worker = call ptr @this_worker()
  %none = icmp eq ptr %worker, null
  br i1 %none, label %out, label %found
found:
  %pool.p = getelementptr i8, ptr %worker, i64 16
  %pool = load ptr, ptr %pool.p, align 8
  %at = ptrtoint ptr %worker to i64
  %start = ptrtoint ptr %pool to i64
  %distance = sub i64 %at, %start
  %offset = sub i64 %distance, 256
  %index = lshr i64 %offset, 7
  %number = trunc i64 %index to i32
  ret i32 %number
out:
  ret i32 0
}

; The workers of the job's pool, the caller included.
define i32 @jn_workers() nounwind {
entry:
  %worker = call ptr @this_worker()
  %none = icmp eq ptr %worker, null
  br i1 %none, label %out, label %found
found:
  %pool.p = getelementptr i8, ptr %worker, i64 16
  %pool = load ptr, ptr %pool.p, align 8
  %threads = load i32, ptr %pool, align 4
  ret i32 %threads
out:
  ret i32 1
}

; Takes chunks of the current job, those of its own share first, until none is left.
define internal void @run_chunks(ptr %pool, ptr %me) nounwind {
entry:
  %kernel.p = getelementptr i8, ptr %pool, i64 128
  %args.p = getelementptr i8, ptr %pool, i64 136
  %grain.p = getelementptr i8, ptr %pool, i64 152
  %team.p = getelementptr i8, ptr %pool, i64 160
  %kernel = load ptr, ptr %kernel.p, align 8
  %args = load ptr, ptr %args.p, align 8
  %grain = load i64, ptr %grain.p, align 8
  %team = load i64, ptr %team.p, align 8
  %first = getelementptr i8, ptr %pool, i64 256
  %bytes = shl i64 %team, 7
  %last = getelementptr i8, ptr %first, i64 %bytes
  br label %share
share:
  %of = phi ptr [ %me, %entry ], [ %following, %next ]
  %next.p = getelementptr i8, ptr %of, i64 64
  %end.p = getelementptr i8, ptr %of, i64 72
  %end = load i64, ptr %end.p, align 8
  br label %look
look:
  ; a share of which nothing is left is only read, so that those who look for work do not disturb each other
  %now = load atomic i64, ptr %next.p monotonic, align 8
  %open = icmp slt i64 %now, %end
  br i1 %open, label %take, label %next
take:
  %low = atomicrmw add ptr %next.p, i64 %grain monotonic
  %left = sub i64 %end, %low
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %run, label %next
run:
  %whole = icmp slt i64 %grain, %left
  %count = select i1 %whole, i64 %grain, i64 %left
  %high = add i64 %low, %count
  call void %kernel(ptr %args, i64 %low, i64 %high)
  br label %look
next:
  %after = getelementptr i8, ptr %of, i64 128
  %round = icmp eq ptr %after, %last
  %following = select i1 %round, ptr %first, ptr %after
  %all = icmp eq ptr %following, %me
  br i1 %all, label %done, label %share
done:
  ret void
}

define internal ptr @worker_main(ptr %me) nounwind {
entry:
  %sleeps.p = getelementptr i8, ptr %me, i64 4
  %thread.p = getelementptr i8, ptr %me, i64 8
  %pool.p = getelementptr i8, ptr %me, i64 16
  %pool = load ptr, ptr %pool.p, align 8
  %spin.p = getelementptr i8, ptr %pool, i64 4
  %bytes.p = getelementptr i8, ptr %pool, i64 8
  %allowed.p = getelementptr i8, ptr %pool, i64 16
  %joiner.p = getelementptr i8, ptr %pool, i64 68
  %spins = load i32, ptr %spin.p, align 4
  ; a thread inherits the mask of its creator, who may have pinned itself: start from the process's mask
  %bytes = load i64, ptr %bytes.p, align 8
  %allowed = load ptr, ptr %allowed.p, align 8
  call void @set_cpus(i32 0, i64 %bytes, ptr %allowed)
  ; and the creator's floating-point modes, which may round otherwise or flush denormal numbers
  %modes = call i64 @default_modes()
  %nobody = call ptr @become(ptr %me)
  %thread = call i32 @thread_id()
  store atomic i32 %thread, ptr %thread.p release, align 4
  br label %idle
idle:
  br label %look
look:
  %round = phi i32 [ 0, %idle ], [ %round.next, %pause ]
  %state = load atomic i32, ptr %me acquire, align 4
  %posted = icmp eq i32 %state, 1
  br i1 %posted, label %accept, label %patience
patience:
  %tired = icmp sge i32 %round, %spins
  br i1 %tired, label %sleep, label %pause
pause:
  {{PAUSE}}
  %round.next = add i32 %round, 1
  br label %look
sleep:
  ; order matters: `sleeps` is visible before the state is compared once more, and the caller posts before it reads `sleeps`
  store atomic i32 1, ptr %sleeps.p seq_cst, align 4
  call void @sleep_while(ptr %me, i32 0)
  store atomic i32 0, ptr %sleeps.p seq_cst, align 4
  br label %idle
accept:
  %pair = cmpxchg ptr %me, i32 1, i32 2 seq_cst seq_cst
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %work, label %idle
work:
  call void @run_chunks(ptr %pool, ptr %me)
  ; a locked exchange, not a plain release store: on x86 it also drains non-temporal stores
  %was = atomicrmw xchg ptr %me, i32 0 seq_cst
  %joiner = load atomic i32, ptr %joiner.p seq_cst, align 4
  %waiting = icmp ne i32 %joiner, 0
  br i1 %waiting, label %wake, label %idle
wake:
  call void @wake(ptr %me)
  br label %idle
}

; Creates the workers, all signals blocked in them: signals belong to the user's threads.  When the system refuses a thread,
; the pool continues with those it has.
define internal void @start(ptr %pool) nounwind {
entry:
  %all = alloca [128 x i8], align 8
  %previous = alloca [128 x i8], align 8
  %handle = alloca i64, align 8
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %m0 = call i32 @pthread_sigmask(i32 {{SIG_SETMASK}}, ptr %all, ptr %previous)
  %threads = load i32, ptr %pool, align 4
  br label %next
next:
  %i = phi i32 [ 1, %entry ], [ %i.next, %created ]
  %more = icmp slt i32 %i, %threads
  br i1 %more, label %create, label %done
create:
  %i.long = zext i32 %i to i64
  %offset = shl i64 %i.long, 7
  %offset.pool = add i64 %offset, 256
  %worker = getelementptr i8, ptr %pool, i64 %offset.pool
  %failed = call i32 @pthread_create(ptr %handle, ptr null, ptr @worker_main, ptr %worker)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %created, label %fewer
created:
  %h = load i64, ptr %handle, align 8
  %d = call i32 @pthread_detach(i64 %h)
  %i.next = add i32 %i, 1
  br label %next
fewer:
  store i32 %i, ptr %pool, align 4
  br label %done
done:
  %m1 = call i32 @pthread_sigmask(i32 {{SIG_SETMASK}}, ptr %previous, ptr null)
  %started.p = getelementptr i8, ptr %pool, i64 32
  store i32 1, ptr %started.p, align 4
  ret void
}

; Linux likes to wake a worker on the waker's own CPU and to leave it there for milliseconds.  Keep it off that CPU; the caller's
; own mask is never touched.  `cpu` is the caller's.  Where @current_cpu answers -1 this is never called.
define internal void @keep_off(ptr %pool, ptr %worker, i32 %cpu) nounwind {
entry:
  %off.p = getelementptr i8, ptr %worker, i64 12
  %tag = add i32 %cpu, 1
  %now = load i32, ptr %off.p, align 4
  %same = icmp eq i32 %now, %tag
  br i1 %same, label %out, label %known
known:
  %thread.p = getelementptr i8, ptr %worker, i64 8
  %thread = load atomic i32, ptr %thread.p acquire, align 4
  %running = icmp ne i32 %thread, 0
  %bytes.p = getelementptr i8, ptr %pool, i64 8
  %bytes = load i64, ptr %bytes.p, align 8
  %byte = lshr i32 %cpu, 3
  %byte.long = zext i32 %byte to i64
  %inside = icmp ult i64 %byte.long, %bytes
  %go = and i1 %running, %inside
  br i1 %go, label %mask, label %out
mask:
  %allowed.p = getelementptr i8, ptr %pool, i64 16
  %scratch.p = getelementptr i8, ptr %pool, i64 24
  %allowed = load ptr, ptr %allowed.p, align 8
  %scratch = load ptr, ptr %scratch.p, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %scratch, ptr %allowed, i64 %bytes, i1 false)
  %bit = and i32 %cpu, 7
  %one = shl i32 1, %bit
  %clear32 = xor i32 %one, -1
  %clear = trunc i32 %clear32 to i8
  %cell = getelementptr i8, ptr %scratch, i64 %byte.long
  %old = load i8, ptr %cell, align 1
  %new = and i8 %old, %clear
  store i8 %new, ptr %cell, align 1
  store i32 %tag, ptr %off.p, align 4
  ; fails when no CPU is left, which changes nothing
  call void @set_cpus(i32 %thread, i64 %bytes, ptr %scratch)
  br label %out
out:
  ret void
}

; Runs kernel(args, low, high) over a partition of [0, n) into chunks of at most `grain`; returns when all of it is done.
define void @jn_parallel(ptr %pool, ptr %kernel, ptr %args, i64 %n, i64 %grain.asked) nounwind {
entry:
  %positive = icmp sgt i64 %grain.asked, 0
  %grain = select i1 %positive, i64 %grain.asked, i64 1
  %empty = icmp sle i64 %n, 0
  br i1 %empty, label %out, label %small
small:
  %no.pool = icmp eq ptr %pool, null
  %one.chunk = icmp sle i64 %n, %grain
  %alone = or i1 %no.pool, %one.chunk
  br i1 %alone, label %inline, label %count
count:
  %all = load i32, ptr %pool, align 4
  %limit.p = getelementptr i8, ptr %pool, i64 36
  %limit = load atomic i32, ptr %limit.p monotonic, align 4
  ; no limit is one of 2^32 - 1
  %limit.less = sub i32 %limit, 1
  %limited = icmp ult i32 %limit.less, %all
  %threads = select i1 %limited, i32 %limit, i32 %all
  %single = icmp sle i32 %threads, 1
  br i1 %single, label %inline, label %try
try:
  %lock.p = getelementptr i8, ptr %pool, i64 64
  %pair = cmpxchg ptr %lock.p, i32 0, i32 1 acquire monotonic
  %locked = extractvalue { i32, i1 } %pair, 1
  br i1 %locked, label %prepare, label %inline
inline:
  call void %kernel(ptr %args, i64 0, i64 %n)
  br label %out
prepare:
  %started.p = getelementptr i8, ptr %pool, i64 32
  %started = load i32, ptr %started.p, align 4
  %fresh = icmp eq i32 %started, 0
  br i1 %fresh, label %create, label %describe
create:
  call void @start(ptr %pool)
  br label %describe
describe:
  %kernel.p = getelementptr i8, ptr %pool, i64 128
  %args.p = getelementptr i8, ptr %pool, i64 136
  %n.p = getelementptr i8, ptr %pool, i64 144
  %grain.p = getelementptr i8, ptr %pool, i64 152
  %team.p = getelementptr i8, ptr %pool, i64 160
  store ptr %kernel, ptr %kernel.p, align 8
  store ptr %args, ptr %args.p, align 8
  store i64 %n, ptr %n.p, align 8
  store i64 %grain, ptr %grain.p, align 8
  ; no more workers than chunks
  %n.less = sub i64 %n, 1
  %chunks.less = sdiv i64 %n.less, %grain
  %chunks = add i64 %chunks.less, 1
  ; the system may have refused threads
  %made = load i32, ptr %pool, align 4
  %refused = icmp slt i32 %made, %threads
  %have = select i1 %refused, i32 %made, i32 %threads
  %have.long = sext i32 %have to i64
  %fewer = icmp slt i64 %chunks, %have.long
  %team = select i1 %fewer, i64 %chunks, i64 %have.long
  store i64 %team, ptr %team.p, align 8
  ; a share has chunks / team of them, and the first chunks % team shares have one more
  %each = udiv i64 %chunks, %team
  %over = urem i64 %chunks, %team
  br label %split
split:
  %k = phi i64 [ 0, %describe ], [ %k.next, %split ]
  %k.low = phi i64 [ 0, %describe ], [ %k.high, %split ]
  %k.more = icmp ult i64 %k, %over
  %k.one = zext i1 %k.more to i64
  %k.chunks = add i64 %each, %k.one
  %k.count = mul i64 %k.chunks, %grain
  %k.next = add i64 %k, 1
  %k.last = icmp eq i64 %k.next, %team
  %k.end = add i64 %k.low, %k.count
  %k.high = select i1 %k.last, i64 %n, i64 %k.end
  %k.offset = shl i64 %k, 7
  %k.offset.pool = add i64 %k.offset, 256
  %k.worker = getelementptr i8, ptr %pool, i64 %k.offset.pool
  %k.next.p = getelementptr i8, ptr %k.worker, i64 64
  %k.end.p = getelementptr i8, ptr %k.worker, i64 72
  store i64 %k.high, ptr %k.end.p, align 8
  store atomic i64 %k.low, ptr %k.next.p monotonic, align 8
  br i1 %k.last, label %ready, label %split
ready:
  %cpu = call i32 @current_cpu()
  %cpu.known = icmp sge i32 %cpu, 0
  ; with many workers the scheduler finds free CPUs by itself, and a mask per worker would cost a system call each
  %few = icmp sle i64 %team, 32
  %place = and i1 %cpu.known, %few
  br label %post
post:
  %i = phi i64 [ 1, %ready ], [ %i.next, %posted ]
  %i.more = icmp slt i64 %i, %team
  br i1 %i.more, label %offer, label %work
offer:
  %i.offset = shl i64 %i, 7
  %i.offset.pool = add i64 %i.offset, 256
  %i.worker = getelementptr i8, ptr %pool, i64 %i.offset.pool
  br i1 %place, label %position, label %hand
position:
  call void @keep_off(ptr %pool, ptr %i.worker, i32 %cpu)
  br label %hand
hand:
  %i.was = atomicrmw xchg ptr %i.worker, i32 1 seq_cst
  %i.sleeps.p = getelementptr i8, ptr %i.worker, i64 4
  %i.sleeps = load atomic i32, ptr %i.sleeps.p seq_cst, align 4
  %i.asleep = icmp ne i32 %i.sleeps, 0
  br i1 %i.asleep, label %wake, label %posted
wake:
  call void @wake(ptr %i.worker)
  br label %posted
posted:
  %i.next = add i64 %i, 1
  br label %post
work:
  %caller = getelementptr i8, ptr %pool, i64 256
  %outer = call ptr @become(ptr %caller)
  call void @run_chunks(ptr %pool, ptr %caller)
  %again = call ptr @become(ptr %outer)
  %joiner.p = getelementptr i8, ptr %pool, i64 68
  br label %join
join:
  %j = phi i64 [ 1, %work ], [ %j.next, %joined ]
  %j.more = icmp slt i64 %j, %team
  br i1 %j.more, label %withdraw, label %release
withdraw:
  %j.offset = shl i64 %j, 7
  %j.offset.pool = add i64 %j.offset, 256
  %j.worker = getelementptr i8, ptr %pool, i64 %j.offset.pool
  %j.pair = cmpxchg ptr %j.worker, i32 1, i32 0 seq_cst seq_cst
  %j.withdrawn = extractvalue { i32, i1 } %j.pair, 1
  br i1 %j.withdrawn, label %joined, label %watch
watch:
  %round = phi i32 [ 0, %withdraw ], [ %round.next, %pause ]
  %state = load atomic i32, ptr %j.worker acquire, align 4
  %idle = icmp eq i32 %state, 0
  br i1 %idle, label %joined, label %patience
patience:
  %tired = icmp sge i32 %round, 10000
  br i1 %tired, label %sleep, label %pause
pause:
  {{PAUSE}}
  %round.next = add i32 %round, 1
  br label %watch
sleep:
  store atomic i32 1, ptr %joiner.p seq_cst, align 4
  call void @sleep_while(ptr %j.worker, i32 2)
  %state.again = load atomic i32, ptr %j.worker seq_cst, align 4
  %still = icmp ne i32 %state.again, 0
  br i1 %still, label %sleep, label %awake
awake:
  store atomic i32 0, ptr %joiner.p seq_cst, align 4
  br label %joined
joined:
  %j.next = add i64 %j, 1
  br label %join
release:
  store atomic i32 0, ptr %lock.p release, align 4
  br label %out
out:
  ret void
}
