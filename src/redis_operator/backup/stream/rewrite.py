"""Make the times to live of an old stream absolute. Pure.

Redis before 7 replicates `SET key value PX 2000` unchanged. In a replay, keys would expire 2 s
after the replay, and expired ones would exist again.
"""

from __future__ import annotations

import hiredis

from redis_operator.redis.resp import encode

from .scan import StreamDamaged

__all__ = ["Rewriter", "absolute", "says_relative"]

_UNITS = {b"EX": 1000, b"PX": 1}


def says_relative(engine: str, version: str) -> bool:
    """Whether streams of this version hold relative times to live."""
    return engine == "redis" and int(version.split(".", 1)[0]) < 7


def absolute(words: list[bytes], now: int) -> list[bytes]:
    """Return the command with its time to live as a moment; `now` in milliseconds since 1970."""
    name = words[0].upper()
    if name in (b"SET", b"GETEX"):
        options = 3 if name == b"SET" else 2
        for place in range(options, len(words) - 1):
            unit = _UNITS.get(words[place].upper())
            if unit is not None:
                moment = now + int(words[place + 1]) * unit
                return [*words[:place], b"PXAT", b"%d" % moment, *words[place + 2 :]]
        return words
    if name in (b"SETEX", b"PSETEX") and len(words) == 4:
        moment = now + int(words[2]) * (1000 if name == b"SETEX" else 1)
        return [b"SET", words[1], words[3], b"PXAT", b"%d" % moment]
    if name in (b"EXPIRE", b"PEXPIRE") and len(words) >= 3:
        moment = now + int(words[2]) * (1000 if name == b"EXPIRE" else 1)
        return [b"PEXPIREAT", words[1], b"%d" % moment, *words[3:]]
    if name in (b"RESTORE", b"RESTORE-ASKING") and len(words) >= 4:
        options_said = {word.upper() for word in words[4:]}
        if int(words[2]) > 0 and b"ABSTTL" not in options_said:
            return [*words[:2], b"%d" % (now + int(words[2])), *words[3:], b"ABSTTL"]
    return words


_TIMED = frozenset(
    {b"SET", b"GETEX", b"SETEX", b"PSETEX", b"EXPIRE", b"PEXPIRE", b"RESTORE", b"RESTORE-ASKING"}
)


class Rewriter:
    """Rewrites a stream piece by piece; each piece with the time at which it arrived.

    With `relative` times to live are made absolute. What a server in mode Cluster says about slots
    is left out: a server without slots refuses it.
    """

    def __init__(self, *, relative: bool) -> None:
        self._timed = _TIMED if relative else frozenset[bytes]()
        self._reader = hiredis.Reader()

    def feed(self, piece: bytes, now: int) -> bytes:
        """Return the commands that this piece completes. Raises `StreamDamaged`."""
        self._reader.feed(piece)
        made = []
        try:
            while (words := self._reader.gets()) is not False:
                if not isinstance(words, list) or not words:
                    raise StreamDamaged("the stream holds something else than commands")
                name = words[0].upper()
                if name == b"CLUSTER":
                    continue
                made.append(encode(absolute(words, now) if name in self._timed else words))
        except (hiredis.ProtocolError, ValueError) as error:
            raise StreamDamaged(f"the stream cannot be read: {error}") from error
        return b"".join(made)
