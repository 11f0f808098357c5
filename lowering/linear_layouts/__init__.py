"""Linear layouts: which thread and register, or which place in shared memory, holds which element of a block."""
