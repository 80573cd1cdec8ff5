"""Runs a command in a tree that is seen as /mnt/cairn, whatever its own path.

What a build writes of its folder, and of the length of that folder's name, is then the same
everywhere. The command gets a mount namespace of its own, in which the rest of /mnt is hidden, the
host name `cairn` and the umask 022; nothing changes for others. It runs as the same user.

A user makes the namespace inside a user namespace. Where the system does not let ordinary users do
so (Ubuntu 24.04), sudo makes it. `command()` says what to run; this file, run with `--inside`, is
what runs first in the namespace.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

#: Present on each system (FHS), and its mounts are the administrator's own.
BASE = Path("/mnt")
#: The tree, the cache of downloads, and an empty home.
TREE, CACHE, HOME = BASE / "cairn", BASE / "cache", BASE / "home"
#: The system's own folders: what else a user has in PATH is not on every machine.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Beginnings or ends of variables that say how to reach the network: they choose no content, which
#: is checked by sums everywhere.
NETWORK = ("PIP_", "npm_config_", "NPM_CONFIG_", "SSL_CERT_", "GIT_SSL_", "REQUESTS_CA_BUNDLE")


class NamespaceError(Exception):
    """No namespace can be made; the text is a sentence for the user."""


@dataclass
class Place:
    """A tree at its fixed path.

    tree, cache: folders that the command may write to. room: where an empty folder for mounts may
    be made; ROOM.json beside it has, for a moment, what is to be run.
    inputs: name below /mnt and the file or folder that is to be there, read-only.
    """

    tree: Path
    cache: Path
    room: Path
    inputs: dict[str, Path] = field(default_factory=dict)


def of_the_network(environment: dict[str, str]) -> dict[str, str]:
    """Those variables without which the command may not reach the network."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(NETWORK) or name.lower().endswith("_proxy")
    }


def way() -> str:
    """How a namespace can be made here: `root`, `user` or `sudo`. Raises NamespaceError."""
    if os.geteuid() == 0:
        return "root"
    trial = ["unshare", "-rmu", "mount", "-t", "tmpfs", "cairn", str(BASE)]
    if not subprocess.run(trial, check=False, capture_output=True).returncode:
        return "user"
    if shutil.which("sudo") and not subprocess.run(["sudo", "true"], check=False).returncode:
        return "sudo"
    raise NamespaceError(
        "this machine lets no ordinary user make a mount namespace, and sudo is missing or refused;"
        " nothing was built. Run it as root"
    )


def command(place: Place, environment: dict[str, str], words: list[str]) -> list[str]:
    """What to run so that `words` run at the fixed path, with that environment and no other.

    Raises NamespaceError.
    """
    how = way()
    place.room.mkdir(exist_ok=True)
    place.cache.mkdir(parents=True, exist_ok=True)
    base = {"HOME": str(HOME), "PATH": PATH, "CAIRN_CACHE": str(CACHE)}
    orders = {
        "room": str(place.room),
        "writable": {"cairn": str(place.tree), "cache": str(place.cache)},
        "inputs": {name: str(path.resolve()) for name, path in place.inputs.items()},
        "how": how,
        "user": os.getuid(),
        "group": os.getgid(),
        "environment": base | environment,
        "words": words,
    }
    make = {
        "root": ["unshare", "-mu"],
        "user": ["unshare", "-rmu"],
        "sudo": ["sudo", "unshare", "-mu"],
    }[how]
    # Not on the command line, which every user of the machine can read: a token's PIN may be in it.
    file = place.room.with_suffix(".json")
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(orders, stream)
    return [*make, "python3", str(Path(__file__).resolve()), "--inside", str(file)]


def mount(*words: str) -> None:
    """Runs mount; a failure is an exception with its message."""
    subprocess.run(["mount", *words], check=True)


def inside(file: Path) -> None:
    """In the new namespace, as its root: mounts, becomes the user again, runs the command."""
    orders = json.loads(file.read_text())
    file.unlink()
    room = Path(orders["room"])
    mount("--make-rprivate", "/")
    socket.sethostname("cairn")
    # Put together elsewhere: what is mounted on /mnt hides what lies there, the tree perhaps.
    mount("-t", "tmpfs", "-o", "mode=755", "cairn", str(room))
    (room / "home").mkdir()
    if orders["how"] != "user":
        os.chown(room / "home", orders["user"], orders["group"])
    for name, path in orders["writable"].items():
        (room / name).mkdir()
        mount("--rbind", path, str(room / name))
    for name, path in orders["inputs"].items():
        to = room / name
        to.mkdir() if Path(path).is_dir() else to.touch()
        mount("--bind", path, str(to))
        # A user's namespace keeps the flags of the machine's own mount, which are not all known
        # here; where it refuses, what is mounted is as it was outside.
        remount = ["mount", "-o", "remount,bind,ro", str(to)]
        subprocess.run(remount, check=False, capture_output=True)
    mount("--rbind", str(room), str(BASE))
    os.chdir(TREE)
    os.umask(0o022)
    words, user, group = orders["words"], orders["user"], orders["group"]
    if orders["how"] == "user":
        words = ["unshare", "--user", f"--map-user={user}", f"--map-group={group}", *words]
    elif orders["how"] == "sudo":
        os.initgroups(pwd.getpwuid(user).pw_name, group)
        os.setgid(group)
        os.setuid(user)
    os.execvpe(words[0], words, orders["environment"])


if __name__ == "__main__":
    if sys.argv[1:2] != ["--inside"] or len(sys.argv) != 3:
        sys.exit("fixed_path.py is started by support/release")
    try:
        inside(Path(sys.argv[2]))
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"fixed_path.py: the tree cannot be shown at {TREE} ({error}); nothing was run")
