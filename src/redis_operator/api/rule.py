"""One rule over several fields or over time, as a CEL expression for admission. See `rules`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Rule"]


class Rule(Struct, frozen=True):
    """One rule on values of one type."""

    type: str
    field: str
    rule: str
    message: str

    def schema(self) -> dict[str, Any]:
        """Return the rule as an entry of `x-kubernetes-validations`."""
        entry = {"rule": self.rule, "message": self.message}
        if self.field:
            entry["fieldPath"] = "".join(map(_step, self.field.split(".")))
        return entry


def _step(name: str) -> str:
    """Return one step of a path; names of directives may have dashes."""
    return f".{name}" if name.isidentifier() else f"['{name}']"
