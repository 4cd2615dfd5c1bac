"""The checksum of dump payloads: CRC-64 with the polynomial of Jones, reflected, from zero. Pure.

`RESTORE` and `FUNCTION RESTORE` refuse a payload without it. A loop over bytes takes 90 ns for each
byte, and this takes about ten: many payloads are reduced at once, by shifts of one large number.

Payloads stand side by side, with zeros before the shorter ones, which change nothing: byte k of all
of them is one row of the number. Modulo 2 the polynomial P(x) to the eighth power is P(x^8), so a
remainder by that needs shifts by whole bytes alone, that is by whole rows, and is the same modulo
P(x). The first rows are so added to later ones until some 64 are left, which go through a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

__all__ = ["crc64", "crc64_all"]

_DEGREE: Final = 64
_NATURAL: Final = 0xAD93D23594C935A9  # the polynomial without its first term
_REFLECTED: Final = int(f"{_NATURAL:064b}"[::-1], 2)
_FEW_BYTES: Final = 4096  # of so few, all together, a loop is faster
_AT_ONCE: Final = 1 << 19
_LAST_ROWS: Final = 96
_SLACK: Final = 24


@cache
def _table() -> list[int]:
    """Return the contribution of each byte."""
    found = []
    for number in range(256):
        left = number
        for _ in range(8):
            left = left >> 1 ^ (_REFLECTED if left & 1 else 0)
        found.append(left)
    return found


@cache
def _columns() -> list[bytes]:
    """Return the table as eight, one for each byte of a checksum, the lowest first."""
    return [bytes(entry >> shift & 0xFF for entry in _table()) for shift in range(0, 64, 8)]


def crc64(content: bytes) -> int:
    """Return the checksum of one payload."""
    table, crc = _table(), 0
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


def crc64_all(contents: Sequence[bytes]) -> list[int]:
    """Return the checksums of payloads."""
    found = [0] * len(contents)
    classes: dict[int, list[int]] = {}
    for number, content in enumerate(contents):
        classes.setdefault(_rows(len(content)), []).append(number)
    for rows, numbers in classes.items():
        most = max(1, _AT_ONCE // rows)
        for first in range(0, len(numbers), most):
            chosen = numbers[first : first + most]
            some = [contents[number] for number in chosen]
            few = rows * len(some) < _FEW_BYTES
            sums = map(crc64, some) if few else _side_by_side(some, rows)
            for number, crc in zip(chosen, sums, strict=True):
                found[number] = crc
    return found


def _rows(size: int) -> int:
    """Return the padded size of a payload: a power of two, or one and a half."""
    power = 1 << max(size - 1, _LAST_ROWS).bit_length()
    return power * 3 // 4 if size <= power * 3 // 4 else power


def _side_by_side(contents: list[bytes], rows: int) -> list[int]:
    width = len(contents)
    joined = b"".join([content.rjust(rows, b"\0") for content in contents])
    turned = b"".join([joined[row::rows] for row in range(rows)]) if width > 1 else joined
    number, bits, left = int.from_bytes(turned, "little"), 8 * width, rows
    for count, places in _plan(rows):
        first = number & (1 << count * bits) - 1
        number >>= count * bits
        for place in places:
            number ^= first << place * bits
        left -= count
    crc = 0
    for row in range(left):
        index = ((number >> row * bits ^ crc) & (1 << bits) - 1).to_bytes(width, "little")
        added = b"".join([index.translate(column) for column in _columns()])
        crc = crc >> bits ^ int.from_bytes(added, "little")
    sums = crc.to_bytes(8 * width, "little")
    return [int.from_bytes(sums[lane::width], "little") for lane in range(width)]


@cache
def _plan(rows: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return how many rows are taken away in each step, and to which of the others each is added.

    With y for x^8, y^d leaves some terms y^e below y^64: the row at the top is added to those
    d - e after it. Any d will do that keeps them inside; the one with the fewest terms is taken.
    """
    steps = []
    while rows > _LAST_ROWS:
        count = max(1, (rows - _DEGREE - _SLACK) // 2)
        lowest = count + _DEGREE
        terms, distance = _power(lowest), lowest
        best, chosen = terms, distance
        while distance < rows - count:
            distance += 1
            terms = _times_x(terms)
            if terms.bit_count() < best.bit_count():
                best, chosen = terms, distance
        places = tuple(chosen - e - count for e in range(_DEGREE) if best >> e & 1)
        steps.append((count, places))
        rows -= count
    return tuple(steps)


def _times_x(terms: int) -> int:
    terms <<= 1
    return terms ^ (1 << _DEGREE | _NATURAL) if terms >> _DEGREE else terms


def _power(exponent: int) -> int:
    """Return the remainder of x to a power."""
    found = 1
    for bit in f"{exponent:b}":
        found = _squared(found)
        if bit == "1":
            found = _times_x(found)
    return found


def _squared(terms: int) -> int:
    found, power = 0, 1
    for place in range(_DEGREE):
        if terms >> place & 1:
            found ^= power
        power = _times_x(_times_x(power))
    return found
