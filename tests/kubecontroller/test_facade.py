"""What authors of operators import: few names, all there, none loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kubecontroller


def test_every_name_is_there_and_is_what_its_module_calls_so() -> None:
    for name in kubecontroller.__all__:
        found = getattr(kubecontroller, name)
        module = sys.modules.get(getattr(found, "__module__", "") or "")
        assert found is not None
        assert module is None or getattr(module, name, found) is found
    assert set(kubecontroller.__all__) == set(kubecontroller._PLACE)


def test_the_names_fit_on_a_screen() -> None:
    assert len(kubecontroller.__all__) <= 48


def test_what_is_not_there_is_said_with_its_name() -> None:
    with pytest.raises(AttributeError, match="Informers"):
        kubecontroller.Informers  # noqa: B018


def test_nothing_is_loaded_before_it_is_needed() -> None:
    program = (
        "import sys, kubecontroller; print(*[n for n in sys.modules if 'kubecontroller.' in n])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
