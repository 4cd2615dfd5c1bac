"""`redis-operator install`, `upgrade` and `uninstall`: the operator of a Kubernetes cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec
from msgspec.structs import replace

from kubecontroller import Client, HttpTransport, KubeError, load
from redis_operator import __version__
from redis_operator.install.installer import FIELD_MANAGER, Installer, InstallError
from redis_operator.install.inventory import Inventory
from redis_operator.install.managed.lifecycle import InstallerLife, redisoperator
from redis_operator.install.managed.objects import installer_objects
from redis_operator.install.objects import MONITORING_KINDS, objects
from redis_operator.install.options import (
    DEFAULT_NAMESPACE,
    EVERYWHERE,
    MonitoringOptions,
    Options,
    problems,
    read_issuer,
)
from redis_operator.install.remover import Remover
from redis_operator.install.rendering import to_stream
from redis_operator.install.waiting import NotInForce, StageTimeout

__all__ = ["install", "uninstall", "upgrade"]

F = TypeVar("F", bound=Callable[..., Any])


def _with(function: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def _cluster(function: F) -> F:
    """Add the options that choose the cluster and the namespace."""
    return _with(
        function,
        click.option("--kubeconfig", default="", help="Else KUBECONFIG, else ~/.kube/config."),
        click.option("--context", default="", help="The kubeconfig's context, if not current."),
        click.option(
            "--namespace",
            default=DEFAULT_NAMESPACE,
            show_default=True,
            help="Namespace of the operator.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(1),
            default=300.0,
            show_default=True,
            help="Seconds that each part may take to be ready.",
        ),
    )


def _choices(function: F) -> F:
    """Add what an installation may choose."""
    return _with(
        function,
        click.option("--image", default=None, help="The operator's image."),
        click.option("--pull-policy", default=None, help="Always, IfNotPresent or Never."),
        click.option("--pull-secret", multiple=True, help="A Secret to pull the image with."),
        click.option(
            "--watch-namespaces",
            default=None,
            help="Namespaces whose databases are reconciled, separated by commas, or `all`.",
        ),
        click.option("--replicas", type=int, default=None, help="Pods: one leads."),
        click.option("--argument", multiple=True, help="One more for `redis-operator run`."),
        click.option(
            "--webhooks/--without-webhooks",
            default=None,
            help="Whether the API server asks the operator before it stores these kinds.",
        ),
        click.option(
            "--certificate-issuer",
            default=None,
            help="[KIND/]NAME of an issuer of cert-manager that issues the certificate of the "
            "webhooks, such as ClusterIssuer/internal; `own`: the operator makes it.",
        ),
        click.option(
            "--monitoring/--without-monitoring",
            default=None,
            help="ServiceMonitors, alerts and a dashboard, where the cluster serves these kinds.",
        ),
        click.option(
            "--monitoring-label",
            multiple=True,
            help="KEY=VALUE, by which a Prometheus selects ServiceMonitors and alerts.",
        ),
        click.option(
            "--runbook-url", default=None, help="Where people find the pages of docs/runbooks."
        ),
        click.option(
            "--scrape-namespaces",
            default=None,
            help="Namespaces whose pods may read /metrics, separated by commas, or `all`.",
        ),
        click.option(
            "--secured-metrics/--open-metrics",
            default=None,
            help="Whether /metrics is served over TLS, to accounts that may get that path alone.",
        ),
        click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing."),
    )


def _kept(found: Inventory | None, given: dict[str, Any], namespace: str) -> Options:
    """Return the options of an installation, if there is one, with those that were given now."""
    if found is None:
        return _chosen(Options(namespace=namespace), given)
    before = replace(found.options, namespace=namespace, image=given["image"] or _image(found))
    return _chosen(before, given)


def _image(found: Inventory) -> str:
    """Return the image of an installation, or this version's own if that has another version."""
    image = found.options.image
    if found.version == __version__:
        return image
    if image == f"redis-operator:{found.version}":
        return Options().image
    raise InstallError(
        f"--image: name the image of version {__version__}; version {found.version} was installed "
        f"with {image}"
    )


