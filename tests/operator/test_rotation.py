"""Passwords change on a running database and nobody is refused, whoever dies. IN-28, T-01"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from typing import Any

import msgspec
import pytest

from kubecontroller.client.errors import NoAnswer, NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import PODS
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from redis_operator.api.redis import Redis
from redis_operator.api.validation import load
from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.names import DATABASE_LABEL
from redis_operator.manifests.record import RECORD_KEY, read_record, record
from redis_operator.operator.passwords import advanced, newest, outlived, wished
from redis_operator.operator.rotation import oldest_start
from redis_operator.operator.world import CHILD_KINDS
from redis_operator.planning.observed import Observed, Pod, Unreachable, Workload
from redis_operator.redis import commands
from redis_operator.redis.connection import Address, Credentials, connect
from redis_operator.redis.errors import LinkError, RedisError
from redis_testing.simulation.crashes import reference, strike_at_each
from redis_testing.simulation.process import Strike
from redis_testing.simulation.scenarios import Scenario, formed, mine
from redis_testing.simulation.system import (
    NAMESPACE,
    Simulation,
    database,
    simulate,
)
from support.histories import draw_some

SECRET = CHILD_KINDS["v1", "Secret"].plain()
OLD = Passwords("a", "b", "c", "d", "e")
LAG = 60.0  # how late applications and pods see what is in a Secret they mount
ROTATE = "redisoperator.dev/rotate-passwords"


# What a change is


def test_a_change_goes_in_two_stages_that_both_accept_both_passwords() -> None:
    begun = wished(OLD, "new", "")
    assert (begun.default, begun.accepted("default")) == ("a", ("a", "new"))
    used = advanced(begun, now=1)
    assert (used.default, used.accepted("default")) == ("new", ("new", "a"))
    done = advanced(used, now=2)
    assert (done.default, done.accepted("default")) == ("new", ("new",))
    assert done.serial > used.serial > begun.serial > OLD.serial


def test_an_annotation_changes_all_users_of_ours_once() -> None:
    begun = wished(OLD, "a", "monday")
    assert begun.rotation is not None
    assert set(begun.rotation.others) == {"operator", "replication", "exporter", "admin"}
    done = advanced(advanced(begun, now=1), now=2)
    assert wished(done, "a", "monday").rotation is None
    assert done.accepted("operator") != ("b",)
    assert done.accepted("exporter")[-1] == "d", "the exporter reads its password when it starts"


def _changed(known: Passwords, *moments: float) -> Passwords:
    """All passwords of ours replaced once at each of these moments."""
    for moment in moments:
        begun = wished(known, known.default, f"at {moment}")
        known = advanced(advanced(begun, now=moment - 1), now=moment)
    return known


def test_an_exporter_that_runs_since_the_beginning_is_never_locked_out() -> None:
    """It reads its password only when it starts, and nothing restarts for new passwords."""
    known = _changed(OLD, 1000, 2000, 3000)
    assert len(known.accepted("exporter")) == 4
    assert "d" in known.accepted("exporter")
    assert "d" in outlived(known, oldest_pod=500).accepted("exporter")
    kept = read_record({RECORD_KEY: record(known).encode()})
    assert kept is not None
    assert kept.accepted("exporter") == known.accepted("exporter")


def test_passwords_that_no_exporter_can_have_are_forgotten() -> None:
    known = _changed(OLD, 1000, 2000, 3000)
    later = outlived(known, oldest_pod=2000 + 601)
    assert "d" not in later.accepted("exporter")
    assert later.serial > known.serial
    assert later.accepted("exporter")[-1] == known.exporter_earlier[-1].password
    assert len(outlived(known, oldest_pod=10_000).accepted("exporter")) == 2
    assert outlived(later, oldest_pod=2000 + 601) is later


@pytest.mark.parametrize(
    ("exporter", "revision", "current", "oldest"),
    [
        (True, "s1", True, 10.0),
        (False, "s1", True, 20.0),
        (False, "s0", True, 10.0),
        (False, "s1", False, 10.0),
    ],
    ids=["has an exporter", "has none", "is outdated", "may be outdated"],
)
def test_a_sentinel_is_as_old_as_the_password_of_its_exporter(
    *, exporter: bool, revision: str, current: bool, oldest: float
) -> None:
    """An exporter has the password that its pod started with; other sentinels have none."""
    redis = load(
        {
            "metadata": {"name": "db"},
            "spec": {
                "mode": "Failover",
                "sentinel": {"exporter": {"enabled": exporter, "image": "x:1"}},
            },
        }
    )
    assert isinstance(redis, Redis), redis
    server = Unreachable(Pod("db-0", "0", 0, 0, since=20.0), "", 0.0)
    watcher = Pod("db-sentinel-0", "1", 1, 0, since=10.0, revision=revision)
    workload = Workload(1, "db-sentinel", "w", 3, "s1", current=current)
    observed = Observed(
        (server,), sentinels=(Unreachable(watcher, "", 0.0),), sentinel_workload=workload
    )
    assert oldest_start(redis, observed, now=99.0) == oldest
    assert oldest_start(redis, Observed((server,)), now=99.0) == 20.0
    assert oldest_start(redis, Observed(()), now=99.0) == 99.0


def test_a_record_from_before_several_passwords_of_the_exporter_is_still_read() -> None:
    written = record(msgspec.structs.replace(OLD, exporter_before="z"))
    sealed = msgspec.json.decode(written)
    del sealed["passwords"]["exporter_earlier"]
    found = read_record({RECORD_KEY: msgspec.json.encode(sealed)})
    assert found is not None
    assert found.accepted("exporter") == ("d", "z")


@pytest.mark.parametrize("default", ["newer", "a"], ids=["changed again", "taken back"])
def test_an_annotation_is_not_forgotten_because_a_password_changed_at_the_same_time(
    default: str,
) -> None:
    both = wished(wished(OLD, "new", ""), default, "monday")
    while both.rotation is not None:
        both = advanced(both, now=1)
    after = wished(both, default, "monday")
    assert after.rotation is not None
    assert set(after.rotation.others) == {"operator", "replication", "exporter", "admin"}


def test_an_annotation_that_changes_during_its_own_change_is_followed_afterwards() -> None:
    begun = wished(OLD, "a", "monday")
    both = wished(begun, "new", "tuesday")
    assert both.rotation is not None
    assert begun.rotation is not None
    assert dict(both.rotation.others) == {**begun.rotation.others, "default": "new"}
    done = advanced(advanced(both, now=1), now=2)
    assert wished(done, "new", "tuesday").rotation is not None


def test_a_wish_that_is_taken_back_ends_the_change() -> None:
    assert wished(wished(OLD, "new", ""), "a", "").rotation is None


def test_a_wish_that_changes_before_anybody_was_given_it_is_replaced() -> None:
    begun = wished(wished(OLD, "new", ""), "newer", "")
    assert begun.accepted("default") == ("a", "newer")


def test_a_wish_that_changes_later_waits_its_turn() -> None:
    used = advanced(wished(OLD, "new", ""), now=1)
    assert wished(used, "newer", "").accepted("default") == ("new", "a")
    over = advanced(used, now=2)
    assert wished(over, "newer", "").accepted("default") == ("new", "newer")


def test_a_record_that_was_edited_is_not_believed() -> None:
    begun = wished(OLD, "new", "x")
    text = record(begun)
    assert read_record({RECORD_KEY: text.encode()}) == msgspec.structs.replace(begun, wished="")
    assert read_record({RECORD_KEY: text.replace('"a"', '"z"').encode()}) is None
    assert read_record({}) is read_record({RECORD_KEY: b"nonsense"}) is None


def test_the_newest_copy_counts_and_a_secret_wins_a_tie() -> None:
    older = {RECORD_KEY: record(OLD).encode()}
    other = msgspec.structs.replace(OLD, operator="other")
    newer = wished(OLD, "new", "")
    assert newest(newer, older) == newer
    assert newest(other, older) == OLD
    assert newest(None, None) is None


# A running database


async def secret(sim: Simulation, name: str) -> dict[str, str]:
    found = await sim.client.get(SECRET, (NAMESPACE, name))
    return {key: b64decode(value).decode() for key, value in found["data"].items()}


async def set_password(sim: Simulation, name: str, password: str) -> None:
    data = {"password": b64encode(password.encode()).decode()}
    await sim.client.patch(SECRET, (NAMESPACE, name), MergePatch({"data": data}))


async def lets_in(server: Any, user: str, password: str) -> bool:
    login = Credentials(user, password)
    found = await connect(Address(server.ip, 6379), timeout=1.0, credentials=login)
    try:
        await found.run(commands.ping(), timeout=1.0)
    except RedisError as error:
        if "WRONGPASS" not in str(error):
            raise
        return False
    finally:
        found.close()
    return True


class Application:
    """Connects to every server all the time, with what its mounted binding says."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.refused: list[str] = []
        self.logins = 0
        self.seen: list[tuple[float, str]] = []

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            self.seen.append((now, (await secret(self.sim, "db-conn"))["password"]))
            for word in {self._mounted(now - LAG), self.seen[-1][1]}:
                for server in mine(self.sim):
                    if server.stopped:
                        continue
                    self.logins += 1
                    try:
                        if not await lets_in(server, "default", word):
                            self.refused.append(f"{server.name} at {loop.time():.1f}: {word}")
                    except LinkError:
                        continue  # it was killed
            await asyncio.sleep(1.0)

    def _mounted(self, then: float) -> str:
        old = [word for at, word in self.seen if at <= then]
        return old[-1] if old else self.seen[0][1]


