"""`demo` never deletes a local cluster that it did not start."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kubelocal.instance import Settings
from redis_operator.cli.app import app
from redis_operator.cli.local_cluster import INSTANCES


def test_a_local_cluster_of_that_name_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that `demo --keep` left, or that a person started with `up --name demo`."""
    monkeypatch.setenv("REDIS_OPERATOR_HOME", str(tmp_path))
    instance = INSTANCES.find("demo")
    with INSTANCES.choosing():
        instance.save(Settings(network=INSTANCES.free_network()))
    volume = instance.folder / "volumes" / "data"
    volume.mkdir(parents=True)
    refused = CliRunner().invoke(app, ["demo"])
    assert volume.exists()
    assert refused.exit_code == 1
    assert "redis-operator down --name demo --purge" in refused.output
