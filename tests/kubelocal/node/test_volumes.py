from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubelocal.node.environment.downward import NodeFacts
from kubelocal.node.environment.payloads import (
    File,
    TokenRequest,
    objects_named,
    payload,
    token_requests,
)
from kubelocal.node.environment.variables import Sources
from kubelocal.node.errors import ConfigError, VolumeError
from kubelocal.node.process.mounts import Mount, PathMap, mounts_of, prepare_sub_path
from kubelocal.node.volumes.atomic import write_files

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "1"}},
    "spec": {"containers": []},
}
SOURCES = Sources(
    node=NodeFacts("node-1", "127.0.1.1", 1.0, 1),
    pod_ip="127.5.0.1",
    config_maps={
        "conf": {
            "metadata": {"name": "conf"},
            "data": {"a": "1", "b": "2"},
            "binaryData": {"c": "AAE="},
        }
    },
    secrets={"secret": {"metadata": {"name": "secret"}, "data": {"key": "c2VzYW1l"}}},
)


def files_of(volume: dict[str, Any], tokens: dict[TokenRequest, str] | None = None) -> Any:
    found = payload(volume, POD, SOURCES, tokens=tokens or {})
    return {path: (file.content, file.mode) for path, file in found.items()}


def test_config_map_is_a_file_for_each_key() -> None:
    assert files_of({"configMap": {"name": "conf", "defaultMode": 0o600}}) == {
        "a": (b"1", 0o600),
        "b": (b"2", 0o600),
        "c": (b"\x00\x01", 0o600),
    }


def test_items_choose_keys_paths_and_modes() -> None:
    items = [{"key": "a", "path": "deep/er/a.conf", "mode": 0o400}]
    volume = {"configMap": {"name": "conf", "items": items}}
    assert files_of(volume) == {"deep/er/a.conf": (b"1", 0o400)}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"configMap": {"name": "conf", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent configmap key: z",
        ),
    ],
)
def test_what_is_not_there_is_named(volume: dict[str, Any], message: str) -> None:
    with pytest.raises(VolumeError) as caught:
        files_of(volume)
    assert str(caught.value) == message


def test_what_is_optional_may_be_missing() -> None:
    assert files_of({"configMap": {"name": "none", "optional": True}}) == {}
    items = [{"key": "z", "path": "z"}]
    assert files_of({"configMap": {"name": "conf", "items": items, "optional": True}}) == {}


def test_projection_joins_its_sources() -> None:
    volume = {
        "projected": {
            "sources": [
                {"configMap": {"name": "conf", "items": [{"key": "a", "path": "a"}]}},
                {"secret": {"name": "secret"}},
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                        ]
                    }
                },
            ]
        }
    }
    assert token_requests(volume) == [TokenRequest("", 600)]
    found = files_of(volume, {TokenRequest("", 600): "jwt"})
    assert {path: content for path, (content, _) in found.items()} == {
        "a": b"1",
        "key": b"sesame",
        "token": b"jwt",
        "name": b"p",
    }


def test_objects_a_pod_refers_to_are_found_everywhere() -> None:
    pod = {
        "spec": {
            "containers": [
                {
                    "envFrom": [{"configMapRef": {"name": "m1"}}, {"secretRef": {"name": "s1"}}],
                    "env": [
                        {"valueFrom": {"configMapKeyRef": {"name": "m2", "key": "k"}}},
                        {"valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
                    ],
                }
            ],
            "volumes": [
                {"configMap": {"name": "m3"}},
                {"secret": {"secretName": "s3"}},
                {"projected": {"sources": [{"secret": {"name": "s4"}}]}},
                {"emptyDir": {}},
            ],
        }
    }
    found = objects_named(pod)
    assert found.config_maps == {"m1", "m2", "m3"}
    assert found.secrets == {"s1", "s2", "s3", "s4"}


def test_files_are_swapped_as_a_whole(tmp_path: Path) -> None:
    assert write_files(tmp_path, {"a": File(b"1", 0o644), "d/b": File(b"2", 0o400)})
    assert not write_files(tmp_path, {"a": File(b"1", 0o644), "d/b": File(b"2", 0o400)})
    before = (tmp_path / "..data").readlink()
    assert write_files(tmp_path, {"a": File(b"3", 0o644)})
    assert (tmp_path / "..data").readlink() != before
    assert not (tmp_path / before).exists()
    assert (tmp_path / "a").read_text() == "3"
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("..")) == ["a"]


@pytest.mark.parametrize("path", ["../out", "/abs", "a/../../b", "..data"])
def test_paths_that_leave_the_volume_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(VolumeError, match="not a path within a volume"):
        write_files(tmp_path, {path: File(b"", 0o644)})


def test_mounts_are_laid_from_the_outside_in(tmp_path: Path) -> None:
    container = {
        "volumeMounts": [
            {"name": "b", "mountPath": "/data/conf", "readOnly": True},
            {"name": "a", "mountPath": "/data", "subPathExpr": "$(POD)/x"},
        ]
    }
    volumes = {"a": tmp_path / "a", "b": tmp_path / "b"}
    assert mounts_of(container, volumes, variables={"POD": "p"}) == [
        Mount(tmp_path / "a/p/x", "/data"),
        Mount(tmp_path / "b", "/data/conf", read_only=True),
    ]


def test_sub_path_may_not_leave_its_volume(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "link").symlink_to("/")
    prepare_sub_path(Mount(volume / "fine/deep", "/x"), [volume])
    assert (volume / "fine/deep").is_dir()
    with pytest.raises(ConfigError, match="by a link"):
        prepare_sub_path(Mount(volume / "link/etc", "/x"), [volume])
    host = tmp_path / "host"
    host.mkdir()
    (volume / "out").symlink_to(host)
    for path in ("out/made/by-pod", "out/made", "fine/../out/made"):
        with pytest.raises(ConfigError, match="leads out of its volume"):
            prepare_sub_path(Mount(volume / path, "/x"), [volume])
    assert list(host.iterdir()) == [], "nothing is created before it is known where"
    (volume / "within").symlink_to("fine")
    prepare_sub_path(Mount(volume / "within/more", "/x"), [volume])
    assert (volume / "fine/more").is_dir()
    with pytest.raises(ConfigError, match="leads out of its volume"):
        prepare_sub_path(Mount(volume / "../other", "/x"), [volume])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/v/data"),
        ("--dir /data/x", "--dir /v/data/x"),
        ('dir="/data"', 'dir="/v/data"'),
        ("dir=/data;", "dir=/v/data;"),
        ("/database", "/database"),
        ("/mnt/data", "/mnt/data"),
        ("/data.old", "/data.old"),
        ("x/data", "x/data"),
        ("/data/conf/a", "/v/conf/a"),
        ("/data:/data/conf", "/v/data:/v/conf"),
        (
            "redis-server /data/redis.conf --dir /data",
            "redis-server /v/data/redis.conf --dir /v/data",
        ),
    ],
)
def test_mount_paths_are_replaced_where_they_stand_alone(text: str, expected: str) -> None:
    paths = PathMap({"/data": "/v/data", "/data/conf": "/v/conf"})
    assert paths.text(text) == expected


def test_what_is_not_text_is_left_alone() -> None:
    paths = PathMap({"/data": "/v/data"})
    assert paths.content(b"\xff/data") == b"\xff/data"
