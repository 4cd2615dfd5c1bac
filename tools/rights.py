"""Compare the calls in an API server's audit log with the rights of an installation; print both.

    python tools/rights.py audit.log [--namespace redis-operator] [--watch-namespaces a,b]

For each account (operator, installer, strategy): rights that were used, those that were not, and
calls without a right. Ends with 1 when a call was made that the table does not have, or that was
forbidden. Which rights a log shows as unused depends on what was played while it was written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from redis_operator.install.managed.objects import (
    INSTALLER,
    STRATEGY_ACCOUNT,
    installer_objects,
)
from redis_operator.install.objects import objects
from redis_operator.install.options import Options
from redis_operator.install.rights import OPERATOR

Right = tuple[str, str, str]
"""Group, resource with subresource, and verb."""
ACCOUNTS: Final = (OPERATOR, INSTALLER, STRATEGY_ACCOUNT)


def granted(account: str, options: Options) -> set[Right]:
    """Return what roles give an account, all namespaces taken together."""
    made = [*objects(options), *installer_objects(options)]
    roles = {
        (one["roleRef"]["kind"], one["roleRef"]["name"])
        for one in made
        if any(subject["name"] == account for subject in one.get("subjects", ()))
    }
    rules = [
        rule
        for one in made
        if (one["kind"], one["metadata"]["name"]) in roles
        for rule in one["rules"]
    ]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }


def called(lines: Iterable[str], namespace: str) -> dict[str, dict[Right, int]]:
    """Return the rights that each account's calls took, and how often; with refused ones."""
    found: dict[str, dict[Right, int]] = {account: {} for account in ACCOUNTS}
    for line in lines:
        event = json.loads(line)
        account = str((event.get("user") or {}).get("username", "")).rpartition(":")
        if event.get("stage") != "ResponseComplete" or account[2] not in found:
            continue
        if account[0] != f"system:serviceaccount:{namespace}":
            continue
        for right in _rights(event):
            found[account[2]][right] = found[account[2]].get(right, 0) + 1
    return found


def _rights(event: dict[str, Any]) -> list[Right]:
    about = event.get("objectRef") or {}
    if "resource" not in about:
        return []  # discovery, which all accounts may
    more = f"/{about['subresource']}" if about.get("subresource") else ""
    group, resource = about.get("apiGroup", ""), f"{about['resource']}{more}"
    code = (event.get("responseStatus") or {}).get("code", 0)
    if code == 403 and not _is_authorized(event):
        return [(group, resource, f"{event['verb']} (forbidden)")]
    # an apply that creates needs both
    created = event["verb"] == "patch" and code == 201
    verbs = (event["verb"], "create") if created else (event["verb"],)
    return [(group, resource, verb) for verb in verbs]


def _is_authorized(event: dict[str, Any]) -> bool:
    """Return whether RBAC allowed the call: a namespace that is being deleted refuses it too."""
    return (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "allow"


def report(account: str, table: set[Right], calls: dict[Right, int]) -> tuple[list[str], bool]:
    """Return the comparison as lines, and whether every call has its right."""
    used = sorted(right for right in calls if right in table)
    unused = sorted(table - {*calls})
    others = sorted(right for right in calls if right not in table)
    lines = [f"{account}: {sum(calls.values())} calls, {len(used)} of {len(table)} rights used"]
    lines += [f"  used      {_text(right):60} {calls[right]:7}" for right in used]
    lines += [f"  not used  {_text(right)}" for right in unused]
    lines += [f"  NO RIGHT  {_text(right):60} {calls[right]:7}" for right in others]
    return lines, not others


def _text(right: Right) -> str:
    group, resource, verb = right
    return f"{verb} {resource}{'.' if group else ''}{group}"


def main(arguments: list[str]) -> int:
    """Print the comparison; return 1 where a call has no right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("log")
    parser.add_argument("--namespace", default=OPERATOR, help="namespace of the operator")
    parser.add_argument(
        "--watch-namespaces", default="", help="those of the installation, if it has a list"
    )
    given = parser.parse_args(arguments)
    watched = tuple(name for name in given.watch_namespaces.split(",") if name)
    options = Options(namespace=given.namespace, watch_namespaces=watched)
    with Path(given.log).open() as log:
        calls = called(log, given.namespace)
    good = True
    for account in ACCOUNTS:
        if calls[account]:
            lines, fits = report(account, granted(account, options), calls[account])
            print("\n".join(lines))
            good = good and fits
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
