"""Gives users proofs of kernels: `Kernel.prove`, what guesses specifications from calls, and the runs of counterexamples."""
