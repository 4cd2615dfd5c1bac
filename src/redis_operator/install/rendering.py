"""Objects as YAML that people read and keep in Git. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

__all__ = ["to_stream", "to_yaml"]


class _Dumper(yaml.SafeDumper):
    """Writes equal parts out each time: anchors would be legal, but hard to read."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Lines as lines: files inside a document stay readable."""
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(document: Any) -> str:
    """Return a document in a readable form: keys in their order, no anchors."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def to_stream(documents: Iterable[Any]) -> str:
    """Return several documents as one file."""
    return "".join(f"---\n{to_yaml(document)}" for document in documents)
