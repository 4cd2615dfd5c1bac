"""lightkube: its models in a dictionary with an index by owner."""

from __future__ import annotations

import threading
from typing import Any

from lightkube import Client, KubeConfig
from lightkube.config.models import Cluster, User
from lightkube.resources.core_v1 import Pod

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
        for owner in meta.ownerReferences or ():
            self.by_owner.setdefault(owner.uid, set()).add(key)


def main() -> None:
    url, pods, events = arguments()
    client = Client(
        config=KubeConfig.from_one(cluster=Cluster(server=url), user=User(token="none")),
        trust_env=False,
    )
    cache = Cache()
    effort = Effort()
    listed = client.list(Pod, namespace="*", chunk_size=500)
    for pod in listed:
        cache.put(pod)
    assert len(cache.pods) == pods
    effort.listed()
    starter = threading.Thread(target=go, args=(url,))
    starter.start()
    seen = 0
    for _, pod in client.watch(Pod, namespace="*", resource_version=listed.resourceVersion):
        cache.put(pod)
        seen += 1
        if seen == events:
            break
    effort.followed(seen)


main()
