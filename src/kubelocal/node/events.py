"""Events of pods and nodes, as a kubelet writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubecontroller import Client, Recorder, Regarding

__all__ = ["EventRecorder"]


class EventRecorder:
    """Records events as the node of a pod; equal ones are counted."""

    def __init__(self, client: Client) -> None:
        self._recorder = Recorder(client, component="kubelet")
        self.run = self._recorder.run

    def record(
        self,
        pod: Mapping[str, Any],
        *,
        reason: str,
        message: str,
        warning: bool,
        field: str = "",
        kind: str = "Pod",
    ) -> None:
        """Record an event of a pod, of one of its containers, or of a node."""
        metadata = pod["metadata"]
        about = Regarding(
            api_version="v1",
            kind=kind,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata.get("resourceVersion", ""),
            field_path=field,
            host=pod.get("spec", {}).get("nodeName") or metadata["name"],
        )
        tell = self._recorder.warning if warning else self._recorder.normal
        tell(about, reason, message)
