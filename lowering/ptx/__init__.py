"""PTX: the parser from text to syntax tree, and the table of instructions with their modifiers and operands."""
