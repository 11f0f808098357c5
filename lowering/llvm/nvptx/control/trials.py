"""Lowers on trial, to find out in which layouts the result is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..context import KernelContext


@contextmanager
def trial(k: KernelContext) -> Iterator[None]:
    """Lowers what is inside on trial, to find out in which layouts it results. Everything is restored afterwards."""
    nodes, scalars, on_trial = dict(k.nodes), dict(k.scalars), k.ev.only_layouts
    k.ev.only_layouts = True
    with k.f.trial(), k.shared.trial(), k.order.trial(), k.ev.scope():
        yield
    k.ev.only_layouts = on_trial
    k.nodes, k.scalars = nodes, scalars
