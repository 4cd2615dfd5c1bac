"""Schemas and definitions from types: what each type says, and that an API server follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, field

from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.definitions import DefinitionNotServed, install_definitions
from kubecontroller.client.errors import Invalid
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.meta import Condition, Part, Projected
from kubecontroller.client.scheme import Kind
from kubecontroller.custom.definition import Column
from kubecontroller.custom.schema import schema_of
from kubelocal.apiserver.daemon import Daemon


class Colour(Enum):
    WARM = "Warm"
    COLD = "Cold"


class LampSpec(Part, frozen=True):
    watts: Annotated[int, Meta(ge=1, le=100, description="How bright it is.")]
    colour: Colour = Colour.WARM
    rooms: Annotated[tuple[str, ...], Meta(max_length=3)] = ()
    labels: dict[str, str] = field(default_factory=dict)


class LampStatus(Part, frozen=True):
    conditions: tuple[Condition, ...] = ()


class Lamp(Projected, frozen=True):
    """A lamp."""

    spec: LampSpec
    status: LampStatus = LampStatus()


LAMPS = Kind("lamps.test", "v1", "Lamp", "lamps", True, Lamp)


class Odd(Part, frozen=True):
    any_of_two: int | str = ""
    word: Literal["a", "b"] = "a"
    when: datetime | None = None
    share: float = 0.5
    whatever: dict[str, Any] = field(default_factory=dict)
    many: list[LampSpec] = field(default_factory=list)


class Wrong(Part, frozen=True):
    two: int | bool = 0


def test_each_type_has_its_schema() -> None:
    found = schema_of(Odd)["properties"]
    assert found["anyOfTwo"]["x-kubernetes-int-or-string"] is True
    assert found["word"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert found["when"] == {"type": "string", "format": "date-time"}
    assert found["share"] == {"type": "number", "default": 0.5}
    assert found["whatever"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert found["many"]["items"]["required"] == ["watts"]


def test_a_type_that_has_no_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="a field has one type"):
        schema_of(Wrong)


def test_a_kind_that_is_read_as_plain_values_has_no_definition() -> None:
    with pytest.raises(TypeError, match="Lamp is read as dict"):
        LAMPS.plain().definition()


def test_a_definition_says_what_the_type_says() -> None:
    found = LAMPS.definition(columns=[Column("Watts", ".spec.watts", "integer")])
    (version,) = found["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    assert found["metadata"]["name"] == "lamps.lamps.test"
    assert schema["description"] == "A lamp."
    assert schema["required"] == ["spec"]
    assert schema["properties"]["spec"]["properties"]["watts"] == {
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "maximum": 100,
        "description": "How bright it is.",
    }
    conditions = schema["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert version["subresources"] == {"status": {}}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    server = Daemon(tmp_path / "data")
    await server.start()
    file = tmp_path / "kubeconfig"
    file.write_text(server.kubeconfig())
    found = Client(HttpTransport(load(file=str(file))), field_manager="lamps")
    try:
        yield found
    finally:
        await found.close()
        await server.stop()


async def test_an_installed_definition_is_served_and_its_limits_hold(client: Client) -> None:
    await install_definitions(client, LAMPS.definition())
    await install_definitions(client, LAMPS.definition())  # as every restart does
    where = {"namespace": "default", "name": "desk"}
    made = await client.create(LAMPS, {"metadata": where, "spec": {"watts": 40}})
    assert made.spec == LampSpec(watts=40)
    many = {"watts": 400, "colour": "Grey", "rooms": ["a", "b", "c", "d"]}
    with pytest.raises(Invalid) as refused:
        await client.create(LAMPS, {"metadata": {**where, "name": "hall"}, "spec": many})
    fields = {cause.field for cause in refused.value.causes}
    assert fields == {"spec.watts", "spec.colour", "spec.rooms"}


async def test_names_that_another_definition_has_are_told(client: Client) -> None:
    other = Kind("other.test", "v1", "Lamp", "lamps", True, Lamp)
    same = Kind("lamps.test", "v1", "Lamp", "lamplets", True, Lamp)
    await install_definitions(client, LAMPS.definition(), other.definition())
    with pytest.raises(DefinitionNotServed, match=r"lamplets.lamps.test is not accepted: .*in use"):
        await install_definitions(client, same.definition(), timeout=0.5)


class _Reference(Struct):
    name: str
    kind: str = "Issuer"


class _Refers(Struct):
    to: _Reference
    kind: str = "Refers"


def test_a_field_called_kind_of_an_inner_type_is_a_field_as_any_other() -> None:
    made = schema_of(_Refers)
    assert [*made["properties"]] == ["to"], "an object's own kind is the API server's"
    assert [*made["properties"]["to"]["properties"]] == ["name", "kind"]
