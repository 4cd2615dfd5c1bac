"""Self-signed certificates for webhooks: EC P-256, a CA and one server certificate.

Pure but for random keys. The next step follows from the certificates alone, so every replica
comes to the same conclusion at any time:

1. The CA is past two thirds of its life: a new one is put in front of the bundle. The server
   certificate stays, since clients still trust the old CA and not yet the new one.
2. The newest CA has been in the bundle for `overlap`: a server certificate is issued from it.
3. That certificate has been served for `overlap`: older CAs leave the bundle.

A server certificate past two thirds of its life, or for other names, is renewed at once, unless
that would use a CA that clients do not know yet.

Deleted or damaged material is restored from the certificate that is still served, if that is
known: the server certificate stays, and a new CA follows the lost one as if that were due.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

__all__ = [
    "CA_LIFE",
    "UNREADABLE",
    "Made",
    "Material",
    "covers",
    "key_pem",
    "make_authority",
    "make_leaf",
    "next_check",
    "pem",
    "renewed",
]

CA_LIFE: Final = timedelta(days=3650)
_LEAF_LIFE: Final = timedelta(days=365)
_OVERLAP: Final = timedelta(hours=1)
_BACKDATED: Final = timedelta(minutes=5)  # clocks differ

UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What damaged certificates and keys raise when they are read."""

Made = tuple[ec.EllipticCurvePrivateKey, x509.Certificate]
"""A private key and its certificate."""


class Material(Struct, frozen=True):
    """The content of the Secret, in PEM. `authorities` has the newest CA first."""

    authorities: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Material(***)"

    @classmethod
    def from_secret(cls, secret: Mapping[str, bytes]) -> Material | None:
        """Return the material in a Secret's (decoded) data; nothing if any of it is missing."""
        names = ("ca.crt", "ca.key", "tls.crt", "tls.key")
        if not all(secret.get(name) for name in names):
            return None
        return cls(*(secret[name] for name in names))

    def to_secret(self) -> dict[str, bytes]:
        """Return the data of the Secret."""
        return {
            "ca.crt": self.authorities,
            "ca.key": self.authority_key,
            "tls.crt": self.certificate,
            "tls.key": self.key,
        }


class _Parsed(Struct, frozen=True):
    authorities: tuple[x509.Certificate, ...]
    authority_key: ec.EllipticCurvePrivateKey
    leaf: x509.Certificate


def renewed(
    material: Material | None,
    *,
    names: Sequence[str],
    now: datetime,
    overlap: timedelta = _OVERLAP,
    served: Material | None = None,
) -> tuple[Material, str] | None:
    """Return what the material has to become and why, or nothing when it is valid as it is.

    `served` is the material that the caller serves now.
    """
    if material is None:
        return _restored(served, names, now), "there is none"
    try:
        parsed = _parse(material)
    except UNREADABLE as error:
        return _restored(served, names, now), f"the Secret cannot be read ({error})"
    newest = parsed.authorities[0]
    is_own = parsed.leaf.issuer == newest.subject
    if newest.not_valid_after_utc <= now:
        return _fresh(names, now), "the authority has expired"
    if _is_due(newest, now):
        changed = _with_new_authority(material, parsed, now)
        return changed, "the authority is past two thirds of its life"
    is_known = newest.not_valid_before_utc + _BACKDATED + overlap <= now
    is_over = parsed.leaf.not_valid_after_utc <= now
    if _is_due(parsed.leaf, now) and (is_own or is_known or is_over):
        return _reissued(material, parsed, names, now), "it is past two thirds of its life"
    if not covers(parsed.leaf, names):
        return _reissued(material, parsed, names, now), "it is for other names"
    if not is_own and is_known:
        return _reissued(material, parsed, names, now), "the new authority is known now"
    served_for = now - parsed.leaf.not_valid_before_utc - _BACKDATED
    if is_own and len(parsed.authorities) > 1 and served_for >= overlap:
        changed = Material(pem(newest), material.authority_key, material.certificate, material.key)
        return changed, "the old authority is no longer needed"
    return None


def next_check(material: Material, *, now: datetime, overlap: timedelta = _OVERLAP) -> timedelta:
    """Return how long the material stays valid without another check."""
    parsed = _parse(material)
    moments = [_due(parsed.authorities[0]), _due(parsed.leaf)]
    if len(parsed.authorities) > 1:
        moments.append(now + overlap)
    return max(timedelta(0), min(moments) - now)


