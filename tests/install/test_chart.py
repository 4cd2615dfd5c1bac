"""The Helm chart; tests/e2e/install/test_chart.py renders it."""

from __future__ import annotations

import re

import pytest
import yaml

from redis_operator import __version__
from redis_operator.install.chart import chart, schema, values
from redis_operator.install.objects import objects
from redis_operator.install.options import Issuer, Options

EVERYTHING = Options(watch_namespaces=("team",), issuer=Issuer("internal"))


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    """The files of the chart: every worker reads this module, and one of them renders it."""
    return chart()


def test_every_value_has_a_schema_and_no_other_is_allowed() -> None:
    found = schema()
    assert {*found["properties"]} - {"global"} == {*values()}
    assert found["additionalProperties"] is False
    assert {*found["properties"]["image"]["properties"]} == {*values()["image"]}


def test_values_are_the_choices_of_the_program(files: dict[str, str]) -> None:
    default = Options()
    found = values()
    assert f"{found['image']['repository']}:{__version__}" == default.image
    assert found["replicas"] == default.replicas
    assert found["resources"] == default.resources
    assert yaml.safe_load(files["Chart.yaml"])["appVersion"] == __version__


def test_every_value_is_used_and_every_used_value_exists(files: dict[str, str]) -> None:
    text = "".join(files[name] for name in files if name.startswith("templates/"))
    used = set(re.findall(r"\.Values\.([A-Za-z.]+)", text))
    assert {name.split(".")[0] for name in used} == {*values()}
    assert {name for name in used if name.startswith("image.")} == {
        f"image.{name}" for name in values()["image"]
    }


def test_no_mark_is_left_and_every_kind_is_there(files: dict[str, str]) -> None:
    text = "".join(files.values())
    assert "mark-" not in text
    kinds = set(re.findall(r"^kind: (\w+)$", text, re.MULTILINE))
    wanted = {made["kind"] for made in objects(EVERYTHING)}
    assert kinds == wanted - {"Namespace"}  # that one is Helm's to make


def test_no_quote_is_inside_of_a_name(files: dict[str, str]) -> None:
    for name, text in files.items():
        assert re.findall(r"^[ -]*[\w.-]+\.\{\{[^}]*quote \}\}", text, re.MULTILINE) == [], name


def test_kinds_and_protection_stay_when_the_release_goes(files: dict[str, str]) -> None:
    for name in ("templates/crds.yaml", "templates/admission.yaml"):
        text = files[name]
        assert text.count("helm.sh/resource-policy: keep") == text.count("\nkind: ")
