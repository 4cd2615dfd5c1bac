"""The processes of a local cluster, when the machine lacks something."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from kubelocal import supervisor


def test_a_log_is_cut_also_where_there_is_no_space_to_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "operator.log"
    log.write_text("x" * 100)
    monkeypatch.setattr(supervisor, "_MOST_LOGGED", 20)

    def fill(_: Path, target: Path) -> None:
        target.write_text("x" * 10)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", fill)
    supervisor.trim(log)
    assert log.stat().st_size == 0
    assert [path.name for path in tmp_path.iterdir()] == ["operator.log"], "space is needed"
