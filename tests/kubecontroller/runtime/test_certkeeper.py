"""Certificates as replicas keep them: shared, repaired, renewed, swapped while they are served."""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
import threading
from datetime import timedelta

import msgspec
import pytest
from tests.kubecontroller.runtime.test_certificates import (
    NAMES,
    START,
    authorities,
    is_trusted,
)

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ConnectionFailed
from kubecontroller.client.meta import Manifest
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime import certkeeper
from kubecontroller.runtime.certificates import renewed
from kubecontroller.runtime.certkeeper import (
    SECRETS,
    CertificateKeeper,
    conversion_target,
    webhook_target,
)

HOOKS: Kind[Manifest] = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    dict,
)
CRDS: Kind[Manifest] = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    False,
    dict,
)
SECRET = ("system", "webhook-tls")


def keeper(server, now=lambda: START, **more) -> CertificateKeeper:
    return CertificateKeeper(
        Client(server.transport()),
        secret=SECRET,
        names=NAMES,
        random=lambda: 0.0,
        now=now,
        **more,
    )


async def test_replicas_that_start_together_serve_the_same_certificate(server):
    keepers = [keeper(server) for _ in range(4)]
    materials = await asyncio.gather(*(one.refresh() for one in keepers))
    assert len({material.certificate for material in materials}) == 1
    assert all(one.limitation() is None for one in keepers)


async def test_a_replica_is_not_ready_before_its_certificate_is_loaded_and_known(server):
    client = Client(server.transport())
    target = webhook_target(HOOKS, "redis", ["validate.redisoperator.dev"])
    conversion = conversion_target(CRDS, "redises.redisoperator.dev")
    await client.create(HOOKS, {"metadata": {"name": "redis"}, "webhooks": []})
    await client.create(CRDS, {"metadata": {"name": "redises.redisoperator.dev"}})
    one = keeper(server, targets=[target, conversion])
    assert one.limitation() == "no certificate is loaded yet"
    material = await one.refresh()
    assert one.limitation() is None
    hook = await client.get(HOOKS, ("", "redis"))
    bundle = base64.b64decode(hook["webhooks"][0]["clientConfig"]["caBundle"])
    assert bundle == material.authorities
    crd = await client.get(CRDS, ("", "redises.redisoperator.dev"))
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]


@pytest.mark.parametrize("how", ["replaced", "recreated"])
async def test_a_bundle_that_somebody_removes_is_put_back(server, running, how):
    client = Client(server.transport())
    target = webhook_target(HOOKS, "redis", ["validate.redisoperator.dev"])
    one = keeper(server, targets=[target])
    rules = {"name": "validate.redisoperator.dev", "rules": [{"operations": ["CREATE"]}]}
    other = {"name": "other.example.com", "clientConfig": {"caBundle": "bWluZQ=="}}
    await client.create(HOOKS, {"metadata": {"name": "redis"}, "webhooks": [rules]})
    async with running(one.run()):
        await asyncio.sleep(5)
        if how == "recreated":
            await client.delete(HOOKS, ("", "redis"))
            await client.create(HOOKS, {"metadata": {"name": "redis"}, "webhooks": [rules, other]})
        else:
            live = await client.get(HOOKS, ("", "redis"))
            await client.replace(HOOKS, {**live, "webhooks": [rules, other]})
        await asyncio.sleep(5)
        hook = await client.get(HOOKS, ("", "redis"))
        found = {one["name"]: one for one in hook["webhooks"]}
        bundle = found["validate.redisoperator.dev"]["clientConfig"]["caBundle"]
        assert base64.b64decode(bundle) == one._loaded.authorities
        assert one.limitation() is None
        await asyncio.sleep(60)
        server.requests.clear()
        await asyncio.sleep(500)
        assert not [r for r in server.requests if r.method == "PATCH"], "it is put back once"


