"""The keeper's loop: requests from the agent, output of children, ends of children.

One packet is one JSON message. A request carries `seq` and gets one response, to its sender, with
the same `seq`; ends are announced as `{"ended": ID, ...}` to all connected peers, and stay on disk
until the agent sends `forget`. Messages wait while the buffer of a peer is full; a peer that leaves
too many unread is disconnected, and reads the whole list when it connects again. A list may be
larger than a packet and must not need space on the disk: it is passed as a file in memory.

What cannot be written to disk is kept in memory, and written when it can be.
"""

# ruff: noqa: PTH101, PTH103
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from . import namespaces, spawn
from .children import (
    Child,
    end_strays,
    forget,
    mark_of,
    read_name,
    read_record,
    write_record,
)
from .family import MARK, start_ticks
from .logfile import LogFile

__all__ = ["Keeper", "main"]

_PACKET = 1 << 20
_FAIR_SHARE = 16
_RETRY_SECONDS = 1.0
_MOST_UNREAD = 100_000


class _Message(NamedTuple):
    """A message for a peer, and a descriptor that is passed with it."""

    text: bytes
    passed: int | None

    def send(self, peer: socket.socket) -> None:
        socket.send_fds(peer, [self.text], [] if self.passed is None else [self.passed])

    def close(self) -> None:
        if self.passed is not None:
            os.close(self.passed)


