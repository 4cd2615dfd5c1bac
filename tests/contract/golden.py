"""Answers recorded from a real server, which every server must give again.

`CONTRACT_RECORD=1` with `KUBECONFIG` set writes them again; what names a time, an identity or an
address is replaced by a word first, so that two servers can be compared.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from pathlib import Path
from typing import Any

__all__ = ["matches", "plain", "recording", "same"]

FOLDER = Path(__file__).parent / "golden"
WORDS = {
    "creationTimestamp": "<time>",
    "lastPhaseTransitionTime": "<time>",
    "uid": "<uid>",
    "resourceVersion": "<version>",
    "clusterIP": "<address>",
    "nodePort": "<port>",
}
IDENTITY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def plain(value: Any, **names: str) -> Any:
    """The value with times, identities and addresses as words; `names` adds more words."""
    if isinstance(value, dict):
        return {
            name: _word(name, inner, names)
            for name, inner in sorted(value.items())
            if name != "managedFields"
        }
    if isinstance(value, list):
        return [plain(inner, **names) for inner in value]
    if isinstance(value, str):
        for word, text in names.items():
            value = value.replace(text, f"<{word}>")
        return IDENTITY.sub("<uid>", value)
    return value


def _word(name: str, inner: Any, names: dict[str, str]) -> Any:
    if name in WORDS and inner and inner != "None":
        return WORDS[name]
    if name == "clusterIPs" and inner != ["None"]:
        return ["<address>"]
    return plain(inner, **names)


def recording() -> bool:
    """Whether answers are recorded. Only those of a real server may be."""
    if not os.environ.get("CONTRACT_RECORD"):
        return False
    if not os.environ.get("KUBECONFIG"):
        raise RuntimeError(
            "CONTRACT_RECORD is set and KUBECONFIG is not: the embedded API server would be "
            "recorded as its own measure. Name a real cluster's kubeconfig"
        )
    return True


def same(topic: str, case: str, value: Any) -> None:
    """Compare with what was recorded for this case of a topic (a JSON file)."""
    path = FOLDER / f"{topic}.json"
    recorded = json.loads(path.read_text()) if path.exists() else {}
    if recording():
        recorded[case] = value
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
        return
    _compare(_lines(recorded.get(case)), _lines(value))


def matches(topic: str, case: str, text: str) -> None:
    """Compare with a recorded text, kept in a file of its own for reading."""
    path = FOLDER / topic / f"{case}.txt"
    if recording():
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        return
    _compare(path.read_text().splitlines(), text.splitlines())


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True).splitlines()


def _compare(wanted: list[str], now: list[str]) -> None:
    if wanted != now:
        lines = difflib.unified_diff(wanted, now, "recorded", "now", lineterm="", n=1)
        raise AssertionError("\n".join(lines))
