"""The store of backups: a mounted volume, or a bucket. The only module that imports obstore.

Guarantees:
    - An object is there as a whole or not at all.
    - `create` fails where an object is there already.
    - On a volume an object is on disk when a call returns.

Errors: `StoreError`, which names the place.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from .errors import KeyMissing, StoreError
from .seal import Keyring, Seal, key_id_of
from .task import (
    AUTHORITY,
    ENCRYPTION,
    FOLDER,
    KEYS,
    AzurePlace,
    GcsPlace,
    Identity,
    S3Place,
    Store,
)
from .uploads import Bucket, StoreCredentials, end_uploads

if TYPE_CHECKING:  # types that obstore has for checkers alone
    from obstore.store import ClientConfig

__all__ = ["Shelf", "open_shelf"]

_LOG = logging.getLogger(__name__)
_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 3
_READ_BYTES = 4 << 20
_NO_AUTHORITIES = (
    "the worker's image has no certificates of authorities, without which no store is asked: "
    "use the operator's own image, or one with /etc/ssl/certs/ca-certificates.crt"
)


class Shelf:
    """One folder of a store. With a seal, objects that are written in pieces are encrypted."""

    def __init__(
        self,
        store: Any,
        place: str,
        folder: Path | None = None,
        seal: Seal | None = None,
        *,
        identity: Identity | None = None,
        end_uploads: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self.seal = seal
        self._end_uploads = end_uploads
        self.identity = identity  # the backup that is expected there
        self._store = store
        self._place = place
        self._folder = folder  # where it is on a volume

    async def write(self, name: str, chunks: AsyncIterator[bytes]) -> int:
        """Write an object piece by piece; return the size of what was given.

        Without the last piece there is no object.
        """
        size = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                size += len(chunk)
                yield chunk

        written = self.seal.sealed(name, counted()) if self.seal is not None else counted()
        with self._named(name):
            writer = obstore.open_writer_async(
                self._store, name, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
            async with writer:
                async for chunk in written:
                    await writer.write(chunk)
            await self._settle(name)
        return size

    async def create(self, name: str, content: bytes) -> bool:
        """Write a small object; False: there is one of that name."""
        with self._named(name):
            try:
                await obstore.put_async(self._store, name, content, mode="create")
            except AlreadyExistsError:
                return False
            await self._settle(name)
        return True

    async def get(self, name: str) -> bytes | None:
        """Return a small object; None: there is none of that name."""
        with self._named(name):
            try:
                found = await obstore.get_async(self._store, name)
                return bytes(await found.bytes_async())
            except FileNotFoundError:
                return None

    def read(self, name: str) -> AsyncIterator[bytes]:
        """Read an object piece by piece, as it was given to `write`."""
        found = self._read(name)
        return self.seal.opened(name, found) if self.seal is not None else _plain(name, found)

    async def _read(self, name: str) -> AsyncIterator[bytes]:
        with self._named(name):
            meta = await obstore.head_async(self._store, name)
            size = int(meta["size"])
            for start in range(0, size, _READ_BYTES):
                end = min(start + _READ_BYTES, size)
                yield bytes(await obstore.get_range_async(self._store, name, start=start, end=end))

    async def names(self) -> list[str]:
        """Return the names of all objects of the folder."""
        return list(await self.sizes())

    async def sizes(self) -> dict[str, int]:
        """Return the names of all objects of the folder, with their sizes in bytes."""
        with self._named(""):
            found = await obstore.list(self._store).collect_async()
            return {str(meta["path"]): int(meta["size"]) for meta in found}

    async def size(self, name: str) -> int:
        """Return the size of an object in bytes; 0: there is none of that name."""
        with self._named(name):
            try:
                return int((await obstore.head_async(self._store, name))["size"])
            except FileNotFoundError:
                return 0

    async def folders(self) -> list[str]:
        """Return the names of the folders in it that hold objects."""
        with self._named(""):
            found = await obstore.list_with_delimiter_async(self._store)
            return sorted(str(prefix) for prefix in found["common_prefixes"])

    async def delete(self, names: list[str]) -> None:
        """Delete objects; those that are gone already do not matter."""
        for name in names:
            with self._named(name):
                try:
                    await obstore.delete_async(self._store, name)
                except FileNotFoundError:
                    continue

    async def end_uploads(self) -> None:
        """Abort multipart uploads to the folder that were never completed, where possible.

        A failure is logged: no task fails for that, since incomplete uploads are never read.
        """
        if self._end_uploads is None:
            return
        try:
            ended = await self._end_uploads()
        except StoreError as error:
            _LOG.warning("parts of uploads that were never completed may be left: %s", error)
            return
        if ended:
            _LOG.info("%s uploads that were never completed were ended", ended)

    async def remove(self, *, first: str) -> None:
        """Delete the whole folder, one object of it before all others; one that is gone is fine."""
        await self.delete([first])
        await self.delete([name for name in await self.names() if name != first])
        await self.end_uploads()
        if self._folder is not None:
            with self._named(""):  # also what an upload left that never ended
                await asyncio.to_thread(_remove_folder, self._folder)

    @contextmanager
    def _named(self, name: str) -> Any:
        """Add the location to any error."""
        try:
            yield
        except (
            BaseError,
            FileNotFoundError,
            PermissionError,
            NotImplementedError,
            OSError,
        ) as error:
            raise StoreError(f"{self._place}/{name}: {_short(error)}") from error

    async def _settle(self, name: str) -> None:
        if self._folder is not None:
            await asyncio.to_thread(_sync, self._folder / name)


async def _plain(name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the pieces of an object that is not encrypted. Raises `KeyMissing` if it is."""
    first = True
    async for piece in pieces:
        key_id = key_id_of(piece) if first else None
        if key_id is not None:
            raise KeyMissing(
                f"{name} is encrypted with key {key_id}; name the Secret that has it in "
                "encryption.secretName"
            )
        first = False
        yield piece


