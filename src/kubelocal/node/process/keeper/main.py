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

import contextlib
import gc
import json
import os
import resource
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from . import namespaces
from .children import Child, end_strays, mark_of, read_name, start_child
from .family import MARK, start_ticks
from .packets import Message, descriptors_of
from .records import Records, forget, read_record, write_record
from .reserve import Reserve

__all__ = ["Keeper", "main"]

_PACKET = 1 << 20
_FAIR_SHARE = 16
_RETRY_SECONDS = 1.0
_AFTER_ERROR_SECONDS = 0.1  # an event whose handling fails comes again at once
_MOST_UNREAD = 100_000


class Keeper:
    """Parent of all pod processes.

    Guarantees: a start is confirmed only when the program runs or could not; the end of a container
    ends its whole family before it is announced; no end is forgotten before the agent requests it.
    """

    def __init__(self, folder: str, *, files: int | None = None) -> None:
        self._folder = folder
        self._files = files  # how many a container may open, unless its description says it
        self._reserve = Reserve()
        self._name = read_name(folder)
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, Child] = {}
        self._by_identity: dict[str, Child] = {}
        self._peers: dict[socket.socket, deque[Message]] = {}  # each with its pending messages
        self._records = Records(retry=self._soon, log=_log)
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
        self._listen(listener)
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
            self._attempt(work)
        pauses = [max(instant - now, 0.0) for instant, _ in self._later]
        for key, _ in self._selector.select(min(pauses) if timeout is None and pauses else timeout):
            if self._selector.get_map().get(key.fd) is key:
                self._attempt(key.data)

    def _attempt(self, work: Callable[[], None]) -> None:
        """Do a part of a turn; an error must not end the keeper and all its pods."""
        try:
            work()
        except Exception:
            import traceback  # noqa: PLC0415 - almost never needed, and every start waits for it

            _log(f"an error of the keeper, which continues: {traceback.format_exc()}")
            time.sleep(_AFTER_ERROR_SECONDS)

    def _soon(self, work: Callable[[], None]) -> None:
        """Do something after a pause, for which something was lacking now."""
        self._later.append((time.monotonic() + _RETRY_SECONDS, work))

    def leave(self) -> None:
        """Close the connections to all peers."""
        self._reserve.close()
        for peer in list(self._peers):
            self._drop(peer)

    def _accept(self, listener: socket.socket) -> None:
        try:
            self._reserve.fill()
            peer, _ = listener.accept()
        except OSError as error:
            _log(f"no connection can be accepted, will retry: {error}")
            self._selector.unregister(listener)
            self._soon(lambda: self._listen(listener))
            return
        peer.setblocking(False)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PACKET)
        self._peers[peer] = deque()
        self._selector.register(peer, selectors.EVENT_READ, lambda: self._turn(peer))

    def _listen(self, listener: socket.socket) -> None:
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))

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
        descriptors = descriptors_of(passed)
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
        answer = Message(json.dumps(message).encode(), passed)
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
        self._reserve.fill()
        spec = read_record(request["spec"])
        if spec is None:
            message = f"the description {request['spec']} cannot be read"
            return {"error": {"stage": "keeper", "errno": 0, "message": message}}
        identity = str(spec["id"])
        if spec.get("join_id"):
            host = self._by_identity.get(spec["join_id"])
            if host is None or host.exited:
                message = f"container {spec['join_id']} is not running"
                return {"error": {"stage": "join", "errno": 3, "message": message}}
            spec["join"] = host.pid
        # Processes that a guest leaves behind end with the container.
        spec["env"][MARK] = mark_of(self._name, spec.get("join_id") or identity)
        if self._files is not None:
            spec.setdefault("limits", {}).setdefault("NOFILE", self._files)
        child, failure = start_child(spec, passed, mark_of(self._name, identity))
        self._children[child.pid] = child
        self._by_identity[identity] = child
        # An error after this must not make it forgotten: it runs until the agent has it killed.
        seq, peer = request["seq"], self._asking
        child.report = lambda: self._started(child, failure, seq, peer)
        with self._reserve.in_use():
            child.started = start_ticks(child.pid) or 0
            self._record(child)
        for descriptor in child.pipes:
            self._watch_output(child, descriptor)
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
        self._records.store(f"{self._folder}/run/{child.identity}", record)

    def _watch_output(self, child: Child, descriptor: int) -> None:
        def more() -> None:
            if not child.drain(descriptor, most=_FAIR_SHARE):
                self._close_pipe(child, descriptor)

        self._selector.register(descriptor, selectors.EVENT_READ, more)

    def _close_pipe(self, child: Child, descriptor: int) -> None:
        self._close(descriptor)
        del child.pipes[descriptor]

    def _close(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError):  # where its start went wrong
            self._selector.unregister(descriptor)
        os.close(descriptor)

    def _started(self, child: Child, failure: int, seq: int, peer: socket.socket) -> None:
        child.report = None
        text = os.read(failure, 65536).decode(errors="replace")
        self._close(failure)
        if text:
            stage, number, message = text.split("\0", 2)
            child.spec["failed"] = True
            answer: dict[str, Any] = {
                "error": {"stage": stage, "errno": int(number), "message": message}
            }
        else:
            if child.spec["isolation"] != "none" and child.is_container and not child.exited:
                child.hold_tree()
            if not self._has_host(child):
                child.end_family()  # its container ended before it had the mark
            answer = {"id": child.identity, "pid": child.pid, "started": child.started}
        if child.is_container:
            outcome = f"failed: {text!r}" if text else f"pid={child.pid}"
            _log(f"started container={child.identity} {outcome}")
        self._answer(peer, {"seq": seq, **answer})

    def _has_host(self, child: Child) -> bool:
        """Return whether the container of a guest runs; true for all that is not a guest of one."""
        name = child.spec.get("join_id")
        host = self._by_identity.get(name) if name else child
        return child.exited or (host is not None and not host.exited)

    def _signal(self, request: dict[str, Any], _: list[int]) -> dict[str, Any]:
        child = self._by_identity.get(request["id"])
        if child is None or child.exited:
            return {"sent": False}
        os.kill(child.pid, int(request["signal"]))
        return {"sent": True}

    def _kill(self, request: dict[str, Any], _: list[int]) -> dict[str, Any]:
        child = self._by_identity.get(request["id"])
        if child is not None and not child.exited:
            with self._reserve.in_use():
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
        with self._reserve.in_use():
            self._send_list(request["seq"])

    def _send_list(self, sequence: int) -> None:
        self._reap(None)
        running = {
            child.identity: {"pid": child.pid, "started": child.started}
            for child in self._children.values()
        }
        ended = {
            identity: read_record(f"{self._folder}/ended/{identity}")
            for identity in os.listdir(f"{self._folder}/ended")
        }
        ended |= self._records.unwritten(f"{self._folder}/ended/")
        with os.fdopen(os.memfd_create("list"), "w") as handle:
            json.dump({"running": running, "ended": ended}, handle)
            handle.flush()
            self._answer(self._asking, {"seq": sequence}, os.dup(handle.fileno()))

    def _forget(self, request: dict[str, Any], _: list[int]) -> dict[str, Any]:
        for identity in request["ids"]:
            self._records.discard(f"{self._folder}/ended/{identity}")
        return {}

    def _quit(self, _: dict[str, Any], __: list[int]) -> dict[str, Any]:
        _log(f"quitting processes={len(self._children)}")
        with self._reserve.in_use():
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
        try:
            with self._reserve.in_use():
                self._reap_all()
        except OSError as error:
            _log(f"ended processes cannot be handled, will retry: {error}")
            self._soon(lambda: self._reap(None))

    def _reap_all(self) -> None:
        """Handle all ends; one whose family cannot be ended stays, as a zombie, for the next."""
        while True:
            try:
                end = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if end is None:
                return
            child = self._children.get(end.si_pid)
            if child is not None and child.is_container:
                child.exited = True
                child.end_family(self._sessions_beside(child))
            os.waitpid(end.si_pid, 0)
            self._children.pop(end.si_pid, None)
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
            self._records.store(f"{self._folder}/ended/{child.identity}", record)
        if child.is_container:
            _log(f"ended container={child.identity} code={code}")
            self._records.discard(f"{self._folder}/run/{child.identity}")
        for peer in list(self._peers):
            self._answer(peer, {"ended": child.identity, **record})


