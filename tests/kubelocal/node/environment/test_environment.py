from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelocal.node.environment.downward import NodeFacts, field_text, resource_text
from kubelocal.node.environment.variables import Sources, compose, expand, service_variables
from kubelocal.node.errors import ConfigError

NODE = NodeFacts("node-1", "127.0.1.1", 4.0, 8 * 1024**3)
POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "labels": {"b": "2", "a": 'say "hi"'},
        "annotations": {"x/y": "z"},
    },
    "spec": {
        "serviceAccountName": "robot",
        "containers": [
            {
                "name": "main",
                "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "100Mi"}},
            }
        ],
    },
}
MAIN = POD["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$(A)$(B)", "12"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(MISSING)", "$(MISSING)"),
        ("$(A", "$(A"),
        ("$", "$"),
        ("a$b", "a$b"),
        ("$$", "$"),
        ("$()", "$()"),
        ("${A}", "${A}"),
    ],
)
def test_references_expand_as_in_kubernetes(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text(alphabet=st.characters(exclude_characters="$"), max_size=40))
def test_text_without_a_dollar_is_left_alone(text: str) -> None:
    assert expand(text, {"A": "1"}) == text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels", 'a="say \\"hi\\""\nb="2"'),
        ("metadata.labels['b']", "2"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['x/y']", "z"),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "127.0.1.1"),
        ("status.podIP", "127.5.0.1"),
    ],
)
def test_fields_of_the_pod_are_texts(path: str, expected: str) -> None:
    assert field_text(POD, path, node=NODE, pod_ip="127.5.0.1") == expected


def test_other_fields_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unsupported fieldPath: spec.containers"):
        field_text(POD, "spec.containers", node=NODE, pod_ip="")


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("requests.cpu", "1", "1"),
        ("requests.cpu", "1m", "250"),
        ("limits.memory", "1Mi", "100"),
        ("limits.memory", "0", "104857600"),
        ("limits.cpu", "1", "4"),
        ("requests.memory", "1", "0"),
    ],
)
def test_resources_are_rounded_up_to_the_divisor(
    resource: str, divisor: str, expected: str
) -> None:
    reference = {"resource": resource, "divisor": divisor}
    assert resource_text(POD, reference, container=MAIN, node=NODE) == expected


def environment(container: dict[str, Any], **sources: Any) -> dict[str, str]:
    whole = Sources(node=NODE, pod_ip="127.5.0.1", **sources)
    return compose(POD, container, whole, base={"PATH": "/bin"})


def named(kind: str, name: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    return {"valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}


def test_variables_are_composed_from_top_to_bottom() -> None:
    container = {
        "envFrom": [
            {"prefix": "C_", "configMapRef": {"name": "conf"}},
            {"secretRef": {"name": "none", "optional": True}},
        ],
        "env": [
            {"name": "A", "value": "$(C_word)"},
            {"name": "B", "value": "$(A)-$(LATER)"},
            {"name": "LATER", "value": "x"},
            {"name": "S", **named("secretKeyRef", "secret", "key")},
            {"name": "O", **named("configMapKeyRef", "conf", "none", optional=True)},
            {"name": "PATH", "value": "/mine:$(PATH)"},
        ],
    }
    found = environment(
        container,
        config_maps={"conf": {"metadata": {"name": "conf"}, "data": {"word": "hello"}}},
        secrets={"secret": {"metadata": {"name": "secret"}, "data": {"key": "c2VzYW1l"}}},
    )
    assert found == {
        "PATH": "/mine:/bin",
        "C_word": "hello",
        "A": "hello",
        "B": "hello-$(LATER)",
        "LATER": "x",
        "S": "sesame",
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (named("configMapKeyRef", "none", "k"), 'configmap "none" not found'),
        (named("secretKeyRef", "none", "k"), 'secret "none" not found'),
        (named("configMapKeyRef", "conf", "k"), "couldn't find key k in ConfigMap ns/conf"),
    ],
)
def test_what_is_not_there_is_named_as_a_kubelet_names_it(
    entry: dict[str, Any], message: str
) -> None:
    maps = {"conf": {"metadata": {"name": "conf"}, "data": {}}}
    with pytest.raises(ConfigError) as caught:
        environment({"env": [{"name": "A", **entry}]}, config_maps=maps)
    assert str(caught.value) == message


def test_services_are_named_by_variables() -> None:
    service = {
        "metadata": {"name": "my-cache"},
        "spec": {"clusterIP": "127.96.0.5", "ports": [{"name": "redis", "port": 6379}]},
    }
    headless = {"metadata": {"name": "none"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
    assert service_variables([service, headless]) == {
        "MY_CACHE_SERVICE_HOST": "127.96.0.5",
        "MY_CACHE_SERVICE_PORT": "6379",
        "MY_CACHE_SERVICE_PORT_REDIS": "6379",
        "MY_CACHE_PORT": "tcp://127.96.0.5:6379",
        "MY_CACHE_PORT_6379_TCP": "tcp://127.96.0.5:6379",
        "MY_CACHE_PORT_6379_TCP_PROTO": "tcp",
        "MY_CACHE_PORT_6379_TCP_PORT": "6379",
        "MY_CACHE_PORT_6379_TCP_ADDR": "127.96.0.5",
    }
