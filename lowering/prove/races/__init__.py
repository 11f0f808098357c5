"""Proves that programs, and lanes of a store, do not touch the same memory."""