@pytest.mark.parametrize("how", ["removed", "removed twice"])
async def test_a_bundle_that_is_removed_while_another_is_written_is_put_back(server, running, how):
    client = Client(server.transport())
    names = ["one", "two"]
    keeping = keeper(server, targets=[webhook_target(HOOKS, name, ["v.x.dev"]) for name in names])
    whole = keeping._client.transport
    writing = asyncio.Event()

    class Slow:
        async def request(self, request, *, timeout):
            if request.method == "PATCH" and request.path.endswith("/two"):
                writing.set()
                await asyncio.sleep(5)
            return await whole.request(request, timeout=timeout)

        def stream(self, request, *, idle):
            return whole.stream(request, idle=idle)

    async def remove():
        live = await client.get(HOOKS, ("", "one"))
        assert "caBundle" in str(live)
        await client.replace(HOOKS, {**live, "webhooks": [{"name": "v.x.dev"}]})

    keeping._client.transport = Slow()
    for name in names:
        await client.create(HOOKS, {"metadata": {"name": name}, "webhooks": [{"name": "v.x.dev"}]})
    async with running(keeping.run()):
        await writing.wait()
        await asyncio.sleep(1)
        await remove()
        await asyncio.sleep(60)
        if how == "removed twice":
            await remove()
            await asyncio.sleep(60)
        for name in names:
            live = await client.get(HOOKS, ("", name))
            bundle = live["webhooks"][0]["clientConfig"]["caBundle"]
            assert base64.b64decode(bundle) == keeping._loaded.authorities
        assert keeping.limitation() is None
        server.requests.clear()
        await asyncio.sleep(500)
        assert not [r for r in server.requests if r.method == "PATCH"], "it is put back once"


async def test_a_target_that_cannot_be_watched_is_given_the_bundle_every_minute(server, running):
    client = Client(server.transport())
    one = keeper(server, targets=[webhook_target(HOOKS, "redis", ["validate.redisoperator.dev"])])
    whole = one._client.transport

    class Unwatched:
        async def request(self, request, *, timeout):
            if request.path.endswith("configurations"):
                raise ConnectionFailed("refused", host="api")
            return await whole.request(request, timeout=timeout)

        def stream(self, request, *, idle):
            if request.path.endswith("configurations"):
                raise ConnectionFailed("refused", host="api")
            return whole.stream(request, idle=idle)

    one._client.transport = Unwatched()
    await client.create(HOOKS, {"metadata": {"name": "redis"}, "webhooks": []})
    async with running(one.run()):
        await asyncio.sleep(5)
        live = await client.get(HOOKS, ("", "redis"))
        await client.replace(HOOKS, {**live, "webhooks": []})
        await asyncio.sleep(70)
        assert (await client.get(HOOKS, ("", "redis")))["webhooks"]


async def test_a_secret_somebody_broke_is_repaired_and_their_other_keys_stay(server):
    client = Client(server.transport())
    await client.create(
        SECRETS,
        {"metadata": {"namespace": SECRET[0], "name": SECRET[1]}, "data": {"mine": "eA==",
         "tls.crt": "!!!"}},
    )  # fmt: skip
    await keeper(server).refresh()
    data = (await client.get(SECRETS, SECRET))["data"]
    assert data["mine"] == "eA=="
    assert set(data) == {"mine", "ca.crt", "ca.key", "tls.crt", "tls.key"}


async def test_a_configuration_that_is_not_there_yet_is_not_made_and_gets_the_bundle_when_it_is(
    server, running
):
    client = Client(server.transport())
    hook = {"name": "validate.redisoperator.dev", "rules": [{"operations": ["CREATE"]}]}
    one = keeper(server, targets=[webhook_target(HOOKS, "redis", [hook["name"]])])
    async with running(one.run()):
        await asyncio.sleep(5)
        assert one.limitation() is None, "the operator comes before what it is asked by"
        assert (await client.list(HOOKS)).items == ()
        await client.create(HOOKS, {"metadata": {"name": "redis"}, "webhooks": [hook]})
        await asyncio.sleep(0.1)
        [found] = (await client.get(HOOKS, ("", "redis")))["webhooks"]
        assert base64.b64decode(found["clientConfig"]["caBundle"]) == one._loaded.authorities


