"""Makes keys and certificates. Imported only when one is to be made: it is slow to load."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from kubecontroller.runtime.certificates import (
    CA_LIFE,
    Made,
    key_pem,
    make_leaf,
    pem,
)
from kubecontroller.runtime.certificates import make_authority as new_authority
from kubelocal.apiserver.access.certificates import Pair

__all__ = ["issue_client", "issue_server", "make_authority"]

_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


def make_authority() -> Pair:
    """Return a new certificate authority."""
    return _pair(new_authority("kubelocal", _begin()))


def issue_server(authority: Pair, given: Sequence[str]) -> Pair:
    """Return a certificate for the server at some addresses."""
    names = (*_NAMES, *dict.fromkeys((*given, "127.0.0.1")))
    return _issue(authority, "kube-apiserver", names=names)


def issue_client(authority: Pair, user: str, groups: Sequence[str]) -> Pair:
    """Return a client certificate for a user in some groups."""
    return _issue(authority, user, groups=groups, usage=ExtendedKeyUsageOID.CLIENT_AUTH)


def _issue(authority: Pair, name: str, **more: Any) -> Pair:
    key = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    signer = key, x509.load_pem_x509_certificate(authority.certificate)
    made = make_leaf(signer, name, now=_begin(), life=CA_LIFE, **more)
    return _pair(made)


def _begin() -> datetime:
    """Return when certificates begin to be valid: clocks are set back sometimes."""
    return datetime.now(UTC) - timedelta(hours=1)


def _pair(made: Made) -> Pair:
    key, certificate = made
    return Pair(pem(certificate), key_pem(key))
