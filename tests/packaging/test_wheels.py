"""Three wheels of one version: each holds what it says, and the library works without the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PLACES = {
    "redis-operator": ROOT,
    "kubecontroller": ROOT / "src" / "kubecontroller",
    "kubelocal": ROOT / "src" / "kubelocal",
}
HOLDS = {
    "redis-operator": {"redis_operator", "kubecontroller", "kubelocal"},
    "kubecontroller": {"kubecontroller"},
    "kubelocal": {"kubelocal"},
}

pytestmark = pytest.mark.xdist_group("wheels")


@pytest.fixture(scope="session")  # tests of several modules take turns
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    built = {}
    for name, place in PLACES.items():
        folder = tmp_path_factory.mktemp(name)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (built[name],) = folder.glob("*.whl")
    return built


@pytest.mark.parametrize("name", sorted(PLACES))
def test_a_wheel_holds_every_file_of_its_packages_and_nothing_else(
    wheels: dict[str, Path], name: str
) -> None:
    with ZipFile(wheels[name]) as wheel:
        held = {file for file in wheel.namelist() if ".dist-info/" not in file}
    expected = {
        path.relative_to(ROOT / "src").as_posix()
        for package in HOLDS[name]
        for path in (ROOT / "src" / package).rglob("*")
        if path.suffix in (".py", ".json") or path.name == "py.typed"
    }
    assert expected
    assert {file for file in held if not file.endswith(("LICENSE", "README.md"))} == expected


def test_the_wheels_have_one_version(wheels: dict[str, Path]) -> None:
    assert len({wheel.name.split("-")[1] for wheel in wheels.values()}) == 1


@pytest.mark.parametrize(
    ("names", "modules", "absent"),
    [
        (("kubecontroller",), "kubecontroller.runtime.manager", ("kubelocal", "redis_operator")),
        (("kubecontroller", "kubelocal"), "kubelocal.apiserver.daemon", ("redis_operator",)),
    ],
    ids=["library", "local cluster"],
)
def test_what_a_package_needs_is_in_its_wheels(
    wheels: dict[str, Path],
    tmp_path: Path,
    names: tuple[str, ...],
    modules: str,
    absent: tuple[str],
) -> None:
    """Installed into an empty folder; beside it only what the registry has."""
    for name in names:
        with ZipFile(wheels[name]) as wheel:
            wheel.extractall(tmp_path)
    others = Path(pytest.__file__).parents[1]
    program = (
        "import importlib, importlib.util, pkgutil, sys\n"
        f"sys.path = [{str(tmp_path)!r}, *sys.path, {str(others)!r}]\n"
        f"names = {names!r}\n"
        "for name in names:\n"
        "    package = importlib.import_module(name)\n"
        f"    assert package.__file__.startswith({str(tmp_path)!r}), package.__file__\n"
        "    for found in pkgutil.walk_packages(package.__path__, name + '.'):\n"
        "        if not found.name.endswith('__main__'):\n"
        "            importlib.import_module(found.name)\n"
        f"assert {modules!r} in sys.modules\n"
        f"for name in {absent!r}:\n"
        "    assert importlib.util.find_spec(name) is None, name\n"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
