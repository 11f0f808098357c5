"""Proves that lanes of one program that touch the same memory have a barrier between them."""
