"""An API server that serves pods and nothing else, as cheaply as it can: the clients are measured.

`python -m bench.pod_server PODS EVENTS` prints its port. Everything is rendered before that. It
answers discovery, paged lists and one watch, on which EVENTS changes are sent as fast as they are
read once `POST /go` came. Each line of the watch is a chunk of its own, as Go servers send it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.pods import BASE_VERSION, pod_json

_LINES_PER_WRITE = 16


class Content:
    """What is served, rendered."""

    def __init__(self, pods: int, events: int) -> None:
        self.pods = [pod_json(number) for number in range(pods)]
        self.listed_version = BASE_VERSION + pods
        self.lines = [
            b'{"type":"MODIFIED","object":'
            + pod_json(
                number % pods, version=self.listed_version + 1 + number, last=number == events - 1
            )
            + b"}\n"
            for number in range(events)
        ]
        self.go = threading.Event()
        self.first_sent = 0.0

    def page(self, limit: int, start: int) -> bytes:
        end = len(self.pods) if limit <= 0 else min(start + limit, len(self.pods))
        rest = len(self.pods) - end
        meta: dict[str, Any] = {"resourceVersion": str(self.listed_version)}
        if rest:
            meta |= {"continue": str(end), "remainingItemCount": rest}
        head = {"kind": "PodList", "apiVersion": "v1", "metadata": meta}
        opening = json.dumps(head, separators=(",", ":"))[:-1].encode() + b',"items":['
        return opening + b",".join(self.pods[start:end]) + b"]}\n"

    def initial_lines(self) -> Iterator[bytes]:
        """A watch-list: everything as ADDED, then the bookmark that ends it."""
        for body in self.pods:
            yield b'{"type":"ADDED","object":' + body + b"}\n"
        meta = {
            "resourceVersion": str(self.listed_version),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        mark = {"kind": "Pod", "apiVersion": "v1", "metadata": meta}
        yield json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n"


_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_DOCUMENTS: dict[str, Any] = {
    "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0", "platform": "linux/amd64"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": f"{kind.lower()}s",
                "singularName": kind.lower(),
                "namespaced": kind == "Pod",
                "kind": kind,
                "verbs": _VERBS,
            }
            for kind in ("Pod", "Namespace")
        ],
    },
    "/api/v1/namespaces": {
        "kind": "NamespaceList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "1"},
        "items": [],
    },
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    content: Content

    def log_message(self, *_args: object) -> None:
        return

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/go":
            self.content.go.set()
            self._answer(b"{}")
            return
        self._answer(b"{}", 201)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/first-sent":
            self._answer(json.dumps(self.content.first_sent).encode())
        elif url.path == "/api/v1/pods":
            if query.get("watch", "").lower() in {"true", "1"}:
                self._watch(query)
            else:
                start = int(query.get("continue") or 0)
                self._answer(self.content.page(int(query.get("limit") or 0), start))
        elif url.path in _DOCUMENTS:
            self._answer(json.dumps(_DOCUMENTS[url.path]).encode())
        else:
            status = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            self._answer(json.dumps(status).encode(), 404)

    def _answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        if query.get("sendInitialEvents") == "true":
            self._send(self.content.initial_lines())
        self.content.go.wait()
        self.content.first_sent = time.time()
        self._send(iter(self.content.lines))
        time.sleep(60)  # an open watch on which nothing happens

    def _send(self, lines: Iterator[bytes]) -> None:
        batch = bytearray()
        for number, line in enumerate(lines, 1):
            batch += b"%x\r\n%b\r\n" % (len(line), line)
            if not number % _LINES_PER_WRITE:
                self.wfile.write(batch)
                batch.clear()
        self.wfile.write(batch)


def main(pods: int, events: int) -> None:
    _Handler.content = Content(pods, events)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
