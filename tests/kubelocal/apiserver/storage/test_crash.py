"""kill -9 during writes: every acknowledged write is there afterwards, and nothing half-written."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kubecontroller.client.request import Request, Response
from kubelocal.apiserver.server import ApiServer
from kubelocal.apiserver.storage.entries import FieldIndex
from kubelocal.apiserver.storage.sqlite import SqliteJournal, open_store

MAPS = "/api/v1/namespaces/default/configmaps"
NAMES = [f"m{number}" for number in range(8)]


def open_server(path: Path) -> tuple[ApiServer, SqliteJournal]:
    journal = SqliteJournal(path)
    store = open_store(journal, FieldIndex().read)
    return ApiServer(store, clock=lambda: datetime(2030, 1, 1, tzinfo=UTC)), journal


def ask(server: ApiServer, method: str, path: str, body: Any = None) -> Response:
    request = Request(method, path, body=b"" if body is None else json.dumps(body).encode())
    with pytest.raises(StopIteration) as done:
        next(server.handle(request))  # a plain write needs nobody else
    answer: Response = done.value.value
    return answer


def write(server: ApiServer, seed: int, acknowledged: int) -> None:
    """Change objects at random for ever, and tell of each change once it is acknowledged."""
    chance = random.Random(seed)
    for number in range(1_000_000):
        name = chance.choice(NAMES)
        value = f"{seed}-{number}"
        times = chance.choice((50, 1500))  # large objects are kept packed
        data = {"v": value, "times": str(times), "again": value * times}
        body = {"metadata": {"name": name}, "data": data}
        answer = ask(server, "PUT", f"{MAPS}/{name}", body)
        if answer.status == 404:
            answer = ask(server, "POST", MAPS, body)
        elif chance.random() < 0.2:
            value = ""
            answer = ask(server, "DELETE", f"{MAPS}/{name}")
        assert answer.status in (200, 201), answer.body
        os.write(acknowledged, f"{name}={value}\n".encode())


def crash_once(path: Path, seed: int, pause: float) -> dict[str, str]:
    """Let a process write until it is killed; return what it was told had happened."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            write(open_server(path)[0], seed, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        first = pipe.readline()  # it is writing now
        time.sleep(pause)  # the moment of a crash is real time: that is what is tried here
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the writer failed on its own"
        told = (first + pipe.read()).decode().splitlines()
    return dict(line.split("=", 1) for line in told if "=" in line)


def read_all(path: Path) -> dict[str, str]:
    """Return every object that is there, each of which must be whole."""
    server, journal = open_server(path)
    try:
        listed = json.loads(ask(server, "GET", MAPS).body)
    finally:
        journal.close()
    found = {}
    for item in listed["items"]:
        data = item["data"]
        assert data["again"] == data["v"] * int(data["times"])
        assert int(item["metadata"]["resourceVersion"]) <= int(
            listed["metadata"]["resourceVersion"]
        )
        found[item["metadata"]["name"]] = data["v"]
    return found


def campaign(path: Path, times: int) -> None:
    chance = random.Random(1)
    known: dict[str, str] = {}
    for seed in range(times):
        told = crash_once(path, seed, chance.uniform(0, 0.02))
        known |= told
        found = read_all(path)
        # One write may have been made and not acknowledged: only one, and only by this process.
        wanted = {name: value for name, value in known.items() if value}
        differing = {name for name in NAMES if wanted.get(name) != found.get(name)}
        assert len(differing) <= 1, (seed, wanted, found)
        for name in differing:
            assert found.get(name, f"{seed}-").startswith(f"{seed}-"), (seed, wanted, found)
        known = dict.fromkeys(NAMES, "") | found


def test_acknowledged_writes_survive_kill(tmp_path):
    campaign(tmp_path / "state.db", 20)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_acknowledged_writes_survive_a_thousand_kills(tmp_path):
    campaign(tmp_path / "state.db", 1000)