def _what_stays(options: Options, given: dict[str, Any]) -> str:
    """Return which options an installation keeps that would otherwise have other values."""
    fresh = _chosen(Options(namespace=options.namespace), given)
    before, now = (msgspec.to_builtins(one) for one in (fresh, options))
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    return ", ".join(f"{name} {now.get(name, 'default')}" for name in names)


def _chosen(before: Options, given: dict[str, Any]) -> Options:
    """Return the options of before with those that were given now; an empty text removes some."""
    given = dict(given)
    watched = given.pop("watch_namespaces")
    asked, issuer = given.pop("webhooks"), given.pop("certificate_issuer")
    lists = {"pull_secrets": given.pop("pull_secret"), "arguments": given.pop("argument")}
    monitoring = _monitoring(before.monitoring, given)
    changes: dict[str, Any] = {n: v for n, v in given.items() if v not in (None, "")}
    changes |= {n: tuple(filter(None, values)) for n, values in lists.items() if values}
    if asked is not None:
        changes["webhooks"] = asked
    if issuer is not None:
        changes["issuer"] = read_issuer(issuer)
    if watched is not None:
        names = _names(watched)
        if not names:  # perhaps an empty variable: it would be given rights everywhere
            raise click.UsageError("--watch-namespaces: it names no namespace; use `all` for all")
        changes["watch_namespaces"] = () if names == ("all",) else names
    options = replace(before, monitoring=monitoring, **changes)
    found = problems(options)
    if found:
        raise click.UsageError("\n".join(found))
    return options


def _monitoring(before: MonitoringOptions, given: dict[str, Any]) -> MonitoringOptions:
    """Take what concerns monitoring out of the options that were given."""
    wanted, labels = given.pop("monitoring"), given.pop("monitoring_label")
    pages, scrapers = given.pop("runbook_url"), given.pop("scrape_namespaces")
    secured = given.pop("secured_metrics")
    changes: dict[str, Any] = {}
    if wanted is not None:
        changes["install"] = wanted
    if labels:
        parts = [label.partition("=") for label in labels if label]
        changes["labels"] = {key.strip(): value.strip() for key, _, value in parts}
    if secured is not None:
        changes["secured"] = secured
    if pages is not None:
        changes["runbook_url"] = pages
    if scrapers is not None:
        names = _names(scrapers)
        changes["scrape_namespaces"] = (EVERYWHERE,) if names == ("all",) else names
    return replace(before, **changes)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _printed(options: Options, *, everything: bool) -> list[Any]:
    """Return what --print gives: no cluster is asked, so kinds that few have are left out."""
    made = objects(options)
    return made if everything else [one for one in made if one["kind"] not in MONITORING_KINDS]


def _run(kubeconfig: str, context: str, work: Callable[[Client], Awaitable[None]]) -> None:
    """Do something with a cluster; what goes wrong is said in one sentence."""

    async def connected() -> None:
        access = load(file=kubeconfig, context=context)
        client = Client(
            HttpTransport(access, user_agent=FIELD_MANAGER), field_manager=FIELD_MANAGER
        )
        try:
            await work(client)
        finally:
            await client.close()

    try:
        asyncio.run(connected())
    except (KubeError, InstallError, NotInForce) as error:
        raise click.ClickException(str(error)) from error


async def _refuse_managed(life: InstallerLife) -> None:
    if await life.exists():
        raise InstallError(
            "this cluster has a RedisOperator, which its installer follows: change that "
            "(`kubectl edit redisoperator redis-operator`), or use --with-installer"
        )


