; A processor of which nothing is known: its modes stay as they are.

define internal i64 @default_modes() nounwind {
  ret i64 0
}

define internal void @restore_modes(i64 %was) nounwind {
  ret void
}
