"""Parts of a custom kind: conditions, schemas and definitions made from Python types.

Pure values, without I/O, so that the pure part of an operator may use it. `client.definitions`
installs what `definition` returns.

May import: nothing else of the library.
Called by: `client`, and by operators, also by their pure parts.
Begin with: `schema`.
"""

from __future__ import annotations

from kubecontroller.custom.conditions import dated, with_condition
from kubecontroller.custom.definition import Column, definition
from kubecontroller.custom.schema import Facts, Schema, schema_of

__all__ = ["Column", "Facts", "Schema", "dated", "definition", "schema_of", "with_condition"]
