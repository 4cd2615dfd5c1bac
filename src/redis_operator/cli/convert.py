"""`redis-operator convert`: convert manifests of other operators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TextIO

import click
import yaml

from redis_operator.install.rendering import to_stream
from redis_operator.translation import older
from redis_operator.translation.older import OLDER, Converted, as_redis, is_older

__all__ = ["convert"]

_LEFT_OUT = 1
_UNREADABLE = 2


@click.command()
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option(
    "--to",
    type=click.Choice(["RedisFailover", "Redis"]),
    default="RedisFailover",
    show_default=True,
    help="Kind to write.",
)
def convert(*, file: TextIO, to: str) -> None:
    """Convert RedisFailover manifests of other operators.

    FILE has one or more documents; - is the standard input. The converted objects go to the
    standard output, other objects unchanged. What could not be converted goes to the standard
    error, with its path and the reason. Exit code 0: everything was converted; 1: something was
    left out, or has to be changed by hand; 2: there was nothing to convert.
    """
    try:
        documents = [found for found in yaml.safe_load_all(file) if found is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        click.echo(f"{file.name}: cannot be read as YAML: {error}", err=True)
        sys.exit(_UNREADABLE)
    written: list[Any] = []
    whole, count = True, 0
    for document in _each(documents):
        if not is_older(document):
            written.append(document)
            continue
        count += 1
        found = older.convert(document)
        found = as_redis(found) if to == "Redis" else found
        whole = whole and found.is_whole
        written.append(found.document)
        _tell(found)
    if not count:
        versions = ", ".join(OLDER)
        click.echo(f"{file.name}: there is no RedisFailover of {versions} in it", err=True)
        sys.exit(_UNREADABLE)
    click.echo(to_stream(written), nl=False)
    sys.exit(0 if whole else _LEFT_OUT)


def _each(documents: list[Any]) -> Iterator[Any]:
    """Yield every object, also those of lists."""
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            yield from document["items"]
        else:
            yield document


def _tell(found: Converted) -> None:
    metadata = found.document["metadata"]
    name = "/".join(str(metadata[part]) for part in ("namespace", "name") if part in metadata)
    for problem in found.left_out:
        click.echo(f"{name}: left out: {problem}", err=True)
    for problem in found.wrong:
        click.echo(f"{name}: change by hand: {problem}", err=True)
    for note in found.notes:
        click.echo(f"{name}: note: {note}", err=True)