class Keeper:
    """Parent of all pod processes.

    Guarantees: a start is confirmed only when the program runs or could not; the end of a container
    ends its whole family before it is announced; no end is forgotten before the agent requests it.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._name = read_name(folder)
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, Child] = {}
        self._by_identity: dict[str, Child] = {}
        self._peers: dict[socket.socket, deque[_Message]] = {}  # each with its pending messages
        self._unwritten: dict[str, dict[str, Any]] = {}  # records by path
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._asking: socket.socket
        self._stopping = False
        self._verbs: dict[str, Callable[[dict[str, Any], list[int]], dict[str, Any] | None]] = {
            "start": self._start,
            "signal": self._signal,
            "kill": self._kill,
            "list": self._list,
            "ping": lambda *_: {},
            "forget": self._forget,
            "quit": self._quit,
        }

    def serve(self, listener: socket.socket) -> None:
        """Serve until a quit request."""
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(wake, selectors.EVENT_READ, lambda: self._reap(wake))
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))
        while not self._stopping:
            self._take_turn(None)

    def _take_turn(self, timeout: float | None) -> None:
        """Handle all ready events, in the order of their arrival.

        An earlier event may close the descriptor of a later one in the same turn, and open another
        under its number: that one was not ready.
        """
        now = time.monotonic()
        due = [work for instant, work in self._later if instant <= now]
        self._later = [entry for entry in self._later if entry[0] > now]
        for work in due:
            work()
        pauses = [max(instant - now, 0.0) for instant, _ in self._later]
        for key, _ in self._selector.select(min(pauses) if timeout is None and pauses else timeout):
            if self._selector.get_map().get(key.fd) is key:
                key.data()

    def _soon(self, work: Callable[[], None]) -> None:
        """Do something after a pause, for which something was lacking now."""
        self._later.append((time.monotonic() + _RETRY_SECONDS, work))

    def _store(self, path: str, record: dict[str, Any]) -> None:
        """Write a record, now or as soon as it is possible."""
        try:
            write_record(path, record)
        except OSError as error:
            if not self._unwritten:
                _log(f"{path} cannot be written, will retry: {error}")
                self._soon(self._write_records)
            self._unwritten[path] = record

    def _write_records(self) -> None:
        waiting, self._unwritten = self._unwritten, {}
        for path, record in waiting.items():
            self._store(path, record)

    def _discard(self, path: str) -> None:
        """Remove a record, written or not."""
        self._unwritten.pop(path, None)
        forget(path)

    def leave(self) -> None:
        """Close the connections to all peers."""
        for peer in list(self._peers):
            self._drop(peer)

    def _accept(self, listener: socket.socket) -> None:
        peer, _ = listener.accept()
        peer.setblocking(False)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PACKET)
        self._peers[peer] = deque()
        self._selector.register(peer, selectors.EVENT_READ, lambda: self._turn(peer))

    def _turn(self, peer: socket.socket) -> None:
        self._flush(peer)
        if peer in self._peers:
            self._receive(peer)

    def _receive(self, peer: socket.socket) -> None:
        try:
            packet, passed, _, _ = peer.recvmsg(_PACKET, socket.CMSG_SPACE(3 * 4))
        except BlockingIOError:
            return
        except OSError:
            packet, passed = b"", []
        descriptors = _descriptors(passed)
        if not packet:
            self._drop(peer)
        else:
            self._serve(peer, packet, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _serve(self, peer: socket.socket, packet: bytes, descriptors: list[int]) -> None:
        """Handle one request; an error must not end the keeper and all its pods."""
        sequence: Any = None
        try:
            request = json.loads(packet)
            sequence = request["seq"]
            self._asking = peer
            answer = self._verbs[request["verb"]](request, descriptors)
        except Exception as error:
            answer = {"error": {"stage": "keeper", "errno": 0, "message": repr(error)}}
        if answer is not None:
            self._answer(peer, {"seq": sequence, **answer})

    def _drop(self, peer: socket.socket) -> None:
        self._selector.unregister(peer)
        for message in self._peers.pop(peer):
            message.close()
        peer.close()

    def _answer(
        self, peer: socket.socket, message: dict[str, Any], passed: int | None = None
    ) -> None:
        """Send a message, with a descriptor that is closed afterwards."""
        answer = _Message(json.dumps(message).encode(), passed)
        unread = self._peers.get(peer)
        if unread is None:
            answer.close()
            return
        unread.append(answer)
        if len(unread) > _MOST_UNREAD:
            self._drop(peer)
        else:
            self._flush(peer)

    def _flush(self, peer: socket.socket) -> None:
        """Send pending messages to a peer, as far as its buffer has space."""
        unread = self._peers[peer]
        while unread:
            try:
                unread[0].send(peer)
            except BlockingIOError:
                break
            except OSError:
                while unread:  # it is gone, as the next read will show
                    unread.popleft().close()
                break
            unread.popleft().close()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if unread else 0)
        key = self._selector.get_key(peer)
        if key.events != wanted:
            self._selector.modify(peer, wanted, key.data)

    def _start(self, request: dict[str, Any], passed: list[int]) -> dict[str, Any] | None:
        spec = read_record(request["spec"])
        if spec is None:
            return {"error": {"stage": "keeper", "errno": 0, "message": "no such description"}}
        identity = str(spec["id"])
        if spec.get("join_id"):
            host = self._by_identity.get(spec["join_id"])
            if host is None or host.exited:
                message = f"container {spec['join_id']} is not running"
                return {"error": {"stage": "join", "errno": 3, "message": message}}
            spec["join"] = host.pid
        # Processes that a guest leaves behind end with the container.
        spec["env"][MARK] = mark_of(self._name, spec.get("join_id") or identity)
        log: LogFile | None = None
        reading: dict[int, str] = {}
        standard = tuple(passed)
        if not passed:
            log = LogFile(spec["log"], limit=spec["log_limit"], kept=spec["log_files"])
            standard, reading = _pipes()
        failure, report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            pid = spawn.fork(spec, (standard[0], standard[1], standard[2]), report)
        except OSError:
            for descriptor in (failure, *reading):
                os.close(descriptor)
            if log is not None:
                log.close()
            raise
        finally:
            for descriptor in (report, *(() if passed else standard)):
                os.close(descriptor)
        child = Child(
            identity,
            pid,
            spec,
            start_ticks(pid) or 0,
            mark_of(self._name, identity),
            log=log,
            pipes=reading,
        )
        self._children[pid] = child
        self._by_identity[identity] = child
        self._record(child)
        for descriptor in reading:
            self._watch_output(child, descriptor)
        seq, peer = request["seq"], self._asking
        child.report = lambda: self._started(child, failure, seq, peer)
        self._selector.register(failure, selectors.EVENT_READ, child.report)
        return None

    def _record(self, child: Child) -> None:
        if not child.is_container:
            return  # a guest ends with its container, by its mark
        record = {
            "pid": child.pid,
            "started": child.started,
            "cgroups": child.spec.get("cgroups", []),
        }
        self._store(f"{self._folder}/run/{child.identity}", record)

    def _watch_output(self, child: Child, descriptor: int) -> None:
        def more() -> None:
            if not child.drain(descriptor, most=_FAIR_SHARE):
                self._close_pipe(child, descriptor)

        self._selector.register(descriptor, selectors.EVENT_READ, more)

    def _close_pipe(self, child: Child, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        del child.pipes[descriptor]

    def _started(self, child: Child, failure: int, seq: int, peer: socket.socket) -> None:
        child.report = None
        text = os.read(failure, 65536).decode(errors="replace")
        self._selector.unregister(failure)
        os.close(failure)
        if text:
            stage, number, message = text.split("\0", 2)
            child.spec["failed"] = True
            answer: dict[str, Any] = {
                "error": {"stage": stage, "errno": int(number), "message": message}
            }
        else:
            if child.spec["isolation"] != "none" and child.is_container and not child.exited:
                child.hold_tree()
            answer = {"pid": child.pid, "started": child.started}
        if child.is_container:
            outcome = f"failed: {text!r}" if text else f"pid={child.pid}"
            _log(f"started container={child.identity} {outcome}")
        self._answer(peer, {"seq": seq, **answer})

    def _signal(self, request: dict[str, Any], _: list[int]) -> dict[str, Any]:
        child = self._by_identity.get(request["id"])
        if child is None or child.exited:
            return {"sent": False}
        os.kill(child.pid, int(request["signal"]))
        return {"sent": True}

    def _kill(self, request: dict[str, Any], _: list[int]) -> dict[str, Any]:
        child = self._by_identity.get(request["id"])
        if child is not None and not child.exited:
            child.end_family(self._sessions_beside(child))
            self._reap(None)  # the sender may list next, and must not find it running
        return {}

    def _sessions_beside(self, child: Child) -> set[int]:
        """The sessions of other containers: a process in one of them does not belong to this one.

        Guests count as its own: the processes that they leave behind are found by the mark.
        """
        return {
            pid
            for pid, other in self._children.items()
            if other is not child and other.is_container
        }

    def _list(self, request: dict[str, Any], _: list[int]) -> None:
        self._reap(None)
        running = {
            child.identity: {"pid": child.pid, "started": child.started}
            for child in self._children.values()
        }
        ended = {
            identity: read_record(f"{self._folder}/ended/{identity}")
            for identity in os.listdir(f"{self._folder}/ended")
        }
        prefix = f"{self._folder}/ended/"
        for path, record in self._unwritten.items():
            if path.startswith(prefix):
                ended[path.removeprefix(prefix)] = record
        with os.fdopen(os.memfd_create("list"), "w") as handle:
            json.dump({"running": running, "ended": ended}, handle)
            handle.flush()
            self._answer(self._asking, {"seq": request["seq"]}, os.dup(handle.fileno()))

    def _forget(self, request: dict[str, Any], _: list[int]) -> dict[str, Any]:
        for identity in request["ids"]:
            self._discard(f"{self._folder}/ended/{identity}")
        return {}

    def _quit(self, _: dict[str, Any], __: list[int]) -> dict[str, Any]:
        _log(f"quitting processes={len(self._children)}")
        for child in list(self._children.values()):
            child.end_family()
        self._reap(None)
        self._end_orphans()
        self._stopping = True
        return {}

    def _end_orphans(self) -> None:
        """Kill detached processes that are only known as children of this process."""
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as handle:
                orphans = [int(pid) for pid in handle.read().split()]
        except OSError:
            return
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)

    def _reap(self, wake: int | None) -> None:
        if wake is not None:
            try:
                os.read(wake, 4096)
            except BlockingIOError:
                return
        while True:
            try:
                end = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if end is None:
                return
            child = self._children.pop(end.si_pid, None)
            if child is not None and child.is_container:
                child.exited = True
                child.end_family(self._sessions_beside(child))
            os.waitpid(end.si_pid, 0)
            if child is not None:
                killed = end.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
                self._finish(child, 128 + end.si_status if killed else end.si_status)

    def _finish(self, child: Child, code: int) -> None:
        child.exited = True
        if child.report is not None:
            child.report()  # a process that never started has not ended
        child.release_tree()
        for descriptor in list(child.pipes):
            child.drain(descriptor, most=1024)
            self._close_pipe(child, descriptor)
        if child.log is not None:
            child.log.close()
        self._by_identity.pop(child.identity, None)
        record: dict[str, Any] = {"code": code, "finished": time.time_ns()}
        if child.is_container and not child.spec.get("failed"):
            self._store(f"{self._folder}/ended/{child.identity}", record)
        if child.is_container:
            _log(f"ended container={child.identity} code={code}")
            self._discard(f"{self._folder}/run/{child.identity}")
        for peer in list(self._peers):
            self._answer(peer, {"ended": child.identity, **record})


def _log(text: str) -> None:
    """Write a line to the keeper's log; on a full disk only the line is lost."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    line = f"{stamp}.{int(now % 1 * 1000):03d}Z INFO    {text}\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode(errors="replace"))


