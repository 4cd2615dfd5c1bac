"""Which server the contract is checked on, and a namespace of its own for each check.

`KUBECONFIG` set: that server, whatever it is. Not set: the embedded API server, started once in
a process of its own. Nothing is skipped on either, so both runs must print the same count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.definitions import definition, place, served, version
from contract.driver import Api, Space, until
from contract.golden import FOLDER, recording
from contract.kubectl import Kubectl, found
from contract.widgets import SCALE, SPEC, STATUS

HERE = Path(__file__).parent
SERVER = pytest.StashKey[str]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.contract)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which server was checked and how often, so that two runs can be compared."""
    passed = _ran(terminalreporter, "passed")
    failed = _ran(terminalreporter, "failed") + _ran(terminalreporter, "error")
    if passed or failed:
        server = config.stash.get(SERVER, _which())
        terminalreporter.write_line(
            f"contract: {passed + failed} checks ran on {server}: {passed} hold, {failed} do not"
        )


def _which() -> str:
    return "the server of KUBECONFIG" if os.environ.get("KUBECONFIG") else "the embedded server"


def _ran(terminalreporter: pytest.TerminalReporter, outcome: str) -> int:
    reports = terminalreporter.getreports(outcome)
    return sum("tests/contract/" in report.nodeid for report in reports)


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server named by KUBECONFIG, or an embedded one of this session's own."""
    given = os.environ.get("KUBECONFIG")
    if given:
        yield given
        return
    folder = tmp_path_factory.mktemp("apiserver")
    path, log = folder / "kubeconfig", folder / "log"
    program = [sys.executable, "-m", "kubelocal.apiserver"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*program, "--data", str(folder / "data"), "--kubeconfig", str(path)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until("the embedded server answers", lambda: _answers(process, path, log), seconds=30)
        yield str(path)
        assert process.poll() is None, f"the embedded server ended: {log.read_text()[-2000:]}"
    finally:
        process.terminate()
        process.wait(20)


def _answers(process: subprocess.Popen[bytes], path: Path, log: Path) -> bool:
    if process.poll() is not None:
        raise AssertionError(f"the embedded server ended: {log.read_text()[-2000:]}")
    try:
        probe = Api.from_kubeconfig(str(path))
        try:
            return probe.request("GET", "/readyz").status == 200
        finally:
            probe.close()
    except (OSError, TypeError, KeyError):
        return False


@pytest.fixture(scope="session")
def api(kubeconfig: str, pytestconfig: pytest.Config) -> Iterator[Api]:
    """The server, spoken to as its administrator."""
    administrator = Api.from_kubeconfig(kubeconfig)
    version = administrator.request("GET", "/version").object["gitVersion"]
    pytestconfig.stash[SERVER] = f"{_which()} ({version})"
    if recording():
        (FOLDER / "recorded-from.txt").write_text(f"{version}\n")
    yield administrator
    administrator.close()


@pytest.fixture
def unique() -> str:
    """A short name that no other test has. It begins with a letter: in YAML it is no number."""
    return f"a{uuid.uuid4().hex[:7]}"


@pytest.fixture
def space(api: Api, unique: str) -> Iterator[Space]:
    """A new namespace, deleted afterwards."""
    place = Space(api, f"contract-{unique}")
    api.request(
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.name}},
    ).done()
    yield place
    api.request("DELETE", f"/api/v1/namespaces/{place.name}")


@pytest.fixture
def environment(kubeconfig: str, space: Space, tmp_path: Path) -> dict[str, str]:
    """The variables of an operator whose namespace is this test's own: its lease is kept there."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    name = config["current-context"]
    (context,) = (c["context"] for c in config["contexts"] if c["name"] == name)
    own = tmp_path / "kubeconfig"  # read first, so its context comes before the other file's
    own.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": name,
                "contexts": [{"name": name, "context": {**context, "namespace": space.name}}],
            }
        )
    )
    return {**os.environ, "KUBECONFIG": f"{own}{os.pathsep}{kubeconfig}"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each check with kubectl is run with every kubectl of this machine that was recorded."""
    if "kubectl_version" in metafunc.fixturenames:
        every = recording()
        versions = [each for each in found() if every or (FOLDER / f"kubectl-{each}").is_dir()]
        metafunc.parametrize("kubectl_version", sorted(versions))


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(kubectl_version: str, kubeconfig: str, space: Space, kubectl_home: Path) -> Kubectl:
    """One kubectl in the namespace of the check."""
    program = found()[kubectl_version]
    return Kubectl(program, kubectl_version, kubeconfig, space.name, kubectl_home)


@pytest.fixture(scope="session")
def widget(api: Api) -> Iterator[dict[str, Any]]:
    group = f"c{uuid.uuid4().hex[:8]}.contract.test"
    subresources = {"status": {}, "scale": SCALE}
    body = definition(
        group,
        "Widget",
        version("v1", {"spec": SPEC, "status": STATUS}, subresources=subresources),
        names={"shortNames": ["wdg"], "categories": ["contract"]},
    )
    with served(api, body):
        yield body


@pytest.fixture
def widgets(space: Space, widget: dict[str, Any]) -> Space:
    return place(space, widget, "v1")
