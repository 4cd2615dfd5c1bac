"""The entry point. Daemons start without the libraries that only the command line needs."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the daemon or the command that the first word names."""
    if sys.argv[1:2] == ["run"]:
        from redis_operator.operator.main import main as run_operator  # noqa: PLC0415

        sys.exit(run_operator(sys.argv[2:]))
    if sys.argv[1:2] in (["installer"], ["strategy"]):
        from redis_operator.install.managed.main import (  # noqa: PLC0415
            run_installer,
            write_strategy,
        )

        program = run_installer if sys.argv[1] == "installer" else write_strategy
        sys.exit(program(sys.argv[2:]))
    if sys.argv[1:2] == ["backup-worker"]:
        from redis_operator.backup.main import main as run_worker  # noqa: PLC0415

        sys.exit(run_worker())
    if sys.argv[1:3] == ["control-plane", "--name"]:
        from kubelocal.control_plane import main as run_control_plane  # noqa: PLC0415
        from redis_operator.cli.local_cluster import INSTANCES  # noqa: PLC0415

        sys.exit(run_control_plane(INSTANCES, sys.argv[3]))
    if sys.argv[1:3] == ["supervise", "--name"]:
        from redis_operator.cli.local_cluster import supervise  # noqa: PLC0415

        sys.exit(supervise(sys.argv[3]))
    try:
        from redis_operator.cli.app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.exit(
            f"redis-operator: {error.name} is not installed. The extra `cli` of the package brings "
            "the command line, `local` also local mode: `pip install '.[local]'` in a checkout"
        )
    app(prog_name="redis-operator")


if __name__ == "__main__":
    main()