def _descriptors(passed: list[tuple[int, int, bytes]]) -> list[int]:
    numbers = array.array("i")
    for _, _, payload in passed:
        numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
    return list(numbers)


def _pipes() -> tuple[tuple[int, int, int], dict[int, str]]:
    """Return a container's standard descriptors, and the ends to read with their names."""
    nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    out, out_end = os.pipe2(os.O_CLOEXEC)
    err, err_end = os.pipe2(os.O_CLOEXEC)
    for reading in (out, err):
        os.set_blocking(reading, False)
    return (nothing, out_end, err_end), {out: "stdout", err: "stderr"}


def main(folder: str, lock: int) -> int:
    """Run the keeper of one folder; its lock was taken by the process that started this."""
    os.set_inheritable(lock, False)
    for name in ("run", "ended"):
        os.makedirs(f"{folder}/{name}", mode=0o700, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    namespaces.become_subreaper()
    _log(f"keeper started pid={os.getpid()}")
    end_strays(folder, read_name(folder))
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    address = f"/proc/self/fd/{place}/socket"  # the path of a socket may have at most 107 bytes
    forget(f"{folder}/socket")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    os.chmod(f"{folder}/socket", 0o600)
    listener.listen(8)
    with contextlib.suppress(OSError):  # it only tells people which process it is
        write_record(f"{folder}/keeper", {"pid": os.getpid(), "started": start_ticks(os.getpid())})
    gc.collect()
    gc.freeze()  # constant objects are not copied for every child
    keeper = Keeper(folder)
    keeper.serve(listener)
    forget(f"{folder}/socket")
    forget(f"{folder}/keeper")
    listener.close()
    os.close(lock)
    keeper.leave()  # from here on, a peer may start another keeper
    return 0