def _log(text: str) -> None:
    """Write a line to the keeper's log; on a full disk only the line is lost."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    line = f"{stamp}.{int(now % 1 * 1000):03d}Z INFO    {text}\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode(errors="replace"))


def _raise_limit() -> int:
    """Let this process open as many files as it may; return how many it could before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def main(folder: str, lock: int) -> int:
    """Run the keeper of one folder; its lock was taken by the process that started this."""
    os.set_inheritable(lock, False)
    for name in ("run", "ended"):
        os.makedirs(f"{folder}/{name}", mode=0o700, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    namespaces.become_subreaper()
    files = _raise_limit()
    _log(f"keeper started pid={os.getpid()}")
    end_strays(folder, read_name(folder))
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    address = f"/proc/self/fd/{place}/socket"  # the path of a socket may have at most 107 bytes
    forget(f"{folder}/socket")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    os.chmod(f"{folder}/socket", 0o600)
    listener.listen(8)
    with contextlib.suppress(OSError):  # it is only for people who look for the process
        write_record(f"{folder}/keeper", {"pid": os.getpid(), "started": start_ticks(os.getpid())})
    gc.collect()
    gc.freeze()  # constant objects are not copied for every child
    keeper = Keeper(folder, files=files)
    keeper.serve(listener)
    forget(f"{folder}/socket")
    forget(f"{folder}/keeper")
    listener.close()
    os.close(lock)
    keeper.leave()  # from here on, a peer may start another keeper
    return 0
