"""Nothing beyond the pod is read or written by what runs beside a server, however it asks. L-02"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from e2e.harness import until
from kubecontroller.client.errors import Invalid

pytestmark = pytest.mark.e2e

_HERE = Path("/etc/redis-operator-was-here")
_LOG_BYTES = 32 * 2**20  # two files of ten mebibytes, and what is on its way


def _nosy(home: Path, mark: Path) -> str:
    """Try to read keys, state and data of the cluster, to write to the machine, and to flood it."""
    names = ("kubeconfig", "state.db", "supervisor.pid", "node/volumes", "logs", "node/keeper")
    wanted = " ".join(f"{home}/{name}" for name in names)
    return (
        f"for file in {wanted}; do "
        '[ -n "$(cat $file 2>/dev/null || ls $file 2>/dev/null)" ] && echo "seen $file"; done; '
        f"mkdir -p {mark.parent} 2>/dev/null; echo x 2>/dev/null >{mark}; "
        "ln -s / /tmp/out 2>/dev/null; echo x 2>/dev/null >/tmp/out/etc/redis-operator-was-here; "
        f"for pod in $(ls {home}/node/pods); do echo pod $pod; done; "
        "echo looked; sleep 3; yes flood | head -c 60000000; echo flooded; exec sleep 600"
    )


def _present(*files: Path) -> list[Path]:
    return [file for file in files if file.exists()]


async def test_what_runs_beside_a_server_sees_and_writes_nothing_beyond_its_pod(
    database: Any, cluster: Any, tmp_path: Path
) -> None:
    if not cluster.is_local:
        pytest.skip("containers of a real cluster are kept in by their runtime")
    home, mark = cluster.folder / cluster.name, tmp_path / "mark"
    script = ["sh", "-c", _nosy(home, mark)]
    sidecar = {"name": "nosy", "image": "busybox:1.36", "command": script}
    cache = await database(storage={"size": "1Gi"}, pod={"sidecars": [sidecar]})
    await cache.wait_ready(seconds=90)

    def said(*words: str) -> str:
        where = ("-n", cache.namespace, "cache-0-0", "-c", "nosy", *words)
        return str(cluster.kubectl("logs", *where))

    async def flooded() -> bool:
        return "flooded" in said("--tail=3")

    async with cache.under_load() as application:
        await until(flooded, seconds=60, what="the flood")
    assert (await application.verify()).lost == ()
    sizes = [
        sum(f.stat().st_size for f in one.iterdir()) for one in home.glob("node/pods/*/logs/nosy")
    ]
    assert len(sizes) == 6
    assert max(sizes) < _LOG_BYTES
    assert _present(mark, _HERE) == []
    await cache.wait_ready()


async def test_what_it_said_before_the_flood_names_nothing_of_the_cluster(
    database: Any, cluster: Any, tmp_path: Path
) -> None:
    if not cluster.is_local:
        pytest.skip("containers of a real cluster are kept in by their runtime")
    home = cluster.folder / cluster.name
    script = ["sh", "-c", _nosy(home, tmp_path / "mark").partition("sleep 3")[0] + "sleep 600"]
    sidecar = {"name": "nosy", "image": "busybox:1.36", "command": script}
    cache = await database(storage={"size": "1Gi"}, pod={"sidecars": [sidecar]})
    await cache.wait_ready(seconds=90)

    async def looked() -> str:
        text = str(cluster.kubectl("logs", "-n", cache.namespace, "cache-0-0", "-c", "nosy"))
        return text if "looked" in text else ""

    told = (await until(looked, seconds=30, what="a look")).splitlines()
    own = (await cache.uids())["cache-0-0"]
    assert set(told) <= {"looked", f"pod {own}"}, "its own folder is all that there is"


@pytest.mark.parametrize(
    "spec",
    [
        {"pod": {"sidecars": [{"name": "a", "image": "b:1", "command": ["c"]}] * 2}},
        {"resources": {"limits": {"memory": "1e999999"}}},
        {"resources": {"limits": {"memory": "9" * 400}}},
    ],
    ids=["two of one name", "a huge exponent", "a huge number"],
)
async def test_what_cannot_be_is_refused_and_nothing_is_started(
    database: Any, spec: dict[str, Any]
) -> None:
    try:
        cache = await database(**spec)
    except Invalid:
        return
    await cache.wait_condition("Ready", "False", reason="InvalidSpec", seconds=30)
    assert await cache.pods() == {}


@pytest.mark.parametrize("path", ["../../etc", "/../../etc/../data", "/data/../data", "relative"])
async def test_a_mount_that_leads_out_or_over_the_data_is_refused(database: Any, path: str) -> None:
    mounts = [{"name": "extra", "mountPath": path}]
    pod = {"volumes": [{"name": "extra", "emptyDir": {}}], "volumeMounts": mounts}
    try:
        cache = await database(pod=pod)
    except Invalid:
        return
    found = await cache.wait_condition("Ready", "False", reason="InvalidSpec", seconds=30)
    assert "mountPath" in found["message"]
    assert await cache.pods() == {}
