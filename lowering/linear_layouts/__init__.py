"""Linear layouts say which thread and register, or which offset in shared memory, holds which element of a block."""
