"""The exception classes of joinery. They live in the lowest layer because every layer raises them."""

from __future__ import annotations


class JoineryError(Exception):
    """Base class of every exception joinery raises on purpose."""


class UserError(JoineryError, ValueError):
    """The input is wrong. The message names the op, the operands, what was expected and one concrete fix."""


class UnsupportedError(JoineryError, NotImplementedError):
    """The input is valid but joinery does not implement it. The message names what is missing."""


class PromotionWarning(UserWarning):
    """An implicit cast that may lose values, in a graph whose `on_loss` asks for warnings about it."""


class InternalError(JoineryError, RuntimeError):
    """joinery itself is wrong: an invariant between its layers does not hold. Never the user's mistake."""
