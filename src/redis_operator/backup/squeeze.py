"""zstd, by the module that Python has from 3.14 on, or its backport; only this module imports
it."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["Compressor", "Decompressor"]


class Compressor:
    """Makes one frame with a checksum, piece by piece."""

    def __init__(self, level: int) -> None:
        parameters = zstd.CompressionParameter
        self._made = zstd.ZstdCompressor(
            options={parameters.compression_level: level, parameters.checksum_flag: 1}
        )

    def compress(self, piece: bytes) -> bytes:
        """Take a piece in; return what can be written already."""
        return self._made.compress(piece)

    def flush(self) -> bytes:
        """Return the end of the frame."""
        return self._made.flush()


class Decompressor:
    """Decompresses one frame in limited steps: a few bytes may expand to more than fits in
    memory."""

    def __init__(self) -> None:
        self._made = zstd.ZstdDecompressor()

    @property
    def needs_input(self) -> bool:
        """Whether all that was given has been returned."""
        return self._made.needs_input

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""
        return self._made.eof

    def decompress(self, piece: bytes, most: int) -> bytes:
        """Return at most so many bytes. Raises `ValueError` where this is not such a frame."""
        try:
            return self._made.decompress(piece, most)
        except (zstd.ZstdError, EOFError) as error:
            raise ValueError(str(error)) from error
