"""An S3 server that runs in the cluster, as a pod of the test's namespace."""

from __future__ import annotations

from typing import Any

from e2e.clusters import until

__all__ = ["S3Pod"]

_PORT = 7070
_USER = 65532


class S3Pod:
    """One server with one bucket: versitygw over a folder. It ends with its namespace."""

    bucket = "backups"

    def __init__(self, store: Any, image: str, keys: dict[str, str]) -> None:
        self._store = store
        self._image = image
        self._keys = keys
        self.endpoint = ""

    async def start(self) -> None:
        """Start the pod and wait until its server listens."""
        data = [{"name": "data", "mountPath": "/data"}]
        keys = {
            "ROOT_ACCESS_KEY": self._keys["accessKeyId"],
            "ROOT_SECRET_KEY": self._keys["secretAccessKey"],
        }
        spec = {
            "securityContext": {"runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER},
            "initContainers": [  # a bucket is a folder
                {
                    "name": "bucket",
                    "image": self._store.cluster.defaults()["image"],
                    "command": ["mkdir", "-p", f"/data/{self.bucket}"],
                    "volumeMounts": data,
                }
            ],
            "containers": [
                {
                    "name": "s3",
                    "image": self._image,
                    "args": ["posix", "/data"],
                    "env": [{"name": name, "value": value} for name, value in keys.items()],
                    "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
                    "volumeMounts": data,
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
        }
        kind = {"apiVersion": "v1", "kind": "Pod"}
        self._store.apply({**kind, "metadata": {"name": "s3"}, "spec": spec})

        async def listens() -> str:
            status = self._store.get("pod", "s3").get("status") or {}
            ready = any(
                c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ())
            )
            return str(status.get("podIP", "")) if ready else ""

        address = await until(listens, seconds=60, what="the S3 server to listen", every=0.5)
        self.endpoint = f"http://{address}:{_PORT}"
