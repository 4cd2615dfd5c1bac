"""The syntax of CEL: from the text of a rule to its syntax tree.

The engine that runs rules shows no tree, which the estimate of costs needs. Operators are calls, as
in CEL itself: `a && b` is a call of `_&&_`. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

__all__ = ["Call", "Expression", "Ident", "Listed", "Literal", "Mapped", "Select", "parse"]

_TOKEN = re.compile(
    r"""\s*(?://[^\n]*\n?\s*)*(?:
    (?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
        |\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'))
    |(?P<number>0x[0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\d+|\.\d+)(?:[eE][+-]?\d+)?[uU]?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>\|\||&&|==|!=|<=|>=|\[\?|\.\?|[-+*/%!<>?:.,()\[\]{}`])
    )""",
    re.VERBOSE | re.DOTALL,
)
_QUOTES = re.compile(r"^[rRbB]*(\"\"\"|'''|\"|')")
_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
_DEEPEST = 200


class Literal(Struct, frozen=True):
    """A constant, and how large it is: the characters of a text, 1 for anything else."""

    size: int
    kind: str


class Ident(Struct, frozen=True):
    """A variable."""

    name: str


class Select(Struct, frozen=True):
    """A field of an expression."""

    operand: Expression
    field: str


class Call(Struct, frozen=True):
    """A function, an operator or a macro, called on a target or on nothing."""

    function: str
    target: Expression | None
    args: tuple[Expression, ...]


class Listed(Struct, frozen=True):
    """A list literal."""

    items: tuple[Expression, ...]


class Mapped(Struct, frozen=True):
    """A map (or message) literal, keys and values in turn."""

    items: tuple[Expression, ...]


Expression = Literal | Ident | Select | Call | Listed | Mapped


@lru_cache(maxsize=1024)
def parse(source: str) -> Expression | None:
    """Return the tree of a rule, or nothing for what this parser cannot read."""
    try:
        reader = _Reader(source)
        found = reader.expression()
    except (ValueError, RecursionError):
        return None
    return found if reader.is_done else None


class _Reader:
    def __init__(self, source: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._at = self._depth = 0
        place = 0
        source = source.rstrip()
        while place < len(source):
            match = _TOKEN.match(source, place)
            if match is None or match.lastgroup is None:
                raise ValueError(f"no CEL token at {place}")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            place = match.end()

    @property
    def is_done(self) -> bool:
        return self._at == len(self._tokens)

    def _peek(self) -> str:
        if self.is_done:
            return ""
        kind, text = self._tokens[self._at]
        return text if kind in {"sign", "name"} else ""

    def _take(self, *wanted: str) -> str:
        """Read one of these signs, if it comes next."""
        found = self._peek()
        if found and found in wanted:
            self._at += 1
            return found
        return ""

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise ValueError(f"{sign} is missing")

    def expression(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        found = self._binary(0)
        if self._take("?"):
            yes = self.expression()
            self._expect(":")
            found = Call("_?_:_", None, (found, yes, self.expression()))
        self._depth -= 1
        return found

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        found = self._binary(level + 1)
        while sign := self._take(*_LEVELS[level]):
            name = "@in" if sign == "in" else f"_{sign}_"
            found = Call(name, None, (found, self._binary(level + 1)))
        return found

    def _unary(self) -> Expression:
        if sign := self._take("!", "-"):
            return Call(f"{sign}_", None, (self._unary(),))
        return self._member(self._primary())

    def _member(self, found: Expression) -> Expression:
        while True:
            if self._take(".?"):
                found = Call("_?._", None, (found, Literal(1, "string")))
                self._name()
            elif self._take("."):
                name = self._name()
                if self._take("("):
                    found = Call(name, found, self._arguments(")"))
                else:
                    found = Select(found, name)
            elif self._take("[", "[?"):
                found = Call("_[_]", None, (found, self.expression()))
                self._expect("]")
            else:
                return found

    def _name(self) -> str:
        if self._take("`"):
            raise ValueError("quoted names are not read here")
        kind, text = self._tokens[self._at] if not self.is_done else ("", "")
        if kind != "name":
            raise ValueError("a name is missing")
        self._at += 1
        return text

    def _primary(self) -> Expression:
        if self._take("("):
            found = self.expression()
            self._expect(")")
            return found
        if self._take("["):
            return Listed(self._arguments("]"))
        if self._take("{"):
            return self._entries()
        self._take(".")
        if self.is_done:
            raise ValueError("it ends too early")
        kind, text = self._tokens[self._at]
        if kind == "sign":
            raise ValueError(f"expected a value, found {text}")
        self._at += 1
        if kind != "name":
            return _constant(kind, text)
        if text in {"true", "false", "null"}:
            return Literal(1, "bool")
        if self._take("("):
            return Call(text, None, self._arguments(")"))
        return Ident(text)

    def _arguments(self, end: str) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self._take(end):
            self._take("?")
            found.append(self.expression())
            if not self._take(","):
                self._expect(end)
                break
        return tuple(found)

    def _entries(self) -> Expression:
        found: list[Expression] = []
        while not self._take("}"):
            self._take("?")
            found.append(self.expression())
            self._expect(":")
            found.append(self.expression())
            if not self._take(","):
                self._expect("}")
                break
        return Mapped(tuple(found))


def _constant(kind: str, text: str) -> Literal:
    if kind == "number":
        return Literal(1, "number")
    match = _QUOTES.match(text)
    quotes = match[1] if match else ""
    inner = text[text.index(quotes) + len(quotes) : len(text) - len(quotes)]
    if "r" not in text[: text.index(quotes)].lower():
        inner = re.sub(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-7]{3}|.)", "_", inner)
    return Literal(len(inner), "string")
