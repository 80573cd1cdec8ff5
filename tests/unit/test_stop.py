"""cairn-bitcoind-stop: asks once, waits, reports progress."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.hostile.rights import stranger, superuser

# A clock that goes when the script sleeps. After 4 s more is written; after 13 s the daemon may
# end, and the clock stands.
DATE = "#!/bin/sh\ncat {folder}/clock\n"
SLEEP = """#!/bin/sh
now=$(($(cat {folder}/clock) + $1))
if [ $now -eq 4 ]; then echo "write_bytes: 7340032" >{io}; fi
if [ $now -gt 13 ]; then
	touch {folder}/end
	exec {sleep} 0.05
fi
echo $now >{folder}/clock
"""
NOTIFY = '#!/bin/sh\necho "$@" >>{folder}/notified\n'


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_waits_for_the_end_and_reports(root: Path, tmp_path: Path, shell: str, watch: bool) -> None:
    """The daemon gets one SIGTERM; each time it has written more, more time is asked for.

    One that stops by itself is only watched.
    """
    daemon = subprocess.Popen(
        [
            "/bin/sh",
            "-c",
            f"trap 'echo asked >>{tmp_path}/asked' TERM; touch {tmp_path}/ready; "
            f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done",
        ]
    )
    written = tmp_path / f"proc/{daemon.pid}/io"
    written.parent.mkdir(parents=True)
    written.write_text("rchar: 1\nwrite_bytes: 5242880\ncancelled_write_bytes: 0\n")
    (tmp_path / "clock").write_text("0\n")
    (tmp_path / "bin").mkdir()
    for name, text in {"date": DATE, "sleep": SLEEP, "systemd-notify": NOTIFY}.items():
        program = tmp_path / "bin" / name
        program.write_text(text.format(folder=tmp_path, io=written, sleep=shutil.which("sleep")))
        program.chmod(0o755)
    while not (tmp_path / "ready").exists():  # asked before, it would end at once
        assert daemon.poll() is None
        time.sleep(0.1)
    script = str(root / "overlay/usr/lib/cairn/cairn-bitcoind-stop")
    stop = subprocess.Popen(
        [
            *(*shell.split(), script, "--root", str(tmp_path)),
            *(["--watch"] if watch else []),
            str(daemon.pid),
        ],
        env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    daemon.wait(30)
    said, _ = stop.communicate(timeout=10)
    assert stop.returncode == 0
    notified = (tmp_path / "notified").read_text()
    assert notified.count("EXTEND_TIMEOUT_USEC=900000000") == 2
    if watch:
        assert not (tmp_path / "asked").exists()
        assert len(notified.splitlines()) == 2
        assert said == ""
        return
    assert (tmp_path / "asked").read_text() == "asked\n"
    assert "7 MiB written, 10 s; do not pull the plug" in notified
    assert said == "stopping for 10 s, 7 MiB written since start\n"


def test_already_gone(root: Path) -> None:
    """A daemon that has ended by itself is no error."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    script = root / "overlay/usr/lib/cairn/cairn-bitcoind-stop"
    assert subprocess.run([str(script), str(gone.pid)], check=False).returncode == 0
    # systemd then leaves $MAINPID away; an error would start the daemon again.
    assert subprocess.run([str(script)], check=False).returncode == 0


def test_of_a_daemon_that_is_confined(root: Path) -> None:
    """The kernel tells the script how much a daemon in a user namespace of its own has written.

    ``PrivateUsers=`` gives one to each program of the unit, so the script runs outside of that.
    """
    unit = (root / "overlay/usr/lib/systemd/system/bitcoind.service").read_text()
    assert "PrivateUsers=yes" in unit.splitlines()
    (prefix,) = re.findall(r"(?m)^ExecStop=(.*?)/usr/lib/cairn/cairn-bitcoind-stop ", unit)
    apart = [*superuser(), *stranger()[0], "unshare", "--user"]
    confined = [] if "+" in prefix else apart
    daemon = subprocess.Popen(
        [*apart, "sh", "-c", "echo $$; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout
    pid = int(daemon.stdout.readline())
    seen = subprocess.run(
        [*confined, "awk", "/^write_bytes:/ { print $2 }", f"/proc/{pid}/io"],
        check=False,
        capture_output=True,
        text=True,
    )
    daemon.communicate("end\n", timeout=10)
    assert seen.returncode == 0, seen.stderr
    assert seen.stdout.strip().isdigit()


def test_of_a_daemon_that_nobody_stops(root: Path) -> None:
    """By RPC, say: the unit has the daemon itself start the watch, of the process that it is."""
    unit = (root / "overlay/usr/lib/systemd/system/bitcoind.service").read_text()
    notify = re.findall(r"-shutdownnotify='([^']*)'", unit)
    (watch,) = [command for command in notify if "cairn-bitcoind-stop" in command]
    # Core waits for the command's end, so it goes to the background. "$$": a dollar sign.
    assert watch == "/usr/lib/cairn/cairn-bitcoind-stop --watch $$PPID &"
    # As Core does: system(3). What stands for the script says its argument.
    command = watch.replace("$$", "$").replace("/usr/lib/cairn/cairn-bitcoind-stop", "echo")
    core = [
        "python3",
        "-c",
        "import os, sys; print(os.getpid(), flush=True); os.system(sys.argv[1])",
    ]
    said = subprocess.run([*core, command], check=True, capture_output=True, text=True).stdout
    pid, told = said.splitlines()
    assert told == f"--watch {pid}"