def condition(found: Manifest, kind: str) -> Manifest:
    return next((c for c in found["status"]["conditions"] if c["type"] == kind), {})


def is_applied(found: Manifest) -> bool:
    return condition(found, "AuthApplied").get("status") == "True"


async def until_rotated(sim: Simulation) -> None:
    async def over() -> bool:
        kept = read_record({RECORD_KEY: (await secret(sim, "db-users"))[RECORD_KEY].encode()})
        return kept is not None and kept.rotation is None and kept.serial > 1

    await sim.until_all(over, within=900, what="rotated")
    await sim.until(is_applied, within=30, what="AuthApplied")


def test_a_changed_password_is_rotated_and_nobody_is_refused() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        old = (await secret(sim, "db-conn"))["password"]
        application = Application(sim)
        sim.spawn(application.run())
        await asyncio.sleep(2.0)
        await set_password(sim, "db-auth", "new")
        await sim.until(lambda found: not is_applied(found), within=30, what="seen")
        assert condition(await sim.redis(), "AuthApplied")["reason"] == "Rotating"
        assert (await secret(sim, "db-conn"))["password"] == old
        restarts = {kept.name: kept.server.restarts for kept in sim.kubelet.kept.values()}
        await until_rotated(sim)
        assert (await secret(sim, "db-conn"))["password"] == "new"
        assert (await secret(sim, "db-auth"))["password"] == "new"
        for server in mine(sim):
            assert await lets_in(server, "default", "new")
            assert not await lets_in(server, "default", old)
        assert application.refused == []
        assert application.logins > 500
        assert restarts == {kept.name: kept.server.restarts for kept in sim.kubelet.kept.values()}
        await sim.until_ready()

    simulate(scenario, snapshot=formed(database()))


