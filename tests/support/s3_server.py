"""A real S3 server as a process of this machine, for tests of stores."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from kubelocal.loopback import free_host

__all__ = ["S3Server"]

_PORT = 9000


class S3Server:
    """One server with one bucket; end it with `stop`."""

    def __init__(self, folder: Path, bucket: str = "backups") -> None:
        self.bucket = bucket
        self.host = free_host()
        self.endpoint = f"http://{self.host}:{_PORT}"
        program = Path(sys.executable).parent / "moto_server"
        with (folder / "s3.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(program), "-H", self.host, "-p", str(_PORT)], stdout=log, stderr=log
            )
        self._create()

    def _create(self) -> None:
        deadline = time.monotonic() + 60
        asked = urllib.request.Request(f"{self.endpoint}/{self.bucket}", method="PUT")
        while True:
            try:
                with urllib.request.urlopen(asked, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                assert time.monotonic() < deadline, "the S3 server does not start"
                time.sleep(0.1)

    def stop(self) -> None:
        """End the server at once."""
        self._process.kill()
        self._process.wait(timeout=30)