LOSSES = {
    "deleted": None,
    "authority's key is gone": {"ca.key": None},
    "authority is garbage": {"ca.crt": base64.b64encode(b"garbage").decode()},
    "certificate is gone": {"tls.crt": None},
    "not even base64": {"tls.key": "!!!"},
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_lost_secret_is_made_good_and_whatever_is_served_stays_trusted(
    server, running, loss
):
    client, told = Client(server.transport()), []
    hook = {"name": "validate.redisoperator.dev"}
    await client.create(HOOKS, {"metadata": {"name": "redis"}, "webhooks": [hook]})
    target = webhook_target(HOOKS, "redis", [hook["name"]])
    both = [keeper(server, targets=[target], on_renewed=told.append) for _ in range(2)]
    async with running(*(one.run() for one in both)):
        await asyncio.sleep(5)
        before = both[0]._loaded
        told.clear()
        if LOSSES[loss] is None:
            await client.delete(SECRETS, SECRET)
        else:
            await client.patch(SECRETS, SECRET, MergePatch({"data": LOSSES[loss]}))
        await asyncio.sleep(5)
        assert both[0]._loaded == both[1]._loaded != before
        assert both[0]._loaded.certificate == before.certificate
        assert len(told) == 1, "one of them did it, and said so"
        assert set(authorities(before)) < set(authorities(both[0]._loaded))
        [found] = (await client.get(HOOKS, ("", "redis")))["webhooks"]
        assert base64.b64decode(found["clientConfig"]["caBundle"]) == both[1]._loaded.authorities
        assert renewed(both[0]._loaded, names=NAMES, now=START) is None
        later = START + timedelta(hours=2)
        changed, _ = renewed(both[0]._loaded, names=NAMES, now=later)
        assert changed.certificate != before.certificate, "the new authority takes over in time"
        assert is_trusted(msgspec.structs.replace(both[0]._loaded, certificate=changed.certificate))


def test_what_is_served_and_has_expired_is_not_gone_on_with():
    material, _ = renewed(None, names=NAMES, now=START)
    later = START + timedelta(days=400)
    changed, _ = renewed(None, names=NAMES, now=later, served=material)
    assert changed.certificate != material.certificate
    assert len(authorities(changed)) == 1


async def test_rights_that_are_revoked_later_do_not_take_the_process_out_of_service(
    server, running
):
    client, moment = Client(server.transport()), START
    await client.create(HOOKS, {"metadata": {"name": "redis"}, "webhooks": []})
    target = webhook_target(HOOKS, "redis", ["validate.redisoperator.dev"])
    one = keeper(server, lambda: moment, targets=[target])
    async with running(one.run()):
        await asyncio.sleep(5)
        whole = one._client.transport

        class ReadOnly:
            async def request(self, request, *, timeout):
                if request.method != "GET":
                    raise ConnectionFailed("refused", host="api")
                return await whole.request(request, timeout=timeout)

            def stream(self, request, *, idle):
                return whole.stream(request, idle=idle)

        one._client.transport = ReadOnly()
        await client.delete(SECRETS, SECRET)
        await client.delete(HOOKS, ("", "redis"))
        await client.create(HOOKS, {"metadata": {"name": "redis"}, "webhooks": []})
        await asyncio.sleep(30)
        assert one.limitation() is None
        one._client.transport = whole
        await asyncio.sleep(30)
        assert (await client.get(HOOKS, ("", "redis")))["webhooks"]


async def test_a_certificate_is_loaded_where_no_file_can_be_written(server, monkeypatch):
    """The root file system of a pod is read-only."""
    monkeypatch.setattr(tempfile, "tempdir", "/proc/no-such-folder")
    one = keeper(server)
    await one.refresh()
    assert one.limitation() is None


async def test_a_certificate_that_cannot_be_loaded_is_tried_again(server, running, caplog):
    one = keeper(server)
    whole, one.context = one.context, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    class Refusing(ssl.SSLContext):
        def load_cert_chain(self, *_, **__):
            raise OSError(24, "Too many open files")

    one.context = Refusing(ssl.PROTOCOL_TLS_SERVER)
    await one.begin()
    async with running(one.run()):
        await asyncio.sleep(8)
        assert one.limitation() is not None
        one.context = whole
        await asyncio.sleep(8)
        assert one.limitation() is None
    assert "not refreshed" in caplog.text


async def test_who_cannot_have_a_certificate_yet_begins_without(server, running, caplog):
    one = keeper(server)
    whole = one._client.transport

    class Down:
        async def request(self, request, *, timeout):
            raise ConnectionFailed("refused", host="api")

        def stream(self, request, *, idle):
            return whole.stream(request, idle=idle)

    one._client.transport = Down()
    await one.begin()
    assert one.limitation() is not None
    assert "no certificate yet" in caplog.text
    one._client.transport = whole
    async with running(one.run()):
        await asyncio.sleep(5)
        assert one.limitation() is None


async def test_a_change_by_another_replica_is_taken_up_at_once_and_nothing_is_polled(
    server, running
):
    moment = START
    first, second = keeper(server, lambda: moment), keeper(server, lambda: moment)
    await first.refresh()
    async with running(second.run()):
        await asyncio.sleep(1)
        moment = START + timedelta(days=250)
        material = await first.refresh()
        await asyncio.sleep(1)
        assert second._loaded == material
        await asyncio.sleep(60)
        server.requests.clear()
        await asyncio.sleep(3000)
        looks = [r for r in server.requests if dict(r.query).get("watch") is None]
        assert len(looks) <= 5


async def test_a_secret_that_cannot_be_watched_is_looked_at_every_minute(server, running):
    moment = START
    first, second = keeper(server, lambda: moment), keeper(server, lambda: moment)
    await first.refresh()
    whole = second._client.transport

    class Unwatched:
        async def request(self, request, *, timeout):
            if request.path.endswith("/secrets"):
                raise ConnectionFailed("refused", host="api")
            return await whole.request(request, timeout=timeout)

        def stream(self, request, *, idle):
            raise ConnectionFailed("refused", host="api")

    second._client.transport = Unwatched()
    async with running(second.run()):
        await asyncio.sleep(80)
        moment = START + timedelta(days=250)
        material = await first.refresh()
        await asyncio.sleep(70)
        assert second._loaded == material


async def test_trouble_with_the_server_is_waited_out(server, running, caplog):
    one = keeper(server)
    broken = one._client.transport

    class Down:
        async def request(self, request, *, timeout):
            raise ConnectionFailed("refused", host="api")

        def stream(self, request, *, idle):
            raise ConnectionFailed("refused", host="api")

    one._client.transport = Down()
    async with running(one.run()):
        await asyncio.sleep(8)
        assert one.limitation() is not None
        one._client.transport = broken
        await asyncio.sleep(10)
        assert one.limitation() is None
    assert "not refreshed" in caplog.text


@pytest.mark.asyncio(loop_factories=["real"])
async def test_a_new_certificate_is_served_without_closing_a_connection(server):
    moment = START
    one = keeper(server, lambda: moment)
    await one.refresh()

    async def echo(reader, writer):
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    site = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=one.context)
    port = site.sockets[0].getsockname()[1]

    async def connect():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return await asyncio.open_connection("127.0.0.1", port, ssl=context)

    def served(writer) -> bytes:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    reader, old = await connect()
    before = served(old)
    moment = START + timedelta(days=250)
    await one.refresh()
    _, new = await connect()
    assert served(new) != before
    old.write(b"still here\n")
    assert await reader.readline() == b"still here\n"
    for writer in (old, new):
        writer.close()
        await writer.wait_closed()
    site.close()
    await site.wait_closed()


async def test_a_certificate_is_swapped_between_handshakes_and_never_during_one(
    server, monkeypatch
):
    """Handshakes run in the thread of the event loop, and read the context that is changed."""
    threads = []
    load = certkeeper.load_pair

    def loading(*given):
        threads.append(threading.current_thread())
        load(*given)

    monkeypatch.setattr(certkeeper, "load_pair", loading)
    await keeper(server).refresh()
    assert threads == [threading.current_thread()]
