"""Abort uploads to an S3-compatible store that were never completed: they are not listed elsewhere.

A worker that is killed in the middle of an object leaves them, and the store keeps and bills them.
The library that reads and writes objects cannot list them, so two requests are made here, signed
with the keys of the store's Secret (AWS Signature Version 4). With the identity of a pod there are
no such keys: a lifecycle rule of the bucket has to do it then.

Errors: `StoreError`, which names the place.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from http.client import HTTPException
from urllib.parse import quote, urlsplit

from msgspec import Struct

from .errors import StoreError

__all__ = ["Bucket", "StoreCredentials", "end_uploads", "signature_of"]

_SECONDS = 30.0
_MOST_BYTES = 4 << 20
_MOST_PAGES = 100
_UPLOAD = re.compile(r"<Upload>(.*?)</Upload>", re.DOTALL)
_EMPTY = hashlib.sha256(b"").hexdigest()


class StoreCredentials(Struct, frozen=True):
    """Keys of a store. Their text form hides them."""

    access_key: str
    secret_key: str

    def __repr__(self) -> str:
        return "StoreCredentials(***)"


class Bucket(Struct, frozen=True):
    """A bucket, and how to reach it; `authority`: certificates in PEM to trust as well."""

    endpoint: str
    region: str
    name: str
    credentials: StoreCredentials
    authority: str = ""


async def end_uploads(bucket: Bucket, folder: str) -> int:
    """Abort all uploads below a folder; return how many there were."""
    ended = 0
    for _ in range(_MOST_PAGES):
        query = {"prefix": f"{folder}/", "uploads": ""}
        page = await asyncio.to_thread(_request, bucket, "GET", "", query)
        found = [(_value(one, "Key"), _value(one, "UploadId")) for one in _UPLOAD.findall(page)]
        found = [(key, upload) for key, upload in found if key.startswith(f"{folder}/")]
        for key, upload in found:
            await asyncio.to_thread(_request, bucket, "DELETE", key, {"uploadId": upload})
        ended += len(found)
        if not found or _value(page, "IsTruncated") != "true":
            break
    return ended


def _value(text: str, name: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return unescape(found[1]) if found is not None else ""


def _request(bucket: Bucket, method: str, key: str, query: Mapping[str, str]) -> str:
    place = urlsplit(bucket.endpoint)
    path = quote(f"{place.path.rstrip('/')}/{bucket.name}/{key}".rstrip("/"), safe="/-_.~")
    text = "&".join(f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in sorted(query.items()))
    headers = signature_of(bucket, method, place.netloc, path, text, now=datetime.now(UTC))
    url = f"{place.scheme}://{place.netloc}{path}?{text}"
    asked = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - http or https
    trusted = ssl.create_default_context() if place.scheme == "https" else None
    if trusted is not None and bucket.authority:
        trusted.load_verify_locations(cadata=bucket.authority)
    try:
        with urllib.request.urlopen(asked, timeout=_SECONDS, context=trusted) as answer:  # noqa: S310
            return str(answer.read(_MOST_BYTES).decode(errors="replace"))
    except urllib.error.HTTPError as error:
        if method == "DELETE" and error.code == 404:
            return ""  # another client ended it
        message = f"{error.code} {error.read(300).decode(errors='replace')}"
        raise StoreError(f"s3://{bucket.name}/{key}: uploads cannot be ended: {message}") from error
    except (OSError, HTTPException) as error:
        raise StoreError(f"s3://{bucket.name}/{key}: uploads cannot be ended: {error}") from error


def signature_of(
    bucket: Bucket, method: str, host: str, path: str, query: str, *, now: datetime
) -> dict[str, str]:
    """Return the signed headers of a request without a body. Pure."""
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": moment}
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    request = "\n".join([method, path, query, *lines, "", names, _EMPTY])
    scope = f"{day}/{bucket.region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
    key = f"AWS4{bucket.credentials.secret_key}".encode()
    for word in (day, bucket.region, "s3", "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    credential = f"{bucket.credentials.access_key}/{scope}"
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, "
        f"Signature={hmac.digest(key, text.encode(), 'sha256').hex()}"
    )
    return headers
