"""Fields that a definition does not declare are left out of a status, for a while."""

from __future__ import annotations

import pytest

from kubecontroller.runtime import undeclared
from kubecontroller.runtime.undeclared import Undeclared

KIND = "widgets"
REFUSED = "failed to create typed patch object (team/a; example.com/v1, Kind=Widget): "
STATUS = {
    "phase": "Ready",
    "load": {"cpu": 1, "memory": 2},
    "pods": [{"name": "a", "lag": 1}, {"name": "b"}],
    "conditions": [{"type": "Ready", "since": 1}, {"type": "Old"}],
}


def refusal(*fields: str) -> str:
    told = [f"{field}: field not declared in schema" for field in fields]
    return REFUSED + (told[0] if len(told) == 1 else "errors:\n  " + "\n  ".join(told))


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ((".status.phase",), {k: v for k, v in STATUS.items() if k != "phase"}),
        ((".status.load.cpu",), STATUS | {"load": {"memory": 2}}),
        ((".status.pods[0].lag",), STATUS | {"pods": [{"name": "a"}, {"name": "b"}]}),
        (
            ('.status.conditions[type="Ready"].since', ".status.load"),
            {k: v for k, v in STATUS.items() if k != "load"}
            | {"conditions": [{"type": "Ready"}, {"type": "Old"}]},
        ),
        ((".status.gone.long",), STATUS),
    ],
)
async def test_what_a_refusal_names_is_left_out(
    fields: tuple[str, ...], kept: dict[str, object]
) -> None:
    found = Undeclared()
    assert found.learn(KIND, refusal(*fields))
    assert found.strip(KIND, STATUS) == kept
    assert found.strip("others", STATUS) == STATUS
    assert not found.learn(KIND, refusal(*fields)), "the same again is another fault"


@pytest.mark.parametrize(
    "message",
    ["etcdserver: request timed out", refusal(".spec.odd"), "field not declared in schema"],
)
async def test_other_errors_teach_nothing(message: str) -> None:
    found = Undeclared()
    assert not found.learn(KIND, message)
    assert found.strip(KIND, STATUS) == STATUS


async def test_it_is_tried_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Undeclared()
    monkeypatch.setattr(undeclared, "_REMEMBERED_SECONDS", 0.0)
    assert found.learn(KIND, refusal(".status.phase"))
    assert found.strip(KIND, STATUS) == STATUS
