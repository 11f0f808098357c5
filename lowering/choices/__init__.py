"""What a user chooses of the lowering: numerics, lines in code, and schedules of kernels."""
