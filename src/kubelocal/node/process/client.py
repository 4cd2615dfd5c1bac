"""The agent's client of the keeper: the only module of local mode that starts programs.

Guarantees: started processes continue when the agent ends, and the next agent finds them again;
when the keeper dies its processes are ended, reported as killed, and a new keeper is started.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from kubelocal.node.errors import KeeperError, StartError
from kubelocal.node.process.keeper.children import mark_of, read_name
from kubelocal.node.process.keeper.family import Family, start_ticks

__all__ = ["Description", "Ended", "ProcessList", "Processes", "Running", "version_line"]

_PACKET = 1 << 20
_MOST_IDENTITIES = 500  # in one packet
_START_DEADLINE = 30.0
_REQUEST_DEADLINE = 60.0
_LOOK_AGAIN = 0.005
_START_PAUSE = 0.2
_GONE_WITHIN = 10.0
_RESTART_PAUSE = 1.0
_log = logging.getLogger(__name__)
_KEEPER = (  # the first step detaches it, so that it has no parent
    "import os; os.fork() and os._exit(0); import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from kubelocal.node.process.keeper.main import main; "
    "sys.exit(main(sys.argv[1], int(sys.argv[2])))"
)


class Running(Struct, frozen=True):
    """A started process: its pid and start time together identify it."""

    pid: int
    started: int


class Ended(Struct, frozen=True):
    """How a process ended; `lost` when it was killed because its keeper died."""

    code: int
    finished: int
    lost: bool = False


class ProcessList(Struct, frozen=True):
    """The processes of the keeper: running ones, and ended ones that were not forgotten yet."""

    running: Mapping[str, Running]
    ended: Mapping[str, Ended]


class Description(Struct, frozen=True, kw_only=True):
    """Everything needed to start a process; stored on disk beside its container.

    `isolation` is `none`, `mount` or `user`; `tree` is described in `keeper.namespaces`; `join_id`
    names a running container whose mount tree to enter; a `guest` is a command in another
    container. `paths` are the mount paths that were replaced by others, for later commands. `user`
    holds `uid`, `gid` and `groups`, where the process is to run as another user.
    """

    id: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str = "/"
    isolation: str = "none"
    tree: Mapping[str, Any] | None = None
    join_id: str | None = None
    guest: bool = False
    tty: bool = False
    log: str | None = None
    log_limit: int = 10 * 1024 * 1024
    log_files: int = 2
    cgroups: Sequence[str] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    user: Mapping[str, Any] | None = None
    no_new_privileges: bool = False
    capabilities: Sequence[int] | None = None  # that root may have; None: all of its own

    @classmethod
    def read(cls, path: Path) -> Description | None:
        """Read a stored description, or None when there is none."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError):
            return None

    def write(self, path: Path) -> None:
        """Write it where only this user can read it: the environment may contain secrets."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(msgspec.json.encode(self))


def version_line(program: Path) -> str:
    """Return the first line of `PROGRAM --version`; raise StartError when it cannot run."""
    try:
        done = subprocess.run(
            [str(program), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StartError("exec", 0, f"{program} --version did not end within 5 s") from None
    except OSError as error:
        raise StartError("exec", error.errno or 0, f"{program}: {error.strerror}") from None
    text = (done.stdout or done.stderr).decode(errors="replace").strip()
    if done.returncode != 0:
        raise StartError(
            "exec", 0, f"{program} --version ended with {done.returncode}: {text or 'no output'}"
        )
    return text.splitlines()[0] if text else ""


def _take_lock(folder: Path) -> int | None:
    """Take the lock that every keeper of a folder holds, or return None when there is one.

    The process that starts a keeper takes it and passes it on, so that a keeper is known to exist
    from its first step on: there is never a second one, and none is overlooked.
    """
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return lock


def _detach(folder: Path, lock: int) -> subprocess.Popen[bytes]:
    """Start a keeper; return the process that starts it and ends at once."""
    source = Path(__file__).parents[3]
    with (folder / "keeper.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _KEEPER, str(source), str(folder), str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            pass_fds=(lock,),
        )


class Processes:
    """A connection to the keeper of one folder, which is started when there is none.

    There is one connection at a time, and none after `close`, `quit` or an `open` that failed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket: socket.socket | None = None
        self._sequence = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ends: dict[str, asyncio.Future[Ended]] = {}
        self._running: dict[str, Running] = {}
        self._restarting: asyncio.Task[None] | None = None
        self._gone: asyncio.Event | None = None
        self._quitting = False
        self._is_open = False
        self._is_closed = False

    def has_work(self) -> bool:
        """Return whether a keeper runs here or is being started, or died and left processes."""
        if not self._folder.exists():
            return False
        lock = _take_lock(self._folder)
        if lock is None:
            return True
        os.close(lock)
        running = self._folder / "run"
        return running.exists() and any(running.iterdir())

    async def open(self) -> None:
        """Connect to the keeper, after starting it if necessary."""
        self._is_closed = self._is_open = False
        await self._reach()
        self._is_open = True

    async def _reach(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        started = False
        try:
            async with asyncio.timeout(_START_DEADLINE):
                while not (self._connect() and await self._greet()):
                    started = await self._start_keeper(again=started) or started
        except TimeoutError:
            self._disconnect()
            raise KeeperError(
                f"the keeper of {self._folder} did not respond within {_START_DEADLINE:.0f} s; "
                f"its log is {self._folder / 'keeper.log'}"
            ) from None
        except BaseException:
            self._disconnect()
            raise

    async def _greet(self) -> bool:
        """Check that a keeper responds: one that is ending still accepts connections."""
        try:
            await self._ask("ping", (), {})
        except KeeperError:
            self._disconnect()
            return False
        return True

    async def _start_keeper(self, *, again: bool) -> bool:
        """Start a keeper, unless there is one that does not listen yet, or any more."""
        lock = _take_lock(self._folder)
        if lock is None:
            await asyncio.sleep(_LOOK_AGAIN)
            return False
        try:
            if again:  # the one before it ended at once
                await asyncio.sleep(_START_PAUSE)
            starting = _detach(self._folder, lock)
        finally:
            os.close(lock)
        try:
            while True:
                if starting.poll() is not None:
                    return True
                await asyncio.sleep(_LOOK_AGAIN)
        finally:
            if starting.poll() is None:
                starting.kill()
                starting.wait()

    def _connect(self) -> bool:
        """Connect to a listening keeper; an earlier connection is closed."""
        self._disconnect()
        if self._is_closed:
            raise KeeperError("the connection to the keeper was closed")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.setblocking(False)
            place = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                connection.connect(f"/proc/self/fd/{place}/socket")
            finally:
                os.close(place)
        except OSError:
            connection.close()
            return False
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self._receive)
        return True

    def _receive(self) -> None:
        assert self._socket is not None
        while True:
            try:
                packet, passed, _, _ = socket.recv_fds(
                    self._socket, _PACKET, 1, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:
                packet, passed = b"", []
            if not packet:
                self._lost()
                return
            message = msgspec.json.decode(packet)
            for descriptor in passed:
                with os.fdopen(descriptor, "rb") as handle:
                    handle.seek(0)
                    message["list"] = handle.read()
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if "seq" in message:
            answer = self._answers.pop(message["seq"], None)
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        end = Ended(message["code"], message["finished"])
        self._announce(message["ended"], end)

    def _announce(self, identity: str, end: Ended) -> None:
        future = self._ends.get(identity)
        if future is not None and not future.done():
            future.set_result(end)

    def _lost(self) -> None:
        """Handle the end of the keeper: fail pending requests; a new one ends what is left."""
        self._disconnect()
        self._fail_answers("the keeper died")
        if self._gone is not None:
            self._gone.set()
        if not self._quitting and self._is_open:
            self._is_open = False
            self._restarting = asyncio.ensure_future(self._restart())

    def _fail_answers(self, reason: str) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(KeeperError(reason))
        self._answers.clear()

    async def _restart(self) -> None:
        """Start a keeper, with retries until one responds: without it no pod can be served."""
        while True:
            try:
                await self._reach()
                listed = _read_listing(await self._ask("list", (), {}))
                await asyncio.to_thread(self._end_lost, listed)
                await self._ask("ping", (), {})  # it may have died meanwhile
                break
            except (KeeperError, OSError) as error:
                _log.warning("the keeper cannot be started again, will retry: %s", error)
                self._disconnect()
                await asyncio.sleep(_RESTART_PAUSE)
        self._is_open = True
        for identity, future in self._ends.items():
            if identity not in listed.running and not future.done():
                lost = Ended(137, 0, lost=True)
                future.set_result(listed.ended.get(identity, lost))

    def _end_lost(self, listed: ProcessList) -> None:
        """End what a dead keeper could not record: the new one does not know it by its pid."""
        for identity, one in list(self._running.items()):
            if identity not in listed.running and start_ticks(one.pid) == one.started:
                Family(mark_of(read_name(str(self._folder)), identity), leader=one.pid).end()

    def _disconnect(self) -> None:
        if self._socket is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    async def _request(
        self, verb: str, descriptors: Sequence[int] = (), **fields: Any
    ) -> dict[str, Any]:
        """Send a request to the keeper; idempotent ones are repeated when the keeper dies.

        Errors: KeeperError, also when the keeper could not do it; a failed start is an answer.
        """
        await self._wait_restarted()
        try:
            answer = await self._ask(verb, descriptors, fields)
        except KeeperError:
            if verb in ("start", "quit") or self._restarting is None:
                raise
            await self._wait_restarted()
            answer = await self._ask(verb, descriptors, fields)
        if "error" in answer and verb != "start":
            raise KeeperError(f"the keeper could not {verb}: {answer['error']['message']}")
        return answer

    async def _wait_restarted(self) -> None:
        if self._restarting is not None:
            await asyncio.wait({self._restarting})

    async def _ask(
        self, verb: str, descriptors: Sequence[int], fields: dict[str, Any]
    ) -> dict[str, Any]:
        if self._socket is None:
            raise KeeperError("not connected to the keeper")
        self._sequence += 1
        sequence = self._sequence
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[sequence] = answer
        packet = msgspec.json.encode({"verb": verb, "seq": sequence, **fields})
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            async with asyncio.timeout(_REQUEST_DEADLINE):
                await self._send(packet, passed if descriptors else [])
                return await answer
        except TimeoutError:
            raise KeeperError(f"the keeper did not respond to {verb!r} in time") from None
        finally:
            self._answers.pop(sequence, None)

    async def _send(self, packet: bytes, passed: list[tuple[int, int, array.array[int]]]) -> None:
        while self._socket is not None:
            try:
                self._socket.sendmsg([packet], passed)
            except BlockingIOError:
                await asyncio.sleep(0.001)
            except OSError as error:
                if error.errno == errno.EMSGSIZE:
                    raise KeeperError(
                        f"a request of {len(packet)} bytes is too large for the keeper"
                    ) from error
                self._lost()
                raise KeeperError(f"the keeper cannot be reached: {error.strerror}") from error
            else:
                return

    async def start(self, spec: Path, descriptors: Sequence[int] = ()) -> Running:
        """Start a written `Description`; `descriptors` replace the log, as 0, 1 and 2.

        Errors: StartError with the stage at which it failed.
        """
        answer = await self._request("start", descriptors, spec=str(spec))
        if "error" in answer:
            error = answer["error"]
            raise StartError(error["stage"], error["errno"], error["message"])
        running = Running(answer["pid"], answer["started"])
        if "id" in answer:  # a keeper of an earlier version does not say it
            self._running[answer["id"]] = running
        return running

    def watch(self, identity: str) -> asyncio.Future[Ended]:
        """Return the future end of a process. Call it before `start`, or after `list_processes`."""
        future = self._ends.get(identity)
        if future is None:
            future = self._ends[identity] = asyncio.get_running_loop().create_future()
        return future

    def unwatch(self, identity: str) -> None:
        """Stop waiting for a process that never started, or whose end was handled."""
        self._ends.pop(identity, None)
        self._running.pop(identity, None)

    async def signal(self, identity: str, number: int = signal.SIGTERM) -> bool:
        """Send a signal to a process; return whether it still existed."""
        return bool((await self._request("signal", id=identity, signal=number))["sent"])

    async def kill(self, identity: str) -> None:
        """Kill a process and all its descendants."""
        await self._request("kill", id=identity)

    async def list_processes(self) -> ProcessList:
        """Return the running and the ended processes.

        Errors: KeeperError when there is no list; what runs is unknown then.
        """
        listed = _read_listing(await self._request("list"))
        self._running = dict(listed.running)
        return listed

    async def forget(self, identities: Sequence[str]) -> None:
        """Drop the keeper's records of ended processes whose end was stored."""
        for first in range(0, len(identities), _MOST_IDENTITIES):
            batch = list(identities[first : first + _MOST_IDENTITIES])
            await self._request("forget", ids=batch)

    def begin_quitting(self) -> None:
        """Do not restart the keeper when it ends."""
        self._quitting = True

    def close(self) -> None:
        """Disconnect from the keeper; processes continue."""
        self._quitting = self._is_closed = True
        if self._restarting is not None:
            self._restarting.cancel()
        self._disconnect()
        self._fail_answers("the connection to the keeper was closed")

    async def quit(self) -> None:
        """Kill everything and end the keeper; return when it is gone."""
        self._quitting = True
        self._gone = asyncio.Event()
        try:
            with contextlib.suppress(KeeperError, TimeoutError):
                await self._request("quit")
                if self._socket is not None:
                    await asyncio.wait_for(self._gone.wait(), _GONE_WITHIN)
        finally:
            self.close()


class _Listing(msgspec.Struct, frozen=True):
    running: dict[str, Running]
    ended: dict[str, Ended | None]


def _read_listing(answer: dict[str, Any]) -> ProcessList:
    if "list" not in answer:
        reason = answer.get("error", {}).get("message", "it sent none")
        raise KeeperError(f"the keeper cannot list its processes: {reason}")
    listing = msgspec.json.decode(answer["list"], type=_Listing)
    ended = {identity: end for identity, end in listing.ended.items() if end is not None}
    return ProcessList(listing.running, ended)
