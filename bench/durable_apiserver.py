"""The embedded API server with every write on disk before it is answered, as etcd does it.

A program: `python -m bench.durable_apiserver` takes the arguments of the API server.
"""

from __future__ import annotations

import runpy
import sqlite3
from typing import Any

_connect = sqlite3.connect


class _Durable(sqlite3.Connection):
    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return super().execute(sql.replace("synchronous=NORMAL", "synchronous=FULL"), parameters)


def _open(*arguments: Any, **more: Any) -> Any:
    return _connect(*arguments, **{**more, "factory": _Durable})


if __name__ == "__main__":
    sqlite3.connect = _open
    runpy.run_module("kubelocal.apiserver", run_name="__main__", alter_sys=True)
