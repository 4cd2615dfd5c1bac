from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubelocal.node.process.keeper import namespaces
from kubelocal.node.process.mounts import Mount, inside, mounts_of, tree_of

NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    for name in ("stage", "volume"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "volume/file").write_text("here\n")
    yield folder
    shutil.rmtree(folder)


def in_child(work: Callable[[], str]) -> str:
    """Return what some work says in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def enter(place: Path, *, user: bool, read_only: bool = False) -> None:
    volume = place / "volume"
    mounts = [
        Mount(volume, "/data"),
        Mount(volume, "/etc/redis-operator", read_only=True),
        Mount(volume, "/usr/local/share/deep/er"),
        Mount(volume / "file", "/usr/local/bin/program"),
        Mount(volume / "file", "/etc/hosts"),
        Mount(volume / "file", "/dev/termination-log"),
    ]
    tree = tree_of(
        mounts, stage=place / "stage", hostname="h", working_dir="/work-here", read_only=read_only
    )
    namespaces.enter(tree, user=user)


def look() -> str:
    paths = (
        "/data/file",
        "/etc/redis-operator/file",
        "/usr/local/share/deep/er/file",
        "/usr/local/bin/program",
        "/etc/hosts",
        "/dev/termination-log",
    )
    texts = {Path(path).read_text() for path in paths}
    assert texts == {"here\n"}, texts
    assert Path("/usr/bin/env").exists()
    assert Path("/work-here").is_dir()
    Path("/dev/null").write_text("gone")
    Path("/tmp/mine").write_text("x")
    return "seen"


def skip_unless_allowed(text: str) -> None:
    if text.startswith("PermissionError"):
        pytest.skip(f"this machine does not allow it: {text}")


@pytest.fixture
def machines_own() -> Iterator[Path]:
    """A folder of the machine that a container sees, for this test alone to be written in."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    for name in ("kept", "stays"):
        (folder / name).write_text("the machine's\n")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has mount namespaces of its own")
def test_root_sees_its_mounts(place: Path) -> None:
    assert in_child(lambda: (enter(place, user=False), look())[1]) == "seen"
    assert (place / "volume/file").read_text() == "here\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has mount namespaces of its own")
def test_what_a_container_of_root_writes_does_not_reach_the_machine(
    place: Path, machines_own: Path
) -> None:
    def work() -> str:
        enter(place, user=False)
        (machines_own / "kept").write_text("overwritten")
        (machines_own / "stays").unlink()
        (machines_own / "new").write_text("new")
        return (machines_own / "kept").read_text()

    assert in_child(work) == "overwritten"
    texts = {path.name: path.read_text() for path in machines_own.iterdir()}
    assert texts == {"kept": "the machine's\n", "stays": "the machine's\n"}


def test_user_namespace_shows_the_same_mounts(place: Path) -> None:
    text = in_child(lambda: (enter(place, user=True), look())[1])
    skip_unless_allowed(text)
    assert text == "seen"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_ordinary_user_sees_the_same_mounts(place: Path) -> None:
    def work() -> str:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(4, 1)  # dumpable again, as a process is that always was nobody
        enter(place, user=True)
        return look()

    text = in_child(work)
    skip_unless_allowed(text)
    assert text == "seen"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has mount namespaces of its own")
def test_read_only_root_leaves_volumes_writable(place: Path) -> None:
    def work() -> str:
        enter(place, user=False, read_only=True)
        refused = []
        for path in ("/etc/new", "/new", "/tmp/new", "/usr/new"):
            try:
                Path(path).write_text("x")
            except OSError as error:
                refused.append(error.strerror)
        Path("/data/new").write_text("kept")
        return ", ".join(sorted(set(refused))) + f" {len(refused)}"

    assert in_child(work) == "Read-only file system 4"
    assert (place / "volume/new").read_text() == "kept"


