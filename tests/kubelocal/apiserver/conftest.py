"""A server without sockets, its clock in the hand of the test, and short ways to ask it."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubecontroller.client.request import Request, Response
from kubelocal.apiserver.calls import CallWebhook, Outcome, User, WebhookFailed
from kubelocal.apiserver.server import ADMIN, ApiServer
from kubelocal.apiserver.storage.store import Store
from kubelocal.apiserver.storage.watch import Watch


class Cluster:
    """Asks a server and answers its effects."""

    def __init__(self, *, history: int = 1000, store: Store | None = None) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.store = store or Store(history=history)
        self.server = ApiServer(
            self.store, clock=lambda: self.now, bits=random.Random(7).getrandbits
        )
        self.webhook = lambda effect: WebhookFailed("connection refused")
        self.effects: list[CallWebhook] = []

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: User = ADMIN,
        media: str = "application/json",
        accept: str = "",
        **query: Any,
    ) -> Any:
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        headers = [("Content-Type", media), ("User-Agent", "test/1")]
        if accept:
            headers.append(("Accept", accept))
        request = Request(
            method=method,
            path=path,
            query=tuple((key.rstrip("_"), str(value)) for key, value in query.items()),
            headers=tuple(headers),
            body=raw,
        )
        steps = self.server.handle(request, user)
        outcome: Outcome | None = None
        try:
            while True:
                effect = next(steps) if outcome is None else steps.send(outcome)
                self.effects.append(effect)
                outcome = self.webhook(effect)
        except StopIteration as done:
            return done.value

    def get(self, path: str, **more: Any) -> Any:
        return self.good(self.ask("GET", path, **more))

    def post(self, path: str, body: Any, **more: Any) -> Any:
        return self.good(self.ask("POST", path, body, **more))

    def put(self, path: str, body: Any, **more: Any) -> Any:
        return self.good(self.ask("PUT", path, body, **more))

    def delete(self, path: str, body: Any = None, **more: Any) -> Any:
        return self.good(self.ask("DELETE", path, body, **more))

    def merge(self, path: str, body: Any, **more: Any) -> Any:
        return self.good(
            self.ask("PATCH", path, body, media="application/merge-patch+json", **more)
        )

    def apply(self, path: str, body: Any, manager: str = "me", **more: Any) -> Any:
        return self.good(
            self.ask(
                "PATCH",
                path,
                body,
                media="application/apply-patch+yaml",
                fieldManager=manager,
                **more,
            )
        )

    def watch(self, path: str, **query: Any) -> Watch:
        answer = self.ask("GET", path, watch="true", **query)
        assert isinstance(answer, Watch), answer
        return answer

    @staticmethod
    def good(answer: Any) -> Any:
        assert isinstance(answer, Response)
        assert answer.status < 300, answer.body
        return json.loads(answer.body)

    @staticmethod
    def bad(answer: Any) -> Any:
        assert isinstance(answer, Response)
        assert answer.status >= 400, answer.body
        return json.loads(answer.body)


def events(watch: Watch) -> list[tuple[str, Any]]:
    """Return what a watch has to say now."""
    lines = b"".join(watch.poll()).splitlines()
    return [(event["type"], event["object"]) for event in map(json.loads, lines)]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()
