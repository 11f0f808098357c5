"""Makes terms of the values of block functions: a context, rules by kinds of operations, and their table."""