def test_a_change_that_waits_is_not_reported_every_second() -> None:
    async def scenario(sim: Simulation) -> int:
        sim.start_operator()
        await asyncio.sleep(3.0)
        await set_password(sim, "db-auth", "the-second-one")
        await asyncio.sleep(5.0)
        before = len(sim.journal.effects)
        await asyncio.sleep(60.0)
        waits = sim.journal.effects[before:]
        return sum(effect.kind == "api PATCH redis/status" for effect in waits)

    assert simulate(scenario, snapshot=formed(database())) <= 2


def test_servers_that_restart_in_the_middle_refuse_nobody() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        application = Application(sim)
        sim.spawn(application.run())
        await set_password(sim, "db-auth", "new")
        for wait, pod in ((5.0, "db-0-1"), (60.0, "db-1-1"), (60.0, "db-2-1"), (50.0, "db-0-1")):
            await asyncio.sleep(wait)
            sim.kubelet.kill(pod)
        await until_rotated(sim)
        assert application.refused == []
        await sim.until_ready()

    simulate(scenario, snapshot=formed(database()))


def test_our_own_users_are_rotated_by_an_annotation() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        old = await secret(sim, "db-users")
        await sim.annotate(**{ROTATE: "2026-01"})
        await asyncio.sleep(5.0)
        await until_rotated(sim)
        new = await secret(sim, "db-users")
        for user in ("operator", "replication"):
            assert new[user] != old[user]
            for server in mine(sim):
                assert await lets_in(server, user, new[user])
                assert not await lets_in(server, user, old[user])
        await sim.until_ready()
        await asyncio.sleep(300.0)
        assert (await secret(sim, "db-users"))[RECORD_KEY] == new[RECORD_KEY]

    simulate(scenario, snapshot=formed(database()))


def test_a_server_that_does_not_answer_holds_the_change_back_and_is_named() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await asyncio.sleep(3.0)
        old = (await secret(sim, "db-conn"))["password"]
        sim.freeze("db-1-1")
        await set_password(sim, "db-auth", "new")
        await asyncio.sleep(300.0)
        found = condition(await sim.redis(), "AuthApplied")
        assert "db-1-1 does not respond" in found["message"]
        assert (await secret(sim, "db-conn"))["password"] == old
        sim.thaw("db-1-1")
        await until_rotated(sim)

    simulate(scenario, snapshot=formed(database()))


