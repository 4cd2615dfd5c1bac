"""Write the table of protobuf field numbers from the `.proto` files of Kubernetes' Go modules.

Usage: python tools/protobuf_fields.py GO_MODULES VERSION, for example `~/go/pkg/mod v0.34.4`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from kubelocal.apiserver.kinds.table import BUILT_IN

OUTPUT = Path(__file__).parents[1] / "src/kubelocal/apiserver/format/protobuf_fields.json"
_FIELD = re.compile(
    r"(?:(?P<label>optional|repeated|required)\s+)?"
    r"(?:map<\s*\w+\s*,\s*(?P<value>[\w.]+)\s*>|(?P<type>[\w.]+))\s+(?P<name>\w+)\s*=\s*(?P<number>\d+)"
)
_EXTRA = (
    "authentication.v1.TokenRequest",
    "autoscaling.v1.Scale",
    "meta.v1.DeleteOptions",
    "policy.v1.Eviction",
    "runtime.Unknown",
)


def short(name: str) -> str:
    """Return a message's name without what all of them begin with."""
    parts = name.split(".")
    return ".".join(parts[-3:]) if parts[-2].startswith("v") else ".".join(parts[-2:])


def read(path: Path) -> dict[str, dict[str, str]]:
    """Return the messages of one file: for each its fields by number, as `name type`."""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    found = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"{path} names no package")
    package = found[1]
    messages: dict[str, dict[str, str]] = {}
    for name, body in re.findall(r"message (\w+) \{(.*?)\n\}", text, re.DOTALL):
        fields = {}
        for match in _FIELD.finditer(body):
            kind = match["value"] or match["type"]
            if kind[:1].isupper():
                kind = f"{package}.{kind}"
            if "." in kind:
                kind = short(kind)
            mark = "{}" if match["value"] else "[]" if match["label"] == "repeated" else ""
            fields[match["number"]] = f"{match['name']} {kind}{mark}"
        messages[short(f"{package}.{name}")] = fields
    return messages


def main() -> None:
    """Read every file, keep what the operator's kinds reach, and write the table."""
    modules, version = Path(sys.argv[1]) / "k8s.io", sys.argv[2]
    messages: dict[str, dict[str, str]] = {}
    for module in ("api", "apimachinery", "apiextensions-apiserver"):
        for path in sorted((modules / f"{module}@{version}").rglob("generated.proto")):
            messages |= read(path)
    wanted = [
        f"{row.group.partition('.')[0] or 'core'}.{row.version}.{row.kind}" for row in BUILT_IN
    ]
    pending, kept = [*wanted, *_EXTRA], dict[str, dict[str, str]]()
    while pending:
        name = pending.pop()
        if name in kept or name not in messages:
            continue
        kept[name] = messages[name]
        pending.extend(field.split()[1].rstrip("[]{}") for field in messages[name].values())
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(kept[name])}" for name in sorted(kept))
    OUTPUT.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
