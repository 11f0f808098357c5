; Floating-point modes: rounding, denormal numbers, traps. Kernels mean the default ones whatever their caller has set, so every
; native way in sets them, if they are other ones, and restores what was there. @default_modes, the platform's part, answers with
; what was there; @restore_modes takes that.

; A launch of a single kernel: jn_parallel in the default modes.
define void @jn_launch(ptr %pool, ptr %kernel, ptr %args, i64 %n, i64 %grain) nounwind {
  %modes = call i64 @default_modes()
  call void @jn_parallel(ptr %pool, ptr %kernel, ptr %args, i64 %n, i64 %grain)
  call void @restore_modes(i64 %modes)
  ret void
}