class NoPatchOfPods:
    """The transport of an operator whose labels of pods a policy refuses."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.stream = transport.stream
        self.close = transport.close
        self.refuses = True

    async def request(self, request: Request, *, timeout: float) -> Response:
        if self.refuses and request.method == "PATCH" and "/pods/" in request.path:
            raise NoAnswer("a policy does not respond", host="simulation")
        return await self._transport.request(request, timeout=timeout)


@pytest.mark.slow
def test_a_pod_that_is_not_observed_holds_the_change_back_and_is_named() -> None:
    """Its server would keep the old passwords alone, and refuse the operator from then on."""

    async def scenario(sim: Simulation) -> None:
        transports: list[NoPatchOfPods] = []

        def wrap(transport: Transport) -> Transport:
            transports.append(NoPatchOfPods(transport))
            return transports[-1]

        sim.start_operator(wrap=wrap)
        await asyncio.sleep(3.0)
        unlabelled = MergePatch({"metadata": {"labels": {DATABASE_LABEL: None}}})
        await sim.client.patch(PODS.plain(), (NAMESPACE, "db-1-1"), unlabelled)
        await sim.annotate(**{ROTATE: "2026-01"})
        await asyncio.sleep(250.0)
        assert "db-1-1" in condition(await sim.redis(), "AuthApplied")["message"]
        new = await secret(sim, "db-users")
        assert all([await lets_in(server, "operator", new["operator"]) for server in mine(sim)])
        transports[0].refuses = False
        await until_rotated(sim)
        await sim.until_ready()

    simulate(scenario, snapshot=formed(database()))


async def _rotate_everything(sim: Simulation) -> None:
    await set_password(sim, "db-auth", "new")
    await sim.annotate(**{ROTATE: "2026-01"})
    await until_rotated(sim)


ROTATION = Scenario("rotation", _rotate_everything, base=database(replicas=0), within=1200.0)


@pytest.mark.slow
def test_an_operator_that_dies_at_any_effect_of_a_rotation_comes_to_the_same_end() -> None:
    """A run strikes at three effects; `make seeds` in every way at each eighth."""
    known = reference(ROTATION)
    kinds = {effect.kind for effect in known.effects}
    assert {"redis ACL SETUSER", "api PATCH secrets"} <= kinds
    points = [e.number for e in known.effects if "secrets" in e.kind or "ACL" in e.kind]
    every = [(number, strike) for number in points[::8] for strike in Strike]
    blows = draw_some(every, 3, name="rotation")
    told: list[str] = []
    strike_at_each(known, blows, lambda _, problem: told.append(problem) if problem else None)
    assert told == []


# Secrets that are lost or edited


@pytest.mark.parametrize("away", [True, False], ids=["while away", "while it runs"])
@pytest.mark.parametrize("edit", ["deleted", "edited"])
def test_passwords_of_a_running_database_are_never_recreated(edit: str, away: bool) -> None:
    """K-19, IN-28"""

    async def scenario(sim: Simulation) -> None:
        if not away:
            sim.start_operator()
            await asyncio.sleep(3.0)
        before = await secret(sim, "db-users")
        if edit == "deleted":
            await sim.client.delete(SECRET, (NAMESPACE, "db-users"))
        else:
            data = {key: b64encode(b"mine").decode() for key in ("operator", RECORD_KEY)}
            await sim.client.patch(SECRET, (NAMESPACE, "db-users"), MergePatch({"data": data}))
        if away:
            sim.start_operator()

        async def restored() -> bool:
            try:
                return await secret(sim, "db-users") == before
            except NotFound:
                return False

        await sim.until_all(restored, within=30, what="restored")
        await sim.until_ready()

    simulate(scenario, snapshot=formed(database()))


def test_passwords_that_are_in_no_secret_any_more_are_reported_with_the_way_out() -> None:
    async def scenario(sim: Simulation) -> None:
        kept = await sim.client.get(SECRET, (NAMESPACE, "db-users"))
        for name in ("db-users", "db-recovery"):
            await sim.client.delete(SECRET, (NAMESPACE, name))
        sim.start_operator()

        def lost(found: Manifest) -> bool:
            return "SecretLost" in {c["reason"] for c in found["status"]["conditions"]}

        await sim.until(lost, within=30, what="SecretLost")
        text = str((await sim.redis())["status"])
        assert "accept-new-passwords" in text
        assert "db-users" in text
        for name in ("db-users", "db-recovery"):
            with pytest.raises(NotFound):
                await secret(sim, name)
        meta = {"name": "db-users", "namespace": NAMESPACE, "labels": kept["metadata"]["labels"]}
        await sim.client.create(SECRET, {**kept, "metadata": meta})
        await sim.until_ready()

    simulate(scenario, snapshot=formed(database()))


def test_new_passwords_are_accepted_by_an_annotation_and_a_restart() -> None:
    async def scenario(sim: Simulation) -> None:
        for name in ("db-users", "db-recovery"):
            await sim.client.delete(SECRET, (NAMESPACE, name))
        await sim.annotate(**{"redisoperator.dev/accept-new-passwords": "true"})
        sim.start_operator()
        await asyncio.sleep(10.0)
        for server in mine(sim):
            sim.kubelet.kill(server.name)
        await sim.until_ready()

    simulate(scenario, snapshot=formed(database()))
