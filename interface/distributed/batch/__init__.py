"""Runs a model over files, block by block, and writes each block of the results whole: `joinery batch`."""