def _remove_folder(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


def _sync(path: Path) -> None:
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_shelf(
    store: Store,
    *,
    folder: str = FOLDER,
    keys: str = KEYS,
    encryption: str = ENCRYPTION,
    authority: str = AUTHORITY,
    retry_seconds: float = 60.0,
) -> Shelf:
    """Return the folder that a task names."""
    seal = None
    if store.encryption is not None:
        asked = store.encryption
        seal = Seal(Keyring(asked.secret, Path(encryption)), asked.key_id)
    bucket = store.s3 or store.gcs or store.azure
    if bucket is None:
        place = Path(folder) / store.path
        try:
            place.mkdir(parents=True, exist_ok=True)
            made = LocalStore(prefix=place)
        except (OSError, BaseError) as error:
            raise StoreError(f"volume:/{store.path}: {error}") from error
        return Shelf(made, f"volume:/{store.path}", place, seal, identity=store.identity)
    client: ClientConfig = {"allow_http": bucket.endpoint.startswith("http://"), "timeout": "120s"}
    if bucket.ca:
        client["root_certificate"] = _authority(authority, _field(bucket))
    common: dict[str, Any] = {
        "prefix": store.path,
        "client_options": client,
        "retry_config": {"retry_timeout": timedelta(seconds=retry_seconds)},
    }
    where = f"{_address(bucket)}/{store.path}"
    try:
        opened = _opened(bucket, Path(keys), common)
    except (BaseError, ValueError) as error:
        message = _short(error)
        if "No CA certificates" in message:
            message = f"{_NO_AUTHORITIES} ({message})"
        raise StoreError(f"{where}: {message}") from error
    ends = None
    if isinstance(bucket, S3Place):
        ends = _uploads(bucket, store.path, Path(keys), client.get("root_certificate"))
    return Shelf(opened, where, seal=seal, identity=store.identity, end_uploads=ends)


def _uploads(
    bucket: S3Place, folder: str, keys: Path, authority: object
) -> Callable[[], Awaitable[int]] | None:
    """Return the function that aborts uploads to a folder; None: there are no keys for that."""
    region = bucket.region or "us-east-1"
    if not bucket.keys:
        return None
    credentials = StoreCredentials(_key(keys, "accessKeyId"), _key(keys, "secretAccessKey"))
    trusted = authority.decode() if isinstance(authority, bytes) else ""
    endpoint = bucket.endpoint or f"https://s3.{region}.amazonaws.com"
    place = Bucket(endpoint, region, bucket.bucket, credentials, trusted)
    return lambda: end_uploads(place, folder)


def _field(bucket: S3Place | GcsPlace | AzurePlace) -> str:
    """Return the field of a spec that names a bucket."""
    match bucket:
        case S3Place():
            return "storage.s3"
        case GcsPlace():
            return "storage.gcs"
        case AzurePlace():
            return "storage.azure"


def _address(bucket: S3Place | GcsPlace | AzurePlace) -> str:
    """Return the address of a bucket in its usual form."""
    match bucket:
        case S3Place():
            return f"s3://{bucket.bucket}"
        case GcsPlace():
            return f"gs://{bucket.bucket}"
        case AzurePlace():
            return f"az://{bucket.account}/{bucket.container}"


def _opened(
    bucket: S3Place | GcsPlace | AzurePlace, keys: Path, common: dict[str, Any]
) -> S3Store | GCSStore | AzureStore:
    match bucket:
        case S3Place():
            return S3Store(bucket.bucket, **_s3_options(bucket, keys), **common)
        case GcsPlace():
            google: dict[str, Any] = {"base_url": bucket.endpoint} if bucket.endpoint else {}
            if bucket.keys:
                google["service_account_key"] = _key(keys, "credentials.json")
            return GCSStore(bucket.bucket, **google, **common)
        case AzurePlace():
            azure: dict[str, Any] = {"account_name": bucket.account}
            if bucket.endpoint:
                azure["endpoint"] = bucket.endpoint
            if bucket.keys:
                azure["account_key"] = _key(keys, "accountKey")
            return AzureStore(bucket.container, **azure, **common)


def _s3_options(bucket: S3Place, keys: Path) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if bucket.endpoint:
        options |= {"endpoint": bucket.endpoint, "virtual_hosted_style_request": False}
    if bucket.region or bucket.endpoint:
        options["region"] = bucket.region or "us-east-1"
    if bucket.keys:
        options |= {
            "access_key_id": _key(keys, "accessKeyId"),
            "secret_access_key": _key(keys, "secretAccessKey"),
        }
    return options


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:600]


def _authority(path: str, field: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StoreError(
            f"the Secret of {field}.caSecretName does not exist or has no ca.crt: {error}"
        ) from error


def _key(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text().strip()
    except OSError as error:
        raise StoreError(
            f"the Secret with the keys of the store has no key {name}: {error}"
        ) from error
