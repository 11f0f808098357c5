"""PTX: text to syntax tree, and which instructions with which modifiers and operands there are."""