def _restored(served: Material | None, names: Sequence[str], now: datetime) -> Material:
    """Return what follows lost material: a new CA beside the one that is still served."""
    try:
        parsed = _parse(served) if served is not None else None
    except UNREADABLE:
        parsed = None
    if served is None or parsed is None or _ends(parsed) <= now:
        return _fresh(names, now)
    return _with_new_authority(served, parsed, now)


def _ends(parsed: _Parsed) -> datetime:
    return min(one.not_valid_after_utc for one in (parsed.leaf, parsed.authorities[0]))


def _with_new_authority(material: Material, parsed: _Parsed, now: datetime) -> Material:
    key, certificate = _new_authority(now)
    bundle = pem(certificate) + _without_expired(parsed.authorities, now)
    return Material(bundle, key_pem(key), material.certificate, material.key)


def _fresh(names: Sequence[str], now: datetime) -> Material:
    authority = _new_authority(now)
    key, leaf = make_leaf(authority, names[0], now=now, names=names)
    return Material(pem(authority[1]), key_pem(authority[0]), pem(leaf), key_pem(key))


def _reissued(material: Material, parsed: _Parsed, names: Sequence[str], now: datetime) -> Material:
    authority = parsed.authority_key, parsed.authorities[0]
    key, leaf = make_leaf(authority, names[0], now=now, names=names)
    return Material(material.authorities, material.authority_key, pem(leaf), key_pem(key))


def _new_authority(now: datetime) -> Made:
    chance = x509.random_serial_number() % 2**32  # two CAs of one second differ in their names
    return make_authority(f"webhooks {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} {chance:08x}", now)


def make_authority(name: str, now: datetime) -> Made:
    """Return the key and the certificate of a new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    certificate = (
        _builder(subject, subject, key.public_key(), now, CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def make_leaf(
    authority: Made,
    name: str,
    *,
    now: datetime,
    groups: Sequence[str] = (),
    names: Sequence[str] = (),
    life: timedelta = _LEAF_LIFE,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> Made:
    """Return a key and its certificate from a CA: of a server with names, or of a user."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer, issuer = authority
    identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
        issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    )
    builder = (
        _builder(_name(name[:64], groups), issuer.subject, key.public_key(), now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(identifier, critical=False)
    )
    if names:
        held = x509.SubjectAlternativeName(list(map(_general, names)))
        builder = builder.add_extension(held, critical=False)
    return key, builder.sign(signer, hashes.SHA256())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _parse(material: Material) -> _Parsed:
    authorities = tuple(x509.load_pem_x509_certificates(material.authorities))
    key = serialization.load_pem_private_key(material.authority_key, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an EC key")
    if key.public_key() != authorities[0].public_key():
        raise ValueError("the authority's key is not the key of its certificate")
    authorities[0].extensions.get_extension_for_class(x509.SubjectKeyIdentifier)  # make_leaf does
    leaf = x509.load_pem_x509_certificate(material.certificate)
    if pem(leaf).strip() != material.certificate.strip():
        raise ValueError("there is more than one certificate")  # which OpenSSL would read too
    leaf.extensions  # noqa: B018 - reading them raises if they are damaged
    own = serialization.load_pem_private_key(material.key, password=None)
    if own.public_key() != leaf.public_key():
        raise ValueError("the key is not the key of the certificate")
    if not any(_has_issued(one, leaf) for one in authorities):
        raise ValueError("no authority in the bundle issued the certificate")
    return _Parsed(authorities, key, leaf)


def _has_issued(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (*UNREADABLE, InvalidSignature):
        return False
    return True


def _due(certificate: x509.Certificate) -> datetime:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) * 2 / 3


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    return now >= _due(certificate)


def covers(leaf: x509.Certificate, names: Sequence[str]) -> bool:
    """Return whether a certificate is for all these names."""
    try:
        held = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return set(map(_general, names)) <= set(held)


def _without_expired(certificates: Sequence[x509.Certificate], now: datetime) -> bytes:
    return b"".join(pem(one) for one in certificates if one.not_valid_after_utc > now)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(text: str, groups: Sequence[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate in PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
