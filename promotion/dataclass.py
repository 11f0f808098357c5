"""Provides a dataclass decorator that takes a quarter of the time of `dataclasses.dataclass`.

The first compilation of a process defines some 130 classes of ours. The standard decorator compiles up to six methods for each,
half a millisecond a class (Python 3.11); here `__init__` alone is compiled, and the rest are closures over the names of the
fields. `docs/design/013-libraries.md` has the figures. Type checkers see the standard decorator.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any


class _Factory:
    """Stands in a signature for a default that a factory makes for every object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _initializer(cls: type, frozen: bool) -> Any:
    """Compile `__init__`: one parameter per field, then `__post_init__` if the class has one."""
    parameters, body = ["self"], []
    outer: dict[str, Any] = {"__put__": object.__setattr__, "__factory__": _FACTORY}
    annotations: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        if field.kw_only:
            raise TypeError(f"{cls.__name__}.{name}: this decorator has no keyword-only fields")
        if field.init:
            annotations[name] = field.type
        if field.default_factory is not dataclasses.MISSING:
            outer[f"__default_{name}__"] = field.default_factory
            value = f"__default_{name}__()"
            if field.init:
                parameters.append(f"{name}=__factory__")
                value = f"{value} if {name} is __factory__ else {name}"
        elif field.default is not dataclasses.MISSING:
            outer[f"__default_{name}__"] = field.default
            value = name if field.init else f"__default_{name}__"
            if field.init:
                parameters.append(f"{name}=__default_{name}__")
        elif field.init:
            parameters.append(name)
        else:
            continue
        body.append(f"  __put__(self, {name!r}, {value})" if frozen else f"  self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("  self.__post_init__()")
    text = f"def __make__({', '.join(outer)}):\n def __init__({', '.join(parameters)}):\n"
    text += "\n".join(body or ["  pass"]) + "\n return __init__"
    module = sys.modules.get(cls.__module__)
    made: dict[str, Any] = {}
    exec(text, {} if module is None else module.__dict__, made)
    function = made["__make__"](**outer)
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__annotations__ = {**annotations, "return": None}
    return function


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function from an object to the tuple of its named attributes."""
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda object_: (get(object_),)


def _comparison(names: list[str]) -> Any:
    values = _values(names)

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(names: list[str]) -> Any:
    values = _values(names)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _refuse_setting(self: Any, name: str, value: object) -> None:
    if "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deleting(self: Any, name: str) -> None:
    if "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


def _define(cls: type, frozen: bool, eq: bool) -> type:
    own = set(vars(cls))
    explicit_hash = "__hash__" in own and not (cls.__hash__ is None and "__eq__" in own)
    # A class derived from a frozen one must be declared frozen; a base need not be, which saves two methods.
    derived = any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:])
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen and derived, slots=True)(cls)
    made.__dataclass_params__.frozen = frozen
    fields = dataclasses.fields(made)
    methods: dict[str, Any] = {"__repr__": _repr}
    if eq:
        methods["__eq__"] = _comparison([each.name for each in fields if each.compare])
        if not explicit_hash:
            hashed = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
            methods["__hash__"] = _hash(hashed) if frozen else None
            own.discard("__hash__")
    if frozen:
        methods |= {"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting}
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    if "__init__" not in own:
        methods["__init__"] = _initializer(made, frozen)
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool, eq: bool = True) -> Callable[[type], type]:
        """Do what `dataclasses.dataclass` does with slots.

        There are no keyword-only fields, no `InitVar` and no order. Raises `TypeError` without slots, or for
        a keyword-only field.
        """
        if not slots:
            raise TypeError("this decorator makes dataclasses with slots; use dataclasses.dataclass for others")
        return lambda cls: _define(cls, frozen, eq)
