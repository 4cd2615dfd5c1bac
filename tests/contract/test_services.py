"""Services: addresses, ports, types and what may change."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from contract.driver import Api, Space


def make(space: Space, name: str = "s", **spec: Any) -> dict[str, Any]:
    return space.create(
        "services", {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    )


def refuse(space: Space, **spec: Any) -> set[tuple[str, str]]:
    reply = space.post("services", {"metadata": {"name": "s"}, "spec": spec})
    reply.refused(422, "Invalid")
    return {cause[:2] for cause in reply.causes()}


def test_address_is_allocated(space: Space) -> None:
    spec = make(space)["spec"]
    assert ipaddress.ip_address(spec["clusterIP"]).version == 4
    assert spec["clusterIPs"] == [spec["clusterIP"]]


def test_addresses_differ(space: Space) -> None:
    found = {make(space, f"s{number}")["spec"]["clusterIP"] for number in range(5)}
    assert len(found) == 5


def test_address_can_be_chosen_when_free(space: Space) -> None:
    address = make(space, "first")["spec"]["clusterIP"]
    space.delete("services/first").done()
    found = make(space, "second", clusterIP=address)["spec"]
    assert found["clusterIP"] == address


def test_address_in_use_is_refused(space: Space) -> None:
    address = make(space, "first")["spec"]["clusterIP"]
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "clusterIP": address}}
    reply = space.post("services", body)
    reply.refused(422)
    assert reply.causes() == {
        (
            "spec.clusterIPs",
            "FieldValueInvalid",
            (
                f'Invalid value: ["{address}"]: failed to allocate IP {address}:'
                " provided IP is already allocated"
            ),
        )
    }


def test_address_cannot_change(space: Space) -> None:
    make(space)
    reply = space.patch(
        "services/s", {"spec": {"clusterIP": "10.99.1.2", "clusterIPs": ["10.99.1.2"]}}
    )
    reply.refused(422)
    assert ("spec.clusterIPs[0]", "FieldValueInvalid") in {cause[:2] for cause in reply.causes()}


def test_address_is_kept_by_a_replace_without_it(space: Space) -> None:
    address = make(space)["spec"]["clusterIP"]
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 81}]}}
    assert space.put("services/s", body).object["spec"]["clusterIP"] == address


def test_headless_stays_headless(space: Space) -> None:
    make(space, clusterIP="None")
    space.patch("services/s", {"spec": {"clusterIP": ""}}).done()
    assert space.read("services/s")["spec"]["clusterIP"] == "None"


def test_headless_service_needs_no_ports(space: Space) -> None:
    made = space.create("services", {"metadata": {"name": "s"}, "spec": {"clusterIP": "None"}})
    assert "ports" not in made["spec"]


def test_ports_are_required(space: Space) -> None:
    assert refuse(space) == {("spec.ports", "FieldValueRequired")}


def test_names_are_required_of_several_ports(space: Space) -> None:
    assert refuse(space, ports=[{"port": 80}, {"port": 81}]) == {
        ("spec.ports[0].name", "FieldValueRequired"),
        ("spec.ports[1].name", "FieldValueRequired"),
    }


def test_port_names_are_unique(space: Space) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "a", "port": 81}]
    assert refuse(space, ports=ports) == {("spec.ports[1].name", "FieldValueDuplicate")}


def test_ports_are_unique(space: Space) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 80}]
    assert ("spec.ports[1]", "FieldValueDuplicate") in refuse(space, ports=ports)


@pytest.mark.parametrize("port", [0, 65536, -1])
def test_port_is_in_range(space: Space, port: int) -> None:
    found = refuse(space, ports=[{"port": port, "targetPort": 80}])
    assert found == {("spec.ports[0].port", "FieldValueInvalid")}


def test_protocol_is_known(space: Space) -> None:
    found = refuse(space, ports=[{"port": 80, "protocol": "ODD"}])
    assert found == {("spec.ports[0].protocol", "FieldValueNotSupported")}


def test_type_is_known(space: Space) -> None:
    found = refuse(space, type="Odd", ports=[{"port": 80}])
    assert ("spec.type", "FieldValueNotSupported") in found


def test_node_port_is_allocated_and_kept(space: Space) -> None:
    made = make(space, type="NodePort")["spec"]["ports"][0]["nodePort"]
    assert 30000 <= made <= 32767
    body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    after = space.put("services/s", body).object["spec"]["ports"][0]["nodePort"]
    assert after == made


def test_type_can_change(space: Space) -> None:
    make(space)
    found = space.patch("services/s", {"spec": {"type": "NodePort"}}).object["spec"]
    assert found["type"] == "NodePort"
    assert found["ports"][0]["nodePort"] > 0
    back = space.patch("services/s", {"spec": {"type": "ClusterIP"}}).object["spec"]
    assert "nodePort" not in back["ports"][0]


def test_external_name_has_no_address(space: Space) -> None:
    spec = {"type": "ExternalName", "externalName": "x.example"}
    found = space.create("services", {"metadata": {"name": "s"}, "spec": spec})["spec"]
    assert "clusterIP" not in found


def test_target_port_defaults_to_port(space: Space) -> None:
    assert make(space)["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


def test_port_order_is_kept(space: Space) -> None:
    ports = [{"name": "b", "port": 81}, {"name": "a", "port": 80}]
    found = make(space, ports=ports)["spec"]["ports"]
    assert [each["name"] for each in found] == ["b", "a"]


def test_service_status_is_empty(space: Space) -> None:
    assert make(space)["status"] == {"loadBalancer": {}}


def test_service_has_no_generation(space: Space) -> None:
    assert "generation" not in make(space)["metadata"]


def test_the_server_itself_is_a_service(api: Api) -> None:
    place = Space(api, "default")
    service = place.read("services/kubernetes")
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    spec = service["spec"]
    [port] = spec["ports"]
    assert (port["name"], port["protocol"], spec["type"]) == ("https", "TCP", "ClusterIP")
    [subset] = place.read("endpoints/kubernetes")["subsets"]
    [piece] = place.read("endpointslices/kubernetes")["endpoints"]
    assert piece["conditions"] == {"ready": True}
    assert [each["ip"] for each in subset["addresses"]] == piece["addresses"]
    assert [(each["name"], each["port"]) for each in subset["ports"]] == [
        ("https", port["targetPort"])
    ]


def test_the_address_of_the_server_is_not_given_to_others(space: Space) -> None:
    own = Space(space.api, "default").read("services/kubernetes")["spec"]["clusterIP"]
    fields = refuse(space, ports=[{"port": 80}], clusterIP=own)
    assert fields == {("spec.clusterIPs", "FieldValueInvalid")}
