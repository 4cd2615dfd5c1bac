"""Metrics for some readers alone: TLS, tokens that the API server knows, and rights it grants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import NoAnswer
from kubecontroller.client.request import Request, Response
from kubecontroller.runtime.metrics import Metrics
from kubecontroller.runtime.secured import AccessReviews, SecuredMetrics
from kubecontroller.runtime.server import CannotServe, HealthServer
from kubecontroller.testing.loop import run

KNOWN = {"good": "system:serviceaccount:monitoring:prometheus", "poor": "somebody"}


class ReviewingServer:
    """Answers the two reviews as an API server does, hangs, or breaks."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.readers = {KNOWN["good"]}
        self.trouble: Exception | None = None
        self.hangs = False

    async def request(self, request: Request, *, timeout: float) -> Response:
        body = msgspec.json.decode(request.body or b"")
        self.asked.append((body["kind"], body["spec"]))
        if self.hangs:
            await asyncio.sleep(3600)
        if self.trouble is not None:
            raise self.trouble
        if body["kind"] == "TokenReview":
            name = KNOWN.get(body["spec"]["token"])
            user = {"username": name, "groups": ["system:authenticated"]}
            status = {"authenticated": True, "user": user} if name else {"error": "unknown"}
        else:
            status = {"allowed": body["spec"]["user"] in self.readers}
        return Response(201, {}, msgspec.json.encode({**body, "metadata": {}, "status": status}))

    async def close(self) -> None:
        """There is no connection."""


@pytest.fixture
def api() -> ReviewingServer:
    return ReviewingServer()


@pytest.fixture
async def server(api: ReviewingServer) -> AsyncIterator[HealthServer]:
    secured = SecuredMetrics(Client(api), port=0)  # type: ignore[arg-type]
    found = HealthServer(Metrics(), host="127.0.0.1", port=0, secured=secured)
    await found.start()
    yield found
    await found.stop()


async def get(url: str, token: str = "", **headers: str) -> tuple[int, str]:
    if token:
        headers["Authorization"] = f"Bearer {token}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False) as answer,
    ):
        return answer.status, await answer.text()


def secured_url(server: HealthServer) -> str:
    assert server.secured is not None
    return f"https://127.0.0.1:{server.secured.port}/metrics"


@pytest.mark.parametrize(
    ("header", "status", "says"),
    [
        ("", 401, "bearer token"),
        ("Basic Z29vZDpnb29k", 401, "bearer token"),
        ("Bearer ", 401, "bearer token"),
        ("Bearer forged", 401, "does not know"),
        ("Bearer poor", 403, "somebody may not get /metrics"),
        ("Bearer good", 200, ""),
        ("bearer good", 200, ""),
    ],
    ids=["nothing", "basic", "empty", "unknown token", "no right", "right", "lower case"],
)
async def test_figures_are_read_by_those_whom_the_api_server_lets_in(
    server: HealthServer, header: str, status: int, says: str
) -> None:
    found = await get(secured_url(server), **({"Authorization": header} if header else {}))
    assert found[0] == status
    assert says in found[1]


async def test_health_stays_open_and_figures_are_not_on_that_port(server: HealthServer) -> None:
    plain = f"http://127.0.0.1:{server.port}"
    assert (await get(f"{plain}/healthz"))[0] == 200
    assert (await get(f"{plain}/readyz"))[0] == 200
    assert (await get(f"{plain}/metrics", "good"))[0] == 404


async def test_a_token_is_never_taken_without_tls(server: HealthServer) -> None:
    with pytest.raises(aiohttp.ClientError):
        await get(secured_url(server).replace("https", "http"), "good")


async def test_the_api_server_is_asked_once_a_minute_for_a_reader(
    server: HealthServer, api: ReviewingServer
) -> None:
    for _ in range(3):
        assert (await get(secured_url(server), "good"))[0] == 200
    assert [kind for kind, _ in api.asked] == ["TokenReview", "SubjectAccessReview"]
    access = api.asked[1][1]
    assert access["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
    assert access["groups"] == ["system:authenticated"]


async def test_no_answer_of_the_api_server_is_not_a_no(
    server: HealthServer, api: ReviewingServer
) -> None:
    api.trouble = NoAnswer("gone", host="h")
    status, text = await get(secured_url(server), "good")
    assert (status, "try again" in text) == (503, True)
    api.trouble = None
    assert (await get(secured_url(server), "good"))[0] == 200
    api.trouble = NoAnswer("gone", host="h")
    assert (await get(secured_url(server), "good"))[0] == 200, "it was let in a moment ago"


def test_answers_are_kept_for_a_while_and_a_hung_server_is_not_waited_for() -> None:
    async def play() -> None:
        api = ReviewingServer()
        reviews = AccessReviews(Client(api))  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        refused = await reviews.refusal("Bearer poor", "/metrics")
        assert refused is not None
        assert refused.status == 403
        api.readers.add(KNOWN["poor"])
        await asyncio.sleep(11)
        assert await reviews.refusal("Bearer poor", "/metrics") is None, "the right counts soon"
        api.readers.clear()
        assert await reviews.refusal("Bearer poor", "/metrics") is None
        await asyncio.sleep(61)
        refused = await reviews.refusal("Bearer poor", "/metrics")
        assert refused is not None, "the right was taken away"
        api.hangs = True
        begun = loop.time()
        crowd = [reviews.refusal(f"Bearer t{n}", "/metrics") for n in range(50)]
        found = await asyncio.gather(*crowd)
        assert {refusal.status for refusal in found if refusal} == {503}
        assert loop.time() - begun < 10
        asked = len(api.asked)
        assert asked <= 20, "a crowd of readers is not one of requests"

    run(play())


async def test_a_port_that_is_taken_is_named_and_nothing_is_left_open(
    server: HealthServer, api: ReviewingServer
) -> None:
    assert server.secured is not None
    secured = SecuredMetrics(Client(api), port=server.secured.port)  # type: ignore[arg-type]
    second = HealthServer(Metrics(), host="127.0.0.1", port=0, secured=secured)
    with pytest.raises(CannotServe, match=f"secured metrics on 127.0.0.1:{server.secured.port}"):
        await second.start()
    with pytest.raises(aiohttp.ClientError):
        await get(f"http://127.0.0.1:{second.port}/healthz")


def test_the_certificate_is_one_for_servers_and_is_renewed_in_time(api: ReviewingServer) -> None:
    secured = SecuredMetrics(Client(api))  # type: ignore[arg-type]
    first = secured.renew()
    assert 3600 <= first <= 365 * 86400
    assert secured.renew() == pytest.approx(first, abs=60), "nothing is due yet"
