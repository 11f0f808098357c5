"""Reads the names of types, and the definitions of structs, unions and enums in them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..reading.source import END, Token
from . import tree
from .token_stream import (
    BASIC_TYPES,
    BUILT_IN_TYPES,
    QUALIFIERS,
    STORAGE,
    UNSUPPORTED,
    SyntaxAbort,
    TokenStream,
)

_INTEGERS = {
    ("char",): "int8", ("short",): "int16", ("int",): "int32", (): "int32", ("long",): "int64", ("long", "long"): "int64",
}  # fmt: skip


class TypeNameParser(TokenStream, ABC):
    """Reads the names of types."""

    @abstractmethod
    def conditional(self) -> tree.Expression:
        """Read a constant expression."""

    @abstractmethod
    def declarator(self, base: tree.TypeName, what: str, is_typedef: bool = False) -> tree.Declarator:
        """Read stars, a name, which may stand in parentheses, and its attributes and shape."""

    def type_name(self) -> tree.TypeName:
        """Read the name of a type, its pointers and its shape: T, T*, T[TM, TN], T*[TM, TN]."""
        base = self.specifiers()
        return self.with_shape(self.with_pointers(base))

    def specifiers(self, storage: list[Token] | None = None) -> tree.TypeName:
        """Read the name of an element type with its qualifiers, in any order.

        storage: takes `static`, `typedef` and their like, which may stand among them; None where they are errors. With
        `typedef` the name of a built-in type behind another one is what is declared: `typedef unsigned char uint8;`.
        """
        token = self.token
        is_constant = False
        names: list[str] = []
        definition: tree.Structure | tree.Enumeration | None = None
        while True:
            text = self.text
            if text in UNSUPPORTED:
                self.fail(UNSUPPORTED[text])
            if text in ("struct", "union", "enum") and not names:
                token = self.token
                name, definition = self.enumeration() if text == "enum" else self._structure()
                names.append(name)
                continue
            if names and text in BUILT_IN_TYPES and storage is not None and any(each.text == "typedef" for each in storage):
                break
            if text in QUALIFIERS:
                is_constant = is_constant or text in ("const", "__constant__")
            elif text in STORAGE and storage is not None:
                storage.append(self.token)
            elif text in BASIC_TYPES or (not names and self.is_type(self.token)):
                token = token if names else self.token
                names.append(text)
            else:
                break
            self.advance()
        if not names:
            self.fail_type("a type")
        return tree.TypeName(token, self._base(token, names), (is_constant,), None, definition)

    def _structure(self) -> tuple[str, tree.Structure | None]:
        """Read `struct name`, with its members in braces where it is defined; return what it is called."""
        token = self.advance()
        name = token.text if self.text == "{" else f"{token.text} {self.identifier(f'the name of a {token.text}').text}"
        if self.text != "{":
            return name, None
        self.deeper()
        self.advance()
        members: list[tree.Declarator] = []
        is_whole = True
        depth = self.depth
        while self.text != "}":
            try:
                if not self.accept(";"):
                    members += self._members(name)
            except SyntaxAbort:
                is_whole, self.depth = False, depth
                while self.text not in (";", "{", "}"):
                    if self.token.kind is END:
                        raise
                    self.advance()
                self.accept(";")
                if self.text == "{":
                    raise
        self.advance()
        self.depth -= 1
        if not is_whole:
            raise SyntaxAbort
        if not members:
            self.fail_at(token, f"{name} has no members")
        return name, tree.Structure(token, name, tuple(members))

    def _members(self, name: str) -> list[tree.Declarator]:
        """Read the members of a struct that one declaration has."""
        found: list[tree.Declarator] = []
        if not self.is_type(self.token):
            self.fail_type(f"the type of a member of {name}")
        base = self.specifiers()
        if self.text == ";" and isinstance(base.definition, tree.Structure) and " " not in base.base:
            token = self.advance()
            return [tree.Declarator(_nameless(token), base, (), None)]
        while True:
            hidden, types = set(self.hidden[-1]), set(self.types[-1])  # names of members are none of the scope
            member = self.declarator(base, f"the name of a member of {name}")
            self.hidden[-1], self.types[-1] = hidden, types
            if self.text == ":":
                self.fail("members of some bits are not supported", "shifts and masks of an integer")
            if member.attributes or self.text == "=":
                shown = member.attributes[0].token if member.attributes else self.token
                self.fail_at(shown, f"{shown.text} behind a member of {name}", "it is for parameters and variables")
            if self.text == "(":
                self.fail("a function is no member", "the function outside of the struct")
            found.append(member)
            if not self.accept(","):
                break
        self.expect(";", "behind a member")
        return found

    def enumeration(self) -> tuple[str, tree.Enumeration | None]:
        """Read `enum name`, with its constants in braces where it is defined; return the type of its values."""
        token = self.advance()
        if self.text != "{":
            self.identifier("the name of an enum or its constants")
            if self.text != "{":
                return "int32", None
        self.advance()
        members: list[tuple[Token, tree.Expression | None]] = []
        while self.text != "}":
            if members:
                self.expect(",", "or } in an enum")
                if self.text == "}":
                    break
            name = self.identifier("the name of a constant")
            self.declare(name.text, is_type=False)
            members.append((name, self.conditional() if self.accept("=") else None))
        self.advance()
        return "int32", tree.Enumeration(token, tuple(members))

    def _base(self, token: Token, names: list[str]) -> str:
        """Return the one name of the element type that several names may mean: `unsigned long int` is uint64."""
        signs = [each for each in names if each in ("signed", "unsigned")]
        rest = [each for each in names if each not in ("signed", "unsigned")]
        if not signs and len(rest) == 1 and rest[0] not in ("char", "short", "int", "long"):
            return {"_Bool": "bool"}.get(rest[0], rest[0])
        plain = tuple(each for each in rest if each != "int" or len(rest) == 1)
        if rest.count("int") > 1 or ("int" in rest and "char" in rest) or plain not in _INTEGERS or len(signs) > 1:
            shown = " ".join(names)
            self.fail_at(token, f"{shown} is no type", "double" if shown == "long double" else "")
        return ("u" if signs == ["unsigned"] else "") + _INTEGERS[plain]

    def with_pointers(self, base: tree.TypeName) -> tree.TypeName:
        """Read the stars behind an element type."""
        constant = list(base.constant)
        while self.text == "*":
            self.advance()
            is_constant = False
            while self.text in ("const", "volatile"):
                is_constant = is_constant or self.text == "const"
                self.advance()
            constant.append(is_constant)
        return tree.TypeName(base.token, base.base, tuple(constant), None, base.definition)

    def with_shape(self, type_: tree.TypeName) -> tree.TypeName:
        """Read the shape behind a type or a declared name, if there is one."""
        if self.text != "[":
            return type_
        token = self.advance()
        if self.text == "]" and type_.constant[0] and len(self.types) == 1:  # its initial values tell the length
            self.advance()
            return tree.TypeName(type_.token, type_.base, type_.constant, (), type_.definition)
        if self.text == "]":
            self.fail("an empty shape", "the extents of a block, as in x[16, 32]")
        self.deeper()
        extents = [self.conditional()]
        while self.accept(","):
            extents.append(self.conditional())
        self.depth -= 1
        self.expect("]", "at the end of a shape")
        if self.text == "[":
            self.fail_at(token, "arrays of arrays are not supported", "the extents of a block, as in x[16, 32]")
        return tree.TypeName(type_.token, type_.base, type_.constant, tuple(extents), type_.definition)


def _nameless(token: Token) -> Token:
    """Return a token without a text, which stands for the name of a member that has none."""
    return Token(token.kind, "", token.source, token.start, token.is_spaced, False, token.macro)


__all__ = ["TypeNameParser"]
