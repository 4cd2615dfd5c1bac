"""Admission and conversion webhooks over HTTPS.

A webhook is one function on values; this module handles the reviews around it. A response is always
a review that the API server understands; a body that is not a review gets 400, a function that
raises gets 500, and the failure policy of the configuration decides what that means.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, assert_never

import msgspec
from aiohttp import web
from msgspec import Struct

from kubecontroller.client.meta import Manifest
from kubecontroller.runtime.logs import bound, fields
from kubecontroller.runtime.server import CannotServe

__all__ = [
    "Admission",
    "AdmissionRequest",
    "Admit",
    "Allowed",
    "Cause",
    "Convert",
    "Denied",
    "Patched",
    "WebhookServer",
]

_log = logging.getLogger(__name__)
_LARGEST_BODY = 16 * 1024 * 1024
# A list of a custom resource arrives in one ConversionReview: with a limit here the kind could not
# be read by any client. The API server itself limits what it stores and lists.
_LARGEST_CONVERSION = 1024 * 1024 * 1024
_LONGEST = 10.0


class AdmissionRequest(Struct, frozen=True, rename="camel"):
    """The operation on an object that is to be admitted."""

    uid: str
    operation: str
    kind: dict[str, str] = {}
    resource: dict[str, str] = {}
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: dict[str, Any] = {}
    object: Manifest | None = None
    old_object: Manifest | None = None
    dry_run: bool | None = None
    options: Manifest | None = None


class Allowed(Struct, frozen=True):
    """The operation is allowed; warnings are shown to the user."""

    warnings: tuple[str, ...] = ()


class Cause(Struct, frozen=True):
    """One field that is wrong, for programs."""

    field: str
    message: str


class Denied(Struct, frozen=True):
    """The operation is denied; the reason is shown to the user."""

    reason: str
    code: int = 403
    causes: tuple[Cause, ...] = ()


class Patched(Struct, frozen=True):
    """The operation is allowed with these changes, a JSON patch."""

    operations: Sequence[dict[str, Any]]
    warnings: tuple[str, ...] = ()


Admission: TypeAlias = Allowed | Denied | Patched
Admit: TypeAlias = Callable[[AdmissionRequest], Awaitable[Admission]]
Convert: TypeAlias = Callable[[Manifest, str], Manifest]
"""Returns an object in another apiVersion; raises `ValueError` with the reason if it cannot."""


class _AdmissionReview(Struct, rename="camel"):
    request: AdmissionRequest
    api_version: str = "admission.k8s.io/v1"


class _ConversionRequest(Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[Manifest]


class _ConversionReview(Struct, rename="camel"):
    request: _ConversionRequest
    api_version: str = "apiextensions.k8s.io/v1"


_ADMISSION = msgspec.json.Decoder(_AdmissionReview)
_CONVERSION = msgspec.json.Decoder(_ConversionReview)


class WebhookServer:
    """Serves webhooks by path. Port 0 takes any free one; `port` then says which.

    `context` may get a new certificate while serving (`certkeeper`). The manager starts this
    before caches: a conversion webhook that is not served blocks the lists that fill them. While
    `is_leaving` is true, connections end after their response: a request on a connection that is
    closed at the same moment would be lost.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        host: str = "0.0.0.0",
        port: int = 9443,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self.port = port
        self._host = host
        self._context = context
        self._app = web.Application(client_max_size=_LARGEST_BODY)

        async def end_connection(_: web.Request, response: web.StreamResponse) -> None:
            if is_leaving():
                response.headers["Connection"] = "close"
                response.force_close()

        self._app.on_response_prepare.append(end_connection)
        self._runner: web.AppRunner | None = None
        self._before: list[Callable[[], Awaitable[object]]] = []

    def before_start(self, step: Callable[[], Awaitable[object]]) -> None:
        """Add a step before serving, such as loading a certificate."""
        self._before.append(step)

    def add_admission(self, path: str, admit: Admit) -> None:
        """Serve a validating or mutating webhook at a path."""

        async def handle(request: web.Request) -> web.Response:
            try:
                review = _ADMISSION.decode(await request.read())
            except msgspec.MsgspecError as error:
                return web.Response(status=400, text=f"not an AdmissionReview: {error}\n")
            asked = review.request
            with bound(webhook=path, namespace=asked.namespace, name=asked.name, uid=asked.uid):
                try:
                    async with asyncio.timeout(_seconds(request)):
                        admission = await admit(asked)
                except TimeoutError:
                    return web.Response(status=504, text="the webhook did not respond in time\n")
                except (Exception, asyncio.CancelledError):
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():
                        raise  # the server stops
                    _log.exception("the webhook raised")
                    return web.Response(status=500, text="the webhook failed; see its log\n")
                if isinstance(admission, Denied):
                    _log.info("denied", extra=fields(reason=admission.reason))
            return _json(_admission_answer(review.api_version, asked, admission))

        self._app.router.add_post(path, handle)

    def add_conversion(self, path: str, convert: Convert) -> None:
        """Serve the conversion webhook of a custom resource at a path."""

        async def handle(request: web.Request) -> web.Response:
            whole = request.clone(client_max_size=_LARGEST_CONVERSION)
            try:
                review = _CONVERSION.decode(await whole.read())
            except msgspec.MsgspecError as error:
                return web.Response(status=400, text=f"not a ConversionReview: {error}\n")
            return _json(_converted(review, convert))

        self._app.router.add_post(path, handle)

    async def start(self) -> None:
        """Begin to serve."""
        for step in self._before:
            await step()
        self._runner = web.AppRunner(
            self._app, access_log=None, handle_signals=False, shutdown_timeout=5.0
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port, ssl_context=self._context)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise CannotServe(
                f"cannot serve webhooks on {self._host}:{self.port}: {error.strerror}. "
                "Choose another port, or 0 for any"
            ) from error
        address: tuple[str, int] = self._runner.addresses[0]
        self.port = address[1]
        _log.info("serving webhooks", extra=fields(host=self._host, port=self.port))

    async def stop(self) -> None:
        """Stop serving, after letting running reviews end."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


def _admission_answer(api_version: str, asked: AdmissionRequest, admission: Admission) -> Manifest:
    answer: Manifest = {"uid": asked.uid, "allowed": True}
    match admission:
        case Allowed(warnings):
            answer["warnings"] = list(warnings)
        case Patched(operations, warnings):
            answer["warnings"] = list(warnings)
            if operations:
                answer["patchType"] = "JSONPatch"
                answer["patch"] = b64encode(msgspec.json.encode(list(operations))).decode()
        case Denied(reason, code, causes):
            answer["allowed"] = False
            answer["status"] = {"message": reason, "code": code, **_details(asked, code, causes)}
        case _:
            assert_never(admission)
    if not answer.get("warnings"):
        answer.pop("warnings", None)
    return {"apiVersion": api_version, "kind": "AdmissionReview", "response": answer}


def _details(asked: AdmissionRequest, code: int, causes: Sequence[Cause]) -> Manifest:
    """Return the details of a response, as the API server has them for fields."""
    if not causes:
        return {}
    listed = [
        {"reason": "FieldValueInvalid", "field": one.field, "message": one.message}
        for one in causes
    ]
    reason = {"reason": "Invalid"} if code == 422 else {}
    named = {"name": asked.name, "group": asked.kind.get("group"), "kind": asked.kind.get("kind")}
    return {**reason, "details": {**{k: v for k, v in named.items() if v}, "causes": listed}}


def _converted(review: _ConversionReview, convert: Convert) -> Manifest:
    asked = review.request
    answer: Manifest = {"uid": asked.uid, "convertedObjects": [], "result": {"status": "Success"}}
    for obj in asked.objects:
        try:
            answer["convertedObjects"].append(convert(obj, asked.desired_api_version))
        except Exception as error:
            if not isinstance(error, ValueError):
                _log.exception("a conversion raised")
            name = (obj.get("metadata") or {}).get("name", "")
            message = f"{obj.get('kind')} {name}: {error}"
            answer |= {
                "convertedObjects": [],
                "result": {"status": "Failure", "message": message},
            }
            break
    return {"apiVersion": review.api_version, "kind": "ConversionReview", "response": answer}


def _seconds(request: web.Request) -> float:
    """Return the timeout of the API server, less a little for the way back."""
    text = request.query.get("timeout", "").removesuffix("s")
    try:
        return max(0.1, float(text) * 0.9)
    except ValueError:
        return _LONGEST


def _json(body: Manifest) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")
