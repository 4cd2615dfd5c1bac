from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import ssl

import aiohttp
import pytest

from kubecontroller.client.api import Client
from kubecontroller.runtime.certkeeper import CertificateKeeper
from kubecontroller.runtime.webhook import Allowed, Cause, Denied, Patched, WebhookServer
from kubecontroller.testing.tiny import TinyServer

pytestmark = pytest.mark.asyncio(loop_factories=["real"])


async def admit(request):
    match request.name:
        case "bad":
            return Denied("shards must be at least 3", code=422)
        case "field":
            return Denied("many words", code=422, causes=(Cause("spec.shards", "must be 3"),))
        case "bug":
            raise KeyError("a bug")
        case "cancelled":
            asked = asyncio.get_running_loop().create_future()
            asked.cancel()
            await asked
        case "nothing":
            return None
        case "slow":
            await asyncio.sleep(60)
        case "change":
            return Patched([{"op": "add", "path": "/spec/shards", "value": 3}], ("defaulted",))
    return Allowed(warnings=("replicas: 0 loses data",) if request.name == "warn" else ())


def convert(obj, version):
    if obj["metadata"]["name"] == "bad":
        raise ValueError("there is no such field in v1")
    if obj["metadata"]["name"] == "bug":
        raise KeyError("a bug")
    return {**obj, "apiVersion": version}


@pytest.fixture
async def post():
    keeper = CertificateKeeper(
        Client(TinyServer().transport()),
        secret=("system", "tls"),
        names=["127.0.0.1"],
        random=random.random,
    )
    server = WebhookServer(keeper.context, host="127.0.0.1", port=0)
    server.before_start(keeper.refresh)
    server.add_admission("/validate", admit)
    server.add_conversion("/convert", convert)
    await server.start()
    trust = ssl.create_default_context(cadata=keeper._loaded.authorities.decode())
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send(path, body):
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            url = f"https://127.0.0.1:{server.port}{path}"
            async with session.post(url, data=io.BytesIO(content)) as response:
                text = await response.text()
                return response.status, json.loads(text) if response.status == 200 else text

        yield send
    await server.stop()
    await asyncio.sleep(0.05)  # TLS connections close in their own time


def review(name: str) -> dict:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r-1", "operation": "CREATE", "name": name, "namespace": "d",
            "object": {"spec": {}}, "oldObject": None, "unknown": "field",
        },
    }  # fmt: skip


async def test_an_admission_is_answered_with_its_uid(post):
    status, answer = await post("/validate", review("fine"))
    assert status == 200
    assert answer == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "r-1", "allowed": True},
    }


async def test_a_denial_carries_its_reason_and_code(post):
    _, answer = await post("/validate", review("bad"))
    assert answer["response"]["allowed"] is False
    assert answer["response"]["status"] == {"message": "shards must be at least 3", "code": 422}


async def test_a_denial_names_fields_as_the_api_server_does(post):
    asked = review("field")
    asked["request"]["kind"] = {"group": "example.com", "version": "v1", "kind": "Website"}
    _, answer = await post("/validate", asked)
    cause = {"reason": "FieldValueInvalid", "field": "spec.shards", "message": "must be 3"}
    named = {"name": "field", "group": "example.com", "kind": "Website"}
    assert answer["response"]["status"] == {
        "message": "many words",
        "code": 422,
        "reason": "Invalid",
        "details": {**named, "causes": [cause]},
    }


async def test_who_leaves_ends_each_connection_with_its_answer():
    keeper = CertificateKeeper(
        Client(TinyServer().transport()),
        secret=("system", "tls"),
        names=("127.0.0.1",),
        random=lambda: 0.0,
    )
    await keeper.refresh()
    leaving = False
    server = WebhookServer(keeper.context, host="127.0.0.1", port=0, is_leaving=lambda: leaving)
    server.add_admission("/validate", admit)
    await server.start()
    url = f"https://127.0.0.1:{server.port}/validate"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        for leaving, said in ((False, None), (True, "close")):  # noqa: B007 - the server asks
            async with session.post(url, json=review("fine")) as response:
                assert response.headers.get("Connection") == said
                assert (await response.json())["response"]["allowed"] is True
    await server.stop()
    await asyncio.sleep(0.05)


async def test_a_mutation_is_a_json_patch_with_warnings(post):
    _, answer = await post("/validate", review("change"))
    response = answer["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/spec/shards", "value": 3}
    ]
    assert response["warnings"] == ["defaulted"]
    assert (await post("/validate", review("warn")))[1]["response"]["warnings"]


@pytest.mark.parametrize("body", [b"", b"garbage", b"{}", b'{"request": 3}', b"\xff\xfe"])
async def test_a_body_that_is_no_review_is_refused(post, body):
    assert (await post("/validate", body))[0] == 400
    assert (await post("/convert", body))[0] == 400


async def test_a_webhook_that_raises_or_hangs_leaves_the_decision_to_the_failure_policy(post):
    for name in ("bug", "cancelled", "nothing"):
        assert (await post("/validate", review(name)))[0] == 500
    status, _ = await post("/validate?timeout=1s", review("slow"))
    assert status == 504
    assert (await post("/validate", review("fine")))[0] == 200, "the server lives"


def conversion(*names: str) -> dict:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "c-1",
            "desiredAPIVersion": "x.dev/v2",
            "objects": [
                {"apiVersion": "x.dev/v1", "kind": "X", "metadata": {"name": n}} for n in names
            ],
        },
    }


async def test_a_conversion_of_a_large_list_is_not_refused_for_its_size(post):
    review = conversion("a")
    review["request"]["objects"][0]["padding"] = "x" * (17 * 1024 * 1024)
    status, answer = await post("/convert", review)
    assert status == 200
    assert answer["response"]["result"]["status"] == "Success"


async def test_objects_are_converted_in_order(post):
    _, answer = await post("/convert", conversion("a", "b"))
    response = answer["response"]
    assert response["result"] == {"status": "Success"}
    assert [o["metadata"]["name"] for o in response["convertedObjects"]] == ["a", "b"]
    assert {o["apiVersion"] for o in response["convertedObjects"]} == {"x.dev/v2"}


@pytest.mark.parametrize(("name", "text"), [("bad", "no such field"), ("bug", "a bug")])
async def test_one_object_that_cannot_be_converted_fails_the_review_by_name(post, name, text):
    _, answer = await post("/convert", conversion("a", name))
    assert answer["response"]["result"]["status"] == "Failure"
    assert f"X {name}" in answer["response"]["result"]["message"]
    assert text in answer["response"]["result"]["message"]
    assert answer["response"]["convertedObjects"] == []


async def test_a_taken_port_is_named_with_what_to_do():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    one = WebhookServer(context, host="127.0.0.1", port=0)
    await one.start()
    two = WebhookServer(context, host="127.0.0.1", port=one.port)
    with pytest.raises(RuntimeError, match="Choose another port"):
        await two.start()
    await one.stop()
