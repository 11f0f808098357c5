"""Emits quotients of floats and of integers without the instructions that divide, or with fewer of them."""
