"""Certificates of our own: made, served, swapped alive, rotated with overlap."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from kubecontroller.runtime.certificates import Material, next_check, renewed

NAMES = ("webhook.default.svc", "127.0.0.1")
START = datetime(2026, 1, 1, tzinfo=UTC)


def authorities(material: Material) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(material.authorities)


def leaf(material: Material) -> x509.Certificate:
    return x509.load_pem_x509_certificate(material.certificate)


def is_trusted(material: Material) -> bool:
    for authority in authorities(material):
        try:
            leaf(material).verify_directly_issued_by(authority)
        except Exception:
            continue
        return True
    return False


def test_the_first_material_is_an_ec_authority_and_a_certificate_it_signed():
    material, reason = renewed(None, names=NAMES, now=START)
    assert reason == "there is none"
    assert is_trusted(material)
    assert isinstance(leaf(material).public_key().curve, ec.SECP256R1)
    held = leaf(material).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert held.get_values_for_type(x509.DNSName) == ["webhook.default.svc"]
    assert [str(ip) for ip in held.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert renewed(material, names=NAMES, now=START) is None
    assert "***" in repr(material)


def test_the_certificate_is_issued_again_at_two_thirds_of_its_life():
    material, _ = renewed(None, names=NAMES, now=START)
    assert renewed(material, names=NAMES, now=START + timedelta(days=243)) is None
    changed, reason = renewed(material, names=NAMES, now=START + timedelta(days=244))
    assert "two thirds" in reason
    assert changed.authorities == material.authorities
    assert changed.certificate != material.certificate
    assert is_trusted(changed)


def test_other_names_need_another_certificate():
    material, _ = renewed(None, names=NAMES, now=START)
    changed, reason = renewed(material, names=("other.svc",), now=START)
    assert reason == "it is for other names"
    assert is_trusted(changed)


@pytest.mark.parametrize("broken", ["certificate", "key", "authorities", "authority_key"])
def test_material_that_cannot_be_read_or_does_not_fit_is_recreated(broken):
    material, _ = renewed(None, names=NAMES, now=START)
    other, _ = renewed(None, names=NAMES, now=START)
    garbage = msgspec.structs.replace(material, **{broken: b"garbage"})
    mixed = msgspec.structs.replace(material, **{broken: getattr(other, broken)})
    for bad in (garbage, mixed):
        changed, reason = renewed(bad, names=NAMES, now=START)
        assert "cannot be read" in reason
        assert is_trusted(changed)


@pytest.mark.parametrize("minutes", [0, 30, 90])
def test_a_certificate_of_an_authority_that_nobody_trusts_is_not_served(minutes):
    material, _ = renewed(None, names=NAMES, now=START)
    other, _ = renewed(None, names=NAMES, now=START)
    foreign = msgspec.structs.replace(material, certificate=other.certificate, key=other.key)
    now = START + timedelta(minutes=minutes)
    changed, reason = renewed(foreign, names=NAMES, now=now, served=material)
    assert "no authority" in reason
    assert changed.certificate == material.certificate, "what is served and trusted goes on"
    assert is_trusted(changed)
    for lost in (None, foreign):
        changed, _ = renewed(lost, names=NAMES, now=now, served=foreign)
        assert is_trusted(changed)
        assert changed.certificate != foreign.certificate


def test_an_authority_is_rotated_so_that_every_step_is_trusted_by_the_step_before():
    """Clients hold the bundle of one step while the server serves the certificate of the next."""
    material, _ = renewed(None, names=NAMES, now=START)
    now = START + timedelta(days=2434)
    reasons, moments, bundles = [], [], [authorities(material)]
    material, _ = renewed(material, names=NAMES, now=now - timedelta(days=20)) or (material, "")
    for _ in range(200):
        step = renewed(material, names=NAMES, now=now)
        if step is not None:
            before = material
            material, reason = step
            reasons.append(reason)
            moments.append(now)
            trusted_before = msgspec.structs.replace(material, authorities=before.authorities)
            assert is_trusted(trusted_before), reason
            assert is_trusted(material)
            bundles.append(authorities(material))
        now += timedelta(minutes=20)
    assert reasons == [
        "the authority is past two thirds of its life",
        "the new authority is known now",
        "the old authority is no longer needed",
    ]
    assert [len(bundle) for bundle in bundles] == [1, 2, 2, 1]
    waits = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert all(timedelta(hours=1) <= wait <= timedelta(hours=1, minutes=20) for wait in waits)


def test_an_expired_authority_is_replaced_whole():
    material, _ = renewed(None, names=NAMES, now=START)
    _, reason = renewed(material, names=NAMES, now=START + timedelta(days=4000))
    assert reason == "the authority has expired"


def test_the_next_look_is_when_something_becomes_due():
    material, _ = renewed(None, names=NAMES, now=START)
    wait = next_check(material, now=START)
    assert renewed(material, names=NAMES, now=START + wait - timedelta(minutes=1)) is None
    assert renewed(material, names=NAMES, now=START + wait) is not None
