"""`$(NAME)` in commands, arguments and values of variables, as Kubernetes expands it.

`$(NAME)` becomes the variable's value and is left as it is when there is none; `$$` becomes `$`, so
that `$$(NAME)` is the literal text.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["expand"]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to variables in a text.

    >>> expand("$(HOST):$(PORT) $$(HOST) $(OTHER)", {"HOST": "a", "PORT": "1"})
    'a:1 $(HOST) $(OTHER)'
    """
    pieces: list[str] = []
    rest = text
    while True:
        before, dollar, rest = rest.partition("$")
        pieces.append(before)
        if not dollar:
            return "".join(pieces)
        if rest.startswith("$"):
            pieces.append("$")
            rest = rest[1:]
        elif rest.startswith("(") and ")" in rest:
            name, _, rest = rest[1:].partition(")")
            pieces.append(variables.get(name, f"$({name})"))
        else:
            pieces.append("$")
