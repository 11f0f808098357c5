"""Proves that no lane that a load or an atomic leaves undefined has a part in what accesses do."""
