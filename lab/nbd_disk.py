"""nbdkit plugin (Python): a disk image behind a volatile write cache.

    PYTHONPATH=. nbdkit -U SOCKET python lab/nbd_disk.py image=FILE [parameter...]

It runs in nbdkit's own Python, which knows nothing of .venv: no package but this one is used.

  image=FILE    raw disk image; must exist
  control=PATH  UNIX socket for commands, below
  seed=N        seed of what a cut leaves, default 0
  lies=yes      flushes are acknowledged and ignored: a broken card, the negative control
  unit=4096     bytes that the disk writes as one, default 512
  cache=BYTES   size of the cache, default 64 MiB
  trace=FILE    writes down all requests (see request_trace.py); complete after a cut

Commands, one line each, answered by one line of JSON:
  cut POLICY    the power fails: no request is served any more, the outcome is written to
                the image, and nbdkit ends. Policies: keep-all, drop-all, drop-some, reorder,
                torn (see volatile_cache.py)
  stats         number of flushes, unflushed sectors and requests so far
  mark TEXT     a mark in the trace: TEXT is true from here on, whatever happens to the power
  lies yes|no   from now on flushes are ignored, or not
Anything else is answered by {"error": sentence}.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import socketserver
import threading
from pathlib import Path

import nbdkit

from lab.request_trace import Writer
from lab.volatile_cache import CACHE_BYTES, SECTOR, VolatileCache

API_VERSION = 2

_parameters: dict[str, str] = {}
_lock = threading.Lock()
_disk: VolatileCache  # since config_complete(), before nbdkit asks for anything
_trace: Writer | None = None
_off = False


def config(key: str, value: str) -> None:
    """One parameter of the command line."""
    if key not in {"image", "control", "seed", "lies", "unit", "cache", "trace"}:
        raise RuntimeError(f"unknown parameter '{key}'; see the head of nbd_disk.py")
    # Now: the server runs in another folder.
    _parameters[key] = str(Path(value).resolve()) if key in {"image", "control", "trace"} else value


def config_complete() -> None:
    """Opens the image, so that a wrong one is reported before anything starts."""
    global _disk, _trace
    if "image" not in _parameters:
        raise RuntimeError("give the disk image: image=FILE")
    _disk = VolatileCache(
        _parameters["image"],
        int(_parameters.get("seed", "0")),
        lies=_parameters.get("lies", "no") == "yes",
        unit=int(_parameters.get("unit", SECTOR)),
        capacity=int(_parameters.get("cache", CACHE_BYTES)),
    )
    if path := _parameters.get("trace"):
        _trace = Writer(path)


def thread_model() -> int:
    """One request at a time: the order is part of what is modelled."""
    return int(nbdkit.THREAD_MODEL_SERIALIZE_ALL_REQUESTS)


class _Control(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answers commands until the other end has none."""
        global _off
        for line in self.rfile:
            word, _, argument = line.decode().strip().partition(" ")
            with _lock:
                if word == "cut" and not _off:
                    try:
                        answer = dataclasses.asdict(_disk.cut(argument))
                        _off = True
                        if _trace:
                            _trace.close()
                    except ValueError as error:
                        answer = {"error": str(error)}
                elif word == "stats":
                    answer = {
                        "flushes": _disk.flushes,
                        "sectors": len(_disk.cache),
                        "writes": _disk.serial,
                    }
                elif word == "mark" and _trace and not _off:
                    _trace.mark(argument)
                    answer = {}
                elif word == "lies" and argument in {"yes", "no"}:
                    _disk.lies = argument == "yes"
                    answer = {"lies": argument}
                else:
                    answer = {"error": f"unknown command '{word}', or the power is off"}
            self.wfile.write(json.dumps(answer).encode() + b"\n")
            if _off:
                nbdkit.shutdown()
                return


def after_fork() -> None:
    """Threads live in the process that serves."""
    if path := _parameters.get("control"):
        Path(path).unlink(missing_ok=True)
        server = socketserver.ThreadingUnixStreamServer(path, _Control)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()


def open(readonly: bool) -> int:
    """A connection; there is one disk for all."""
    return 1


def get_size(_handle: int) -> int:
    """Bytes."""
    return _disk.size


def can_fua(_handle: int) -> int:
    """FUA is a property of each write here, not a flush after it."""
    return int(nbdkit.FUA_NATIVE)


def can_multi_conn(_handle: int) -> bool:
    """All connections see the same cache."""
    return True


def _check_power() -> None:
    if _off:
        nbdkit.set_error(errno.EIO)
        raise RuntimeError("the power is off")


def pread(_handle: int, buffer: bytearray, offset: int, _flags: int) -> None:
    """Reads the newest content."""
    with _lock:
        _check_power()
        buffer[:] = _disk.read(offset, len(buffer))


def pwrite(_handle: int, buffer: bytearray, offset: int, flags: int) -> None:
    """Writes to the cache, or with FUA to the medium."""
    with _lock:
        _check_power()
        data, fua = bytes(buffer), bool(flags & nbdkit.FLAG_FUA)
        if _trace:
            _trace.write(offset, data, fua=fua)
        _disk.write(offset, data, fua=fua)


def zero(_handle: int, count: int, offset: int, flags: int) -> None:
    """Writes zeros."""
    with _lock:
        _check_power()
        fua = bool(flags & nbdkit.FLAG_FUA)
        if _trace:
            _trace.zero(offset, count, fua=fua)
        _disk.zero(offset, count, fua=fua)


def trim(_handle: int, _count: int, _offset: int, _flags: int) -> None:
    """The content of what is trimmed is undefined: the old one will do."""
    with _lock:
        _check_power()


def flush(_handle: int, _flags: int) -> None:
    """What was written is on the medium."""
    with _lock:
        _check_power()
        if _trace:
            _trace.flush()
        _disk.flush()
