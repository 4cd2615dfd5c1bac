"""The objects of a version in a ConfigMap: read as they were written, or not at all."""

from __future__ import annotations

import base64

from redis_operator.install.options import Options
from redis_operator.install.strategy import Strategy, generate, read, written

FILE = "objects.json.gz"


def test_objects_are_read_as_they_were_written() -> None:
    made = generate(Options())
    found = read(written(made))
    assert isinstance(found, Strategy)
    assert found == made


def test_no_damage_of_the_packed_objects_is_an_error() -> None:
    raw = written(generate(Options()))
    packed = base64.b64decode(raw["binaryData"][FILE])
    for place in range(0, len(packed), len(packed) // 200):
        damaged = packed[:place] + bytes([packed[place] ^ 0x10]) + packed[place + 1 :]
        found = read({**raw, "binaryData": {FILE: base64.b64encode(damaged).decode()}})
        # some bytes of the header mean nothing
        assert isinstance(found, str) or (place < 10 and isinstance(found, Strategy)), place
