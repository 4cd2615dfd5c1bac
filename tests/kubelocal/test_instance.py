from __future__ import annotations

import ipaddress
import os
import socket
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kubelocal import instance
from kubelocal.distribution import Distribution
from kubelocal.instance import SUPERVISOR, InstanceError, Instances, Settings
from kubelocal.supervisor import is_running, read_pid, start_time

instances = Instances(Distribution(name="test", home_variable="TEST_HOME"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "-a", "a" * 40])
def test_a_name_that_cannot_be_a_folder_is_refused_with_what_may_be_used(name: str) -> None:
    with pytest.raises(InstanceError, match="small letters, digits and dashes"):
        instances.find(name)


def test_what_an_instance_was_made_with_is_found_again() -> None:
    made = instances.find("one")
    assert made.settings() is None
    made.save(Settings(network=33, nodes=3, zones=2, mounts="mapping"))
    assert instances.find("one").settings() == Settings(
        network=33, nodes=3, zones=2, mounts="mapping"
    )
    assert [i.name for i in instances.known()] == ["one"]


def test_a_damaged_settings_file_is_named_with_what_to_do(home: Path) -> None:
    made = instances.find("one")
    made.save(Settings(network=33))
    made.settings_file.write_text("{")
    with pytest.raises(InstanceError, match=f"{home}/one/instance.json cannot be read.*delete"):
        made.settings()


def test_two_instances_never_share_addresses() -> None:
    # Nobody else on this machine tries the numbers meanwhile; who looks for a free one locks each.
    with instances.choosing():
        first = instances.free_network()
        instances.find("one").save(Settings(network=first))
        assert instances.free_network() != first
        number = instances.free_network()
        refusal = pytest.raises(InstanceError, match=rf"uses the addresses 127\.{number}")
        with instances.hold_network(number), refusal, instances.hold_network(number):
            pass
        with instances.hold_network(number):
            pass  # free again as soon as the holder lets go


def test_the_addresses_of_a_control_plane_that_is_started_again_stay_its_own() -> None:
    """Its pods still run on them."""
    with instances.choosing():
        number = instances.free_network()
        with instances.hold_network(number, by=SUPERVISOR):
            assert instances.free_network() != number
            with instances.hold_network(number):
                pass


def test_addresses_on_which_pods_outlived_their_cluster_are_not_chosen() -> None:
    with instances.choosing():
        number = instances.free_network()
        with socket.create_server((f"127.{number}.0.7", 0)):
            assert instances.free_network() != number


def test_two_that_start_at_the_same_time_choose_one_after_the_other() -> None:
    chosen: list[int] = []

    def start() -> None:
        with instances.choosing():
            number = instances.free_network()
            held = instances.hold_network(number)
            held.__enter__()
        holding.append(held)
        chosen.append(number)

    holding: list[AbstractContextManager[None]] = []
    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for held in holding:
        held.__exit__(None, None, None)
    assert len(set(chosen)) == 8


def test_one_that_never_finishes_starting_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = pytest.raises(InstanceError, match="has been starting for")
    with instances.choosing():
        monkeypatch.setattr(instance, "_CHOOSING_SECONDS", 0.1)
        with refusal, instances.choosing():
            pass


def test_networks_of_one_instance_do_not_overlap() -> None:
    pods = ipaddress.ip_network(instance.pod_network(40))
    services = ipaddress.ip_network(instance.service_network(40))
    server = ipaddress.ip_address(instance.api_address(40)[0])
    assert not pods.overlaps(services)
    assert server not in pods
    assert server not in services


def test_a_pid_counts_only_with_its_start_time() -> None:
    made = instances.find("one")
    made.save(Settings(network=33))
    assert not is_running(made)
    made.pid_file.write_text(f"{os.getpid()} {start_time(os.getpid())}")
    assert read_pid(made) == os.getpid()
    made.pid_file.write_text(f"{os.getpid()} 12345")  # the pid was used again by another process
    assert read_pid(made) is None
