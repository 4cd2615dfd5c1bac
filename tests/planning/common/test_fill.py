"""A new database that is given a backup key by key serves nothing before it has all of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.api.status import RedisStatus, RestoreStatus, RestoringStatus
from redis_operator.planning.advice import Wanted
from redis_operator.planning.observed import Observed, Seen, Unreachable
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_operator.planning.sources import Filling
from support.situations import but, whole_database

NOW = 1_900_000_000.0


def given() -> tuple[Wanted, Observed, dict[str, str]]:
    """Return a database that is formed, and the histories of its primaries."""
    database = whole_database()
    observed = replace(database.observe(), formed=False)
    histories = {n.pod.name: n.replication.id for n in observed.seen if n.slots}
    return database.wanted, observed, histories


def told(
    wanted: Wanted,
    observed: Observed,
    filling: Filling | None,
    restore: RestoreStatus | None = None,
) -> RedisStatus:
    wanted = replace(wanted, filling=filling)
    context = Context(
        previous=RedisStatus(restore=restore),
        generation=1,
        now="2030-01-01T00:00:00Z",
        binding="db-conn",
    )
    return status(wanted, observed, plan(wanted, observed, NOW), context)


def available(found: RedisStatus) -> tuple[str, str, str]:
    [one] = [c for c in found.conditions if c.type == "Available"]
    return one.status, one.reason, one.message


def done(histories: dict[str, str]) -> Filling:
    return Filling("monday", carried=tuple(sorted(histories.items())))


def test_it_is_not_in_use_while_a_worker_carries_keys() -> None:
    wanted, observed, _ = given()
    found = told(wanted, observed, Filling("monday", message="x gives its keys"))
    assert available(found)[:2] == ("False", "Restoring")
    assert "x gives its keys" in available(found)[2]
    assert found.binding is None
    assert found.restore is not None
    assert (found.restore.backup, found.restore.completion_time) == ("monday", "")


def test_that_it_is_done_is_written_before_it_is_in_use() -> None:
    wanted, observed, histories = given()
    found = told(wanted, observed, done(histories))
    assert found.restore is not None
    assert found.restore.completion_time == "2030-01-01T00:00:00Z"
    assert found.binding is None
    after = told(wanted, observed, None)
    assert available(after)[0] == "True"
    assert after.binding is not None


@pytest.mark.parametrize("pod", ["db-0-0", "db-1-0", "db-2-0"])
def test_a_primary_with_another_history_may_have_lost_keys(pod: str) -> None:
    wanted, observed, histories = given()
    found = told(wanted, observed, done({**histories, pod: "another"}))
    assert found.restore is not None
    assert not found.restore.completion_time
    assert pod in available(found)[2]
    assert "given again" in available(found)[2]


def test_who_was_given_keys_and_leads_no_more_is_missed() -> None:
    wanted, observed, histories = given()
    found = told(wanted, observed, done({**histories, "db-9-0": "x"}))
    assert found.restore is not None
    assert not found.restore.completion_time


def test_replicas_have_everything_before_it_is_done() -> None:
    wanted, observed, histories = given()

    def late(node: object) -> object:
        if not isinstance(node, Seen) or node.slots or node.pod.name != "db-0-1":
            return node
        return but(node, replication=replace(node.replication, link_up=False))

    behind = replace(observed, nodes=tuple(map(late, observed.nodes)))  # type: ignore[arg-type]
    found = told(wanted, behind, done(histories))
    assert found.restore is not None
    assert not found.restore.completion_time


def test_nothing_is_changed_meanwhile() -> None:
    wanted, observed, _ = given()
    more = replace(wanted, shards=wanted.shards - 1, filling=Filling("monday", message="x"))
    found = plan(more, observed, NOW)
    assert (found.rule, found.stages) == ("fill", ())


def emptied(observed: Observed) -> Observed:
    nodes = tuple(but(n, keys=0) if isinstance(n, Seen) else n for n in observed.nodes)
    return replace(observed, nodes=nodes)


def test_a_restore_begins_with_a_database_that_is_empty() -> None:
    """Volumes of an earlier database of the name may be there, with newer data than the backup."""
    wanted, observed, _ = given()
    filling = Filling("monday", message="x")
    full = told(wanted, observed, filling).restore
    assert full is not None
    assert (bool(full.keys), full.start_time) == (True, "")
    empty = told(wanted, emptied(observed), filling).restore
    assert empty is not None
    assert (empty.keys, empty.start_time) == (0, "2030-01-01T00:00:00Z")
    later = told(wanted, observed, filling, replace(empty, start_time="earlier")).restore
    assert later is not None
    assert (bool(later.keys), later.start_time) == (True, "earlier")


def test_whose_keys_are_there_is_not_forgotten_when_another_backup_is_asked_for() -> None:
    """Else that other one would be mixed with them, one pass later."""
    wanted, observed, histories = given()
    part = RestoreStatus("monday", keys=7, start_time="earlier")
    other = Filling("tuesday", problem="they would be mixed")
    silent = replace(observed, nodes=())
    for seen in (observed, silent):
        found = told(wanted, seen, other, part).restore
        assert found is not None
        assert (found.backup, bool(found.keys)) == ("monday", True)
    found = told(wanted, observed, replace(done(histories), backup="tuesday"), part).restore
    assert found is not None
    assert not found.completion_time


REPLACED = Filling("monday", message="x", restore="back", uid="u", closing=True)


def restoring(
    observed: Observed, filling: Filling, before: RestoringStatus | None = None, *, shut: bool
) -> RestoringStatus:
    wanted = replace(given()[0], filling=filling)
    context = Context(
        previous=RedisStatus(restoring=before),
        generation=1,
        now="2030-01-01T00:00:00Z",
        binding="db-conn",
        shut=shut,
    )
    found = status(wanted, observed, plan(wanted, observed, NOW), context)
    assert found.restoring is not None
    assert available(found)[:2] == ("False", "Restoring")
    return found.restoring


def in_use() -> Observed:
    return replace(given()[1], formed=True)


def test_a_database_is_closed_by_a_look_that_begins_after_every_server_shut_clients_out() -> None:
    first = restoring(in_use(), REPLACED, shut=False)
    assert (first.shut, first.closed) == (False, False)
    second = restoring(in_use(), REPLACED, first, shut=True)
    assert (second.shut, second.closed) == (True, False)
    third = restoring(in_use(), REPLACED, second, shut=True)
    assert (third.shut, third.closed, third.replacing) == (True, True, False)
    other = restoring(in_use(), replace(REPLACED, uid="v"), third, shut=True)
    assert (other.shut, other.closed) == (True, False)


def test_a_server_that_does_not_respond_may_let_clients_in() -> None:
    known = restoring(in_use(), REPLACED, RestoringStatus("back", "u", shut=True), shut=True)
    assert known.closed
    some = in_use()
    silent = tuple(
        Unreachable(n.pod, "no answer", NOW) if n.pod.name == "db-0-1" else n for n in some.nodes
    )
    found = restoring(replace(some, nodes=silent), REPLACED, known, shut=True)
    assert (found.shut, found.closed) == (False, False)


def test_a_replica_that_is_one_byte_behind_may_lack_a_write() -> None:
    def late(node: object) -> object:
        if not isinstance(node, Seen) or node.pod.name != "db-0-1":
            return node
        behind = node.replication.offset - 1
        return but(node, replication=replace(node.replication, offset=behind))

    some = in_use()
    behind = replace(some, nodes=tuple(map(late, some.nodes)))  # type: ignore[arg-type]
    known = RestoringStatus("back", "u", shut=True)
    found = restoring(behind, REPLACED, known, shut=True)
    assert (found.shut, found.closed) == (True, False)


def test_a_database_is_known_to_be_halfway_whichever_restore_left_it_so() -> None:
    empties = replace(REPLACED, empties=True, closing=False)
    found = restoring(in_use(), empties, shut=True)
    assert found.replacing
    assert restoring(in_use(), replace(REPLACED, uid="v"), found, shut=True).replacing


def test_that_all_keys_are_there_is_said_of_the_job_that_brought_them() -> None:
    histories = given()[2]
    done_by = replace(done(histories), restore="back", uid="u", job="back-replace-2", empties=True)
    assert restoring(in_use(), done_by, shut=True).filled == "back-replace-2"
    assert restoring(in_use(), done_by, shut=False).filled == ""
    other = done({**histories, "db-0-0": "another"})
    again = replace(other, restore="back", uid="u", job="back-replace-2", empties=True)
    assert restoring(in_use(), again, shut=True).filled == ""


def test_a_server_that_began_again_is_another_one() -> None:
    def restarted(node: object) -> object:
        if not isinstance(node, Seen) or node.pod.name != "db-0-1":
            return node
        return but(node, pod=replace(node.pod, restarts=node.pod.restarts + 1))

    some = in_use()
    again = replace(some, nodes=tuple(map(restarted, some.nodes)))  # type: ignore[arg-type]
    words = [restoring(one, REPLACED, shut=True).servers for one in (some, some, again)]
    assert words[0] == words[1] != words[2]


def test_clients_are_served_while_only_the_file_of_servers_shuts_them_out() -> None:
    served = replace(REPLACED, served=True)
    wanted = replace(given()[0], filling=served)
    context = Context(RedisStatus(), generation=1, now="2030-01-01T00:00:00Z", binding="db-conn")
    advice = plan(wanted, in_use(), NOW)
    found = status(wanted, in_use(), advice, context)
    assert available(found)[0] == "True"
    assert (advice.rule, advice.stages) == ("fill", ())
    assert found.restoring is not None
    assert (found.restoring.shut, found.restoring.closed) == (False, False)


def test_a_replica_that_is_lost_while_data_are_replaced_does_not_keep_clients_out() -> None:
    """It had shut them out before that, by its file, and does so again when it starts."""
    some = in_use()
    silent = tuple(
        Unreachable(n.pod, "no answer", NOW) if n.pod.name == "db-0-1" else n for n in some.nodes
    )
    empties = replace(REPLACED, empties=True, closing=False)
    known = RestoringStatus("back", "u", shut=True, closed=True, replacing=True)
    assert restoring(replace(some, nodes=silent), empties, known, shut=True).closed
    given_all = replace(empties, carried=done(given()[2]).carried, job="back-replace-1")
    found = restoring(replace(some, nodes=silent), given_all, known, shut=True)
    assert found.filled == "back-replace-1"


def opened(observed: Observed, *, opened: bool) -> RestoringStatus | None:
    wanted = given()[0]
    context = Context(
        previous=RedisStatus(restoring=RestoringStatus("back", "u", replacing=True)),
        generation=1,
        now="2030-01-01T00:00:00Z",
        binding="db-conn",
        opening=RestoringStatus("back", "u", opened=opened),
    )
    return status(wanted, observed, plan(wanted, observed, NOW), context).restoring


def test_a_database_says_when_its_clients_are_let_in() -> None:
    assert opened(in_use(), opened=True) == RestoringStatus("back", "u", opened=True)
    assert opened(in_use(), opened=False) == RestoringStatus("back", "u")
    assert opened(replace(in_use(), nodes=()), opened=True) == RestoringStatus("back", "u")