@click.command()
@_cluster
@_choices
@click.option("--print", "print_", is_flag=True, help="Print all objects as YAML; no cluster.")
@click.option(
    "--with-installer",
    is_flag=True,
    help="Leave it to an installer in the cluster, which follows a RedisOperator.",
)
def install(
    *,
    kubeconfig: str,
    context: str,
    namespace: str,
    timeout: float,
    dry_run: bool,
    print_: bool,
    with_installer: bool,
    **given: Any,
) -> None:
    """Install the operator in a Kubernetes cluster, or change how it is installed.

    Options that are not given keep the values of an existing installation.
    """
    everything = bool(given["monitoring"])
    options = _chosen(Options(namespace=namespace), given)
    if print_:
        made = [*installer_objects(options), redisoperator(options)]
        click.echo(
            to_stream(made if with_installer else _printed(options, everything=everything)),
            nl=False,
        )
        return
    if with_installer and dry_run:
        raise click.UsageError("--dry-run says nothing of an installer; use --print")

    async def work(client: Client) -> None:
        life = InstallerLife(client, tell=click.echo, patience=StageTimeout(timeout))
        installer = Installer(client, tell=click.echo, patience=StageTimeout(timeout))
        if not with_installer:
            await _refuse_managed(life)
        found = await life.described(namespace) if with_installer else None
        options = _kept(found or await installer.recorded(namespace), given, namespace)
        if stays := _what_stays(options, given):
            click.echo(f"options that were not given stay: {stays}")
        if with_installer:
            await life.install(options)
            click.echo(f"redis-operator is installed in namespace {namespace} by its installer")
            return
        if dry_run:
            await installer.preview(options)
            return
        await installer.install(options)
        click.echo(f"redis-operator {__version__} is installed in namespace {namespace}")

    _run(kubeconfig, context, work)


@click.command()
@_cluster
@_choices
def upgrade(
    *,
    kubeconfig: str,
    context: str,
    namespace: str,
    timeout: float,
    dry_run: bool,
    **given: Any,
) -> None:
    """Bring an installed operator to this version; what was chosen before stays."""

    async def work(client: Client) -> None:
        installer = Installer(client, tell=click.echo, patience=StageTimeout(timeout))
        life = InstallerLife(client, tell=click.echo, patience=StageTimeout(timeout))
        await _refuse_managed(life)
        found = await installer.recorded(namespace)
        if found is None:
            raise InstallError(
                f"no operator was installed in namespace {namespace} by `redis-operator install`; "
                "run that, or name the namespace"
            )
        options = _kept(found, given, namespace)
        if dry_run:
            await installer.preview(options)
            return
        await installer.install(options)
        click.echo(
            f"redis-operator {found.version} in namespace {namespace} is upgraded to {__version__}"
        )

    _run(kubeconfig, context, work)


@click.command()
@_cluster
@click.option(
    "--everything",
    is_flag=True,
    help="Delete all databases and the custom resource definitions too.",
)
@click.option("--yes", is_flag=True, help="Do not ask before databases are deleted.")
def uninstall(
    *,
    kubeconfig: str,
    context: str,
    namespace: str,
    timeout: float,
    everything: bool,
    yes: bool,
) -> None:
    """Remove the operator. Databases keep serving, unless you pass --everything."""

    async def work(client: Client) -> None:
        remover = Remover(client, tell=click.echo, patience=StageTimeout(timeout))
        found = await remover.check(namespace, everything=everything)
        for raw in found:
            place = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
            click.echo(f"Redis {place}: " + ("will be deleted" if everything else "stays"))
        if everything and found and not yes:
            click.confirm(f"Delete {len(found)} databases with their data?", abort=True)
        life = InstallerLife(client, tell=click.echo, patience=StageTimeout(timeout))
        await life.remove(namespace)
        await remover.uninstall(namespace, everything=everything, listed=found)
        if everything:
            for claim in await remover.leftovers():
                click.echo(f"PersistentVolumeClaim {claim}: stays; its data is kept until deleted")
            click.echo("redis-operator and all databases are removed")
            return
        click.echo(
            f"redis-operator is removed; {len(found)} databases keep serving without it. "
            "Their kinds and the protection from deletion stay; install again at any time"
        )

    _run(kubeconfig, context, work)
