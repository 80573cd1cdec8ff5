"""Files with holes: what of them is data, and zeros where data were."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

#: Bytes of zeros that are written at once
ZERO_BYTES = 1 << 20


def data(file: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each part of a file descriptor's file, between two places, that is no hole.

    Raises OSError.
    """
    while begin < end:
        try:
            begin = os.lseek(file, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # no data behind
        hole = os.lseek(file, begin, os.SEEK_HOLE)
        if begin < end:
            yield begin, min(hole, end)
        begin = hole


def write_zeros(file: int, begin: int, end: int) -> None:
    """Zeros between two places of a file; holes stay holes. Raises OSError."""
    for first, last in data(file, begin, end):
        for offset in range(first, last, ZERO_BYTES):
            os.pwrite(file, bytes(min(ZERO_BYTES, last - offset)), offset)
