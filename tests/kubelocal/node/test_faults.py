from __future__ import annotations

import errno
import ipaddress
import os
import socket
from pathlib import Path

import pytest
from tests.kubelocal.node.pod_world import World, container, is_ready, phase_is, pod, status_of

from kubecontroller.client.objects import CONFIG_MAPS
from kubelocal.loopback import free_subnet
from kubelocal.node.addresses import AddressPool
from kubelocal.node.environment.payloads import File
from kubelocal.node.errors import AddressError, ModeError, VolumeError
from kubelocal.node.process.keeper.logfile import LogFile
from kubelocal.node.process.mounts import Mode
from kubelocal.node.volumes.atomic import write_files


async def test_container_over_its_memory_limit_is_killed(world: World) -> None:
    assert world.agent is not None
    if world.agent._machine.cgroups.memory is None:
        pytest.skip("the memory controller is not writable here")
    limits = {"limits": {"memory": "16Mi"}}
    eater = {**container("main", resources=limits), "command": ["tail", "/dev/zero"]}
    await world.create(pod("p", eater, restartPolicy="Never"))
    found = await world.until(phase_is("Failed", "Succeeded"))
    ended = status_of(found)["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


async def test_fork_bomb_is_held_by_the_pids_limit(bare_world: World) -> None:
    world = bare_world
    agent = await world.start_agent(pids_limit=30)
    if agent._machine.cgroups.pids is None:
        pytest.skip("the pids controller is not writable here")
    script = "for n in $(seq 60); do sleep 600 & done; wait"
    await world.create(pod("p", container("main", script), restartPolicy="Never"))
    found = await world.until(phase_is("Failed", "Succeeded"))
    assert status_of(found)["state"]["terminated"]["exitCode"] != 0
    assert "fork" in (await world.log()).lower()


async def test_many_pods_at_once_all_run(world: World) -> None:
    count = 60
    for number in range(count):
        await world.create(pod(f"p{number}"))
    for number in range(count):
        await world.until(is_ready, f"p{number}", timeout=60)
    addresses = {(await world.get(f"p{number}"))["status"]["podIP"] for number in range(count)}
    assert len(addresses) == count


async def test_mode_that_is_not_possible_is_refused_with_a_reason(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may do everything")
    with pytest.raises(ModeError, match="mode namespace is not possible on this machine"):
        await bare_world.start_agent(mode=Mode.NAMESPACE)


def test_full_disk_leaves_the_old_files_whole(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    write_files(folder, {"a": File(b"old", 0o644)})
    too_long = "x" * 300
    with pytest.raises(VolumeError, match="cannot write"):
        write_files(folder, {"a": File(b"new", 0o644), too_long: File(b"", 0o644)})
    assert (folder / "a").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir() if path.is_symlink()) == ["..data", "a"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_loses_log_lines_and_nothing_else(tmp_path: Path) -> None:
    """What is printed once there is room again is written, in whole lines."""
    path = tmp_path / "log"
    log = LogFile(str(path), limit=1 << 20, kept=0)
    log.feed("stdout", b"before\n")
    room = os.dup(log._fd)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._fd)
    os.close(full)
    log.feed("stdout", b"lost\n")
    os.dup2(room, log._fd)
    os.close(room)
    log.feed("stdout", b"after\n")
    log.close()
    assert [line.split(" ", 3)[3] for line in path.read_text().splitlines()] == ["before", "after"]


def test_log_that_cannot_be_rotated_is_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A descriptor that was closed may be another file's by then."""
    path = tmp_path / "log"
    log = LogFile(str(path), limit=100, kept=1)
    log.feed("stdout", b"x" * 60 + b"\n")

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("os.open", refuse)
        log.feed("stdout", b"y" * 60 + b"\n")
    other = os.open(tmp_path / "dump.rdb", os.O_CREAT | os.O_RDWR)
    log.feed("stdout", b"z\n")
    log.close()
    assert os.fstat(other).st_size == 0
    os.close(other)
    texts = [
        line.split(" ", 3)[3]
        for piece in (tmp_path / "log.1", path)
        for line in piece.read_text().splitlines()
    ]
    assert texts == ["x" * 60, "y" * 60, "z"]


async def test_volume_that_cannot_be_written_is_said_in_an_event(world: World) -> None:
    await world.put(CONFIG_MAPS, "conf", data={"a": "1"})
    items = [{"key": "a", "path": "/".join(["x" * 255] * 20)}]
    volumes = [{"name": "conf", "configMap": {"name": "conf", "items": items}}]
    await world.create(pod("p", volumes=volumes))
    event = await world.until_event("FailedMount")
    assert 'MountVolume.SetUp failed for volume "conf" : cannot write' in event["message"]
    assert os.strerror(errno.ENAMETOOLONG) in event["message"]


def test_address_on_which_another_program_listens_is_passed_over() -> None:
    with socket.socket() as other:
        network = ipaddress.ip_network(free_subnet())
        other.bind((str(network[1]), 0))
        other.listen()
        assert AddressPool(str(network)).lease() == str(network[2])


def test_addresses_rest_before_they_are_given_again(tmp_path: Path) -> None:
    state = tmp_path / "addresses"
    pool = AddressPool("127.99.8.0/29", state=state, is_free=lambda _: True)
    first = pool.lease()
    pool.release(first)
    assert pool.lease() != first
    again = AddressPool("127.99.8.0/29", state=state, is_free=lambda _: True)
    assert again.lease() not in (first, "127.99.8.2")


def test_released_addresses_are_the_last_choice_and_the_oldest_comes_first() -> None:
    now = [0.0]
    pool = AddressPool("127.99.8.0/29", is_free=lambda _: True, clock=lambda: now[0])
    leased = [pool.lease() for _ in range(7)]
    for address in (leased[4], leased[1]):
        now[0] += 1
        pool.release(address)
    assert pool.lease() == leased[4], "a pod waits for no cool-down when nothing else is free"
    pool.release(leased[6])
    now[0] += 61
    pool.release(leased[0])
    later = [pool.lease() for _ in range(3)]
    assert set(later[:2]) == {leased[1], leased[6]}
    assert later[2] == leased[0], "released a moment ago"


def test_round_of_addresses_goes_on_after_a_crash_in_the_middle_of_writing(tmp_path: Path) -> None:
    state = tmp_path / "addresses"
    pool = AddressPool("127.99.8.0/29", state=state, is_free=lambda _: True)
    pool.lease()
    (tmp_path / "addresses.new").write_text("")  # where a crash leaves it
    assert AddressPool("127.99.8.0/29", state=state, is_free=lambda _: True).lease() == "127.99.8.2"


def test_pool_that_is_used_up_says_so() -> None:
    pool = AddressPool("127.99.8.0/30", is_free=lambda _: True)
    for _ in range(3):
        pool.lease()
    with pytest.raises(AddressError, match=r"no address of 127.99.8.0/30 is free: 3 are leased"):
        pool.lease()


def test_only_loopback_networks_are_taken() -> None:
    with pytest.raises(AddressError, match="not a loopback network"):
        AddressPool("10.0.0.0/8")


async def test_busy_port_is_the_programs_own_failure(world: World) -> None:
    """Another program on every address takes the port: the server says so and is restarted."""
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        server = {
            "name": "main",
            "image": "valkey:9.1",
            "args": ["--port", str(port)],
        }
        await world.create(pod("p", server, restartPolicy="Never"))
        await world.until(phase_is("Failed"))
    assert "Address already in use" in await world.log()


async def test_log_flood_does_not_stop_other_pods(world: World) -> None:
    await world.create(pod("flood", container("main", "while :; do echo flood; done")))
    await world.until(is_ready, "flood")
    await world.until_logged("flood\n" * 1000, "flood")
    await world.create(pod("p"))
    await world.until(is_ready)
    await world.delete("flood")
    await world.until_gone("flood")
