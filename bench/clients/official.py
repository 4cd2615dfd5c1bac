"""The official client, `kubernetes`: its models in a dictionary with an index by owner."""

from __future__ import annotations

import threading
from typing import Any

from kubernetes import client, watch

from bench.clients.effort import Effort, arguments, go


class Cache:
    """Pods by key, and keys by the uid of their owner."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Any] = {}
        self.by_owner: dict[str, set[tuple[str, str]]] = {}

    def put(self, pod: Any) -> None:
        meta = pod.metadata
        key = (meta.namespace, meta.name)
        self.pods[key] = pod
        for owner in meta.owner_references or ():
            self.by_owner.setdefault(owner.uid, set()).add(key)


def main() -> None:
    url, pods, events = arguments()
    configuration = client.Configuration()
    configuration.host = url
    api = client.CoreV1Api(client.ApiClient(configuration))
    cache = Cache()
    effort = Effort()
    following = ""
    while True:
        page = api.list_pod_for_all_namespaces(limit=500, _continue=following or None)
        for pod in page.items:
            cache.put(pod)
        following = page.metadata._continue
        if not following:
            break
    assert len(cache.pods) == pods
    effort.listed()
    starter = threading.Thread(target=go, args=(url,))
    starter.start()
    version = page.metadata.resource_version
    seen = 0
    for event in watch.Watch().stream(api.list_pod_for_all_namespaces, resource_version=version):
        cache.put(event["object"])
        seen += 1
        if seen == events:
            break
    effort.followed(seen)


main()