def tree_with(
    place: Path, *mounts: Mount, hidden: tuple[Path, ...] = (), working_dir: str = "/"
) -> dict[str, Any]:
    return tree_of(
        mounts,
        stage=place / "stage",
        hostname="h",
        working_dir=working_dir,
        read_only=False,
        hidden=hidden,
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_no_mount_path_leads_out_of_the_container(
    place: Path, machines_own: Path, user: bool
) -> None:
    """By dots, by a link of the machine, and by the file that a link points to."""
    if os.geteuid() != 0 and not user:
        pytest.skip("only root has mount namespaces of its own")
    (machines_own / "other").mkdir()
    (machines_own / "absolute").symlink_to(machines_own / "other")
    (machines_own / "link").symlink_to(machines_own / "kept")
    before = names(machines_own)
    up = "/.." * 12
    file = place / "volume/file"
    mounts = [
        Mount(place / "volume", f"{up}{machines_own}/folder"),
        Mount(file, f"{up}{machines_own}/made"),
        Mount(file, f"{up}{machines_own}/link"),
        Mount(file, f"{machines_own}/absolute/within"),
    ]

    def work() -> str:
        namespaces.enter(tree_with(place, *mounts), user=user)
        seen = [
            (machines_own / name).read_text()
            for name in ("folder/file", "made", "link", "other/within")
        ]
        return "".join(seen)

    text = in_child(work)
    skip_unless_allowed(text)
    assert text == "here\n" * 4
    assert names(machines_own) == before
    assert names(machines_own / "other") == []
    assert (machines_own / "link").is_symlink()
    assert (machines_own / "kept").read_text() == "the machine's\n"


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_what_is_hidden_is_not_seen_but_what_is_mounted_there_is(
    place: Path, machines_own: Path, user: bool
) -> None:
    if os.geteuid() != 0 and not user:
        pytest.skip("only root has mount namespaces of its own")
    mount = Mount(place / "volume", f"{machines_own}/pods/one/home")

    def work() -> str:
        namespaces.enter(tree_with(place, mount, hidden=(machines_own,)), user=user)
        inner = (machines_own / "pods/one/home/file").read_text()
        return f"{names(machines_own)} {inner}"

    text = in_child(work)
    skip_unless_allowed(text)
    assert text == "['pods'] here\n"
    assert names(machines_own) == ["kept", "stays"]


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_what_is_mounted_later_beside_something_does_not_undo_it(
    place: Path, machines_own: Path, user: bool
) -> None:
    """A folder that takes no new names is built again: with what was hidden and made in it."""
    if os.geteuid() != 0 and not user:
        pytest.skip("only root has mount namespaces of its own")
    (machines_own / "secrets").mkdir()
    (machines_own / "secrets/key").write_text("secret")
    (machines_own / "work").mkdir()
    mount = Mount(place / "volume", f"{machines_own}/beside")
    tree = tree_with(
        place,
        mount,
        hidden=(machines_own / "secrets",),
        working_dir=f"{machines_own}/work/here",
    )

    def work() -> str:
        namespaces.enter(tree, user=user)
        seen = (machines_own / "beside/file").read_text()
        return f"{names(machines_own / 'secrets')} {names(machines_own / 'work')} {seen}"

    text = in_child(work)
    skip_unless_allowed(text)
    assert text == "[] ['here'] here\n"
    assert names(machines_own) == ["kept", "secrets", "stays", "work"]
    assert names(machines_own / "work") == []


def test_what_an_ordinary_container_writes_does_not_reach_the_machine(
    place: Path, machines_own: Path
) -> None:
    (machines_own / "folder").mkdir()
    mount = Mount(place / "volume", f"{machines_own}/beside")

    def work() -> str:
        namespaces.enter(tree_with(place, mount), user=True)
        for path in ("kept", "new", "folder/new"):
            with contextlib.suppress(OSError):
                (machines_own / path).write_text("overwritten")
        return "done"

    text = in_child(work)
    skip_unless_allowed(text)
    assert text == "done"
    assert names(machines_own) == ["folder", "kept", "stays"]
    assert names(machines_own / "folder") == []
    assert (machines_own / "kept").read_text() == "the machine's\n"


@pytest.mark.parametrize(
    ("path", "meant"),
    [("/data", "/data"), ("data/", "/data"), ("/../../etc/x", "/etc/x"), ("//a/../..", "/")],
)
def test_a_path_of_a_container_starts_at_its_root(path: str, meant: str) -> None:
    assert inside(path) == meant
    mounts = mounts_of(
        {"volumeMounts": [{"name": "v", "mountPath": path}]}, {"v": Path("/v")}, variables={}
    )
    assert [mount.target for mount in mounts] == [meant]
