"""How a sentinel starts, and starts again: on real ones. SE-15"""

from __future__ import annotations

import asyncio
from pathlib import Path

from kubelocal.loopback import free_host
from redis_operator.manifests.failover_scripts import BOOT_SENTINEL
from redis_operator.manifests.users import (
    SENTINEL_USERS,
    acl_file,
    sentinel_acl_file_name,
    sentinel_file,
)
from redis_testing.servers import EngineBinary

from .pods import PASSWORDS

PLACE = "a" * 32


class SentinelPod:
    """A pod of a sentinel: its files stay, its address may change."""

    def __init__(self, directory: Path, binary: EngineBinary) -> None:
        self.binary, self.directory = binary, directory
        self.data, self.users = directory / "data", directory / "users"
        for folder in (self.data, self.users):
            folder.mkdir(parents=True)
        acl = acl_file(binary.version, PASSWORDS, SENTINEL_USERS)
        (self.users / sentinel_acl_file_name(binary.version)).write_text(acl)
        (self.users / "sentinel.conf").write_text(sentinel_file(PASSWORDS))
        (directory / "boot.sh").write_text(BOOT_SENTINEL)

    async def run(self, address: str) -> str:
        """Start it at an address, see that it listens there, stop it; what it says."""
        server = self.directory / "server"  # a pod has a network of its own
        server.write_text(
            f'#!/bin/sh\nexec "{self.binary.path}" "$1" --bind {address} --sentinel\n'
        )
        server.chmod(0o755)
        environment = {
            "PATH": "/usr/bin:/bin",
            "SERVER": str(server),
            "PORT": "26379",
            "DATA": str(self.data),
            "USERS": str(self.users),
            "ACL_FILE": sentinel_acl_file_name(self.binary.version),
            "SENTINEL_ID": PLACE,
            "POD_NAME": "db-sentinel-1",
            "POD_IP": address,
        }
        process = await asyncio.create_subprocess_exec(
            "sh", str(self.directory / "boot.sh"), env=environment, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        said = b""
        async with asyncio.timeout(20):
            while b"Sentinel ID is" not in said:
                line = await process.stdout.readline()
                assert line, said.decode()
                said += line
        process.kill()
        await process.wait()
        (self.data / "starting").unlink()  # as the readiness probe does
        return said.decode()

    @property
    def kept(self) -> list[str]:
        return (self.data / "sentinel.conf").read_text().splitlines()


async def test_a_sentinel_whose_pod_has_another_address_announces_that_one(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """The node was started again: the pod has its files, and another address."""
    pod, before, after = SentinelPod(tmp_path, binary), free_host(), free_host()
    await pod.run(before)
    known = f"sentinel monitor default.db {before} 6379 2"
    with (pod.data / "sentinel.conf").open("a") as file:
        file.write(f"{known}\n")
    said = await pod.run(after)
    assert f"another address: {after}" in said
    announced = [line for line in pod.kept if "announce-ip" in line]
    assert announced == [f'sentinel announce-ip "{after}"']
    assert known in pod.kept, "what it monitors is kept"
    assert f"sentinel myid {PLACE}00000001" in pod.kept


async def test_a_sentinel_that_starts_again_at_its_address_keeps_its_file(
    tmp_path: Path, binary: EngineBinary
) -> None:
    pod, address = SentinelPod(tmp_path, binary), free_host()
    await pod.run(address)
    assert "another address" not in await pod.run(address)
    assert [line for line in pod.kept if "announce-ip" in line] == [
        f'sentinel announce-ip "{address}"'
    ]
