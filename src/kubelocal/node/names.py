"""The host names a pod knows: its own, and those of its `hostAliases`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubelocal.node.process.launch import hostname_of

__all__ = ["hosts_text"]

_HEAD = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def hosts_text(pod: Mapping[str, Any], address: str) -> str:
    """Return the `/etc/hosts` of a pod."""
    spec, metadata = pod["spec"], pod["metadata"]
    hostname = hostname_of(pod)
    names = [hostname]
    if spec.get("subdomain"):
        domain = f"{spec['subdomain']}.{metadata['namespace']}.svc.cluster.local"
        names.insert(0, f"{hostname}.{domain}")
    lines = [f"{address}\t" + "\t".join(names)]
    aliases = spec.get("hostAliases") or ()
    if aliases:
        lines.append("\n# Entries added by HostAliases.")
        lines += [f"{alias['ip']}\t" + "\t".join(alias["hostnames"]) for alias in aliases]
    return _HEAD + "\n".join(lines) + "\n"
