"""Certificates of our own: made, served, swapped alive, rotated with overlap."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from kubecontroller.runtime.certificates import Material, key_pem, next_check, pem, renewed

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


def one_character_changed(text: bytes) -> list[bytes]:
    """Return a text with each of its characters changed, one at a time."""
    return [
        text[:place] + (b"B" if text[place : place + 1] != b"B" else b"C") + text[place + 1 :]
        for place in range(len(text))
    ]


@pytest.mark.parametrize("damaged", ["certificate", "key", "authorities", "authority_key"])
def test_material_of_which_one_character_changed_is_no_error(damaged):
    material, _ = renewed(None, names=NAMES, now=START)
    reasons = []
    for text in one_character_changed(getattr(material, damaged)):
        bad = msgspec.structs.replace(material, **{damaged: text})
        change = renewed(bad, names=NAMES, now=START, served=material)
        if change is not None:
            reasons.append(change[1])
            assert is_trusted(change[0])
    assert len(reasons) > 100
    assert all("cannot be read" in reason for reason in reasons)


def test_material_with_a_second_certificate_is_recreated():
    """OpenSSL reads all of them, and would refuse to serve any if one is damaged."""
    material, _ = renewed(None, names=NAMES, now=START)
    broken = material.certificate + b"-----BEGIN CERTIFICATE-----\ngarbage\n"
    for text in (material.certificate * 2, broken):
        bad = msgspec.structs.replace(material, certificate=text)
        changed, reason = renewed(bad, names=NAMES, now=START)
        assert "cannot be read" in reason
        assert is_trusted(changed)


def signed(key, name: str, *names: str, by) -> x509.Certificate:
    """Return a certificate as other programs make it: without key identifiers."""
    subject, issuer = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in (name, "theirs")
    )
    held = [x509.DNSName(one) for one in names]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(START)
        .not_valid_after(START + timedelta(days=365))
    )
    if held:
        builder = builder.add_extension(x509.SubjectAlternativeName(held), critical=False)
    return builder.sign(by, hashes.SHA256())


def test_an_authority_that_cannot_issue_our_certificates_is_replaced_before_it_has_to():
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    theirs = Material(
        pem(signed(authority, "theirs", by=authority)),
        key_pem(authority),
        pem(signed(own, "webhook", "webhook.default.svc", by=authority)),
        key_pem(own),
    )
    changed, reason = renewed(theirs, names=("webhook.default.svc",), now=START)
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
