from kubecontroller.testing.loop import pytest_asyncio_loop_factories  # noqa: F401
