from __future__ import annotations

from kubecontroller.testing.loop import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
