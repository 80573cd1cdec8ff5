"""A root directory in which bitcoind starts and ends, for the tests of cairn-bitcoind-verdict."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from lab.paths import ROOT

SHELLS = ["dash", "busybox sh"]
# how the kernel names the data partition and its disk
MOUNTS = "/dev/root / erofs ro 0 0\n/dev/{} /var ext4 {},noatime 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
LIBRARY = ROOT / "overlay/usr/lib/cairn"
# An image without busybox's tools before others would not show what the image does.
TOOLS = ("awk", "cut", "head", "sed", "tr", "df", "grep", "tail", "wc", "od", "sha256sum", "find")
# What systemd does with cairn-data-look.service
SYSTEMCTL = """#!/bin/sh
case $* in
"start cairn-data-look.service")
	exec {shell} {library}/cairn-data-look --root {root} >{root}/run/cairn/bitcoind.found ;;
esac
echo "$*" >>{root}/asked
"""


@dataclass
class Unit:
    """A root directory in which bitcoind has ended."""

    root: Path
    shell: str = "dash"
    kernel: str = ""
    mounts: str = MOUNTS.format("vda4", "rw")
    free_kib: int = 100_000_000
    addresses: str = "1: lo inet 127.0.0.1/8 scope host lo\n"
    # bitcoin-dbconvert --check: exit status, standard output, standard error
    check: tuple[int, str, str] = (0, "", "chainstate: 7 records are sound\n")
    uptime: float = 100.0
    env: dict[str, str] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """A file below the root directory, whose folder exists."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def rebuild(self) -> Path:
        """The note of an automatic rebuild."""
        return self.path("var/lib/cairn/rebuild")

    @property
    def held(self) -> bool:
        """Whether the unit may not start again."""
        return self.path("run/cairn/bitcoind.hold").exists()

    @property
    def wanted(self) -> bool:
        """Whether the next start rebuilds."""
        return self.path("var/lib/cairn/rebuild-wanted").exists()

    @property
    def refused(self) -> bool:
        """Whether the user's options are left out."""
        return self.path("run/cairn/bitcoind.refused").exists()

    @property
    def report(self) -> str:
        """What the status screen says."""
        report = self.path("run/cairn/bitcoind.report")
        text = report.read_text() if report.exists() else ""
        assert len(text.splitlines()) <= 1
        assert all(" " <= letter <= "~" for letter in text.rstrip("\n"))
        return text

    def _program(self, name: str, text: str) -> str:
        file = self.path(f"bin/{name}")
        file.write_text(text)
        file.chmod(0o755)
        return str(file)

    def run(self, script: str, *arguments: str, both: bool = False, **env: str) -> str:
        """Runs one of the scripts there; what it prints, ``both``: also on standard error."""
        self.path("proc/mounts").write_text(self.mounts)
        self.path("proc/uptime").write_text(f"{self.uptime} 1.0\n")
        self.path("kernel").write_text(f"EXT4-fs (vda4): mounted filesystem\n{self.kernel}\n")
        self.path("var/lib/cairn/x")
        self.path("var/lib/bitcoind/x")
        self.path("run/cairn/x")
        config = self.path("run/bitcoind/bitcoin.conf")
        if not config.exists():
            config.write_text("")
        status, found, error = self.check
        self.path("check.out").write_text(found)
        self.path("check.err").write_text(error)
        self.path("addresses").write_text(self.addresses)
        path = os.environ["PATH"]
        if self.shell.startswith("busybox"):
            for tool in TOOLS:
                link = self.path(f"busybox/{tool}")
                if not link.exists():
                    link.symlink_to("/usr/bin/busybox")
            path = f"{self.root}/busybox:{path}"
        environment = {
            **os.environ,
            "PATH": path,
            "TMPDIR": str(self.root),
            "CAIRN_KERNEL_LOG": str(self.root / "kernel"),
            "CAIRN_NODE_CONFIG": f"touch {self.root}/configured",
            "CAIRN_SYSTEMCTL": self._program(
                "systemctl",
                SYSTEMCTL.format(shell=self.shell, library=LIBRARY, root=self.root),
            ),
            "CAIRN_DBCONVERT": self._program(
                "dbconvert",
                f'#!/bin/sh\necho "$@" >{self.root}/checked\n'
                f"cat {self.root}/check.out\ncat {self.root}/check.err >&2\nexit {status}\n",
            ),
            "CAIRN_DF": self._program(
                "df",
                "#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted\n"
                f"echo /dev/vda4 99 1 {self.free_kib} 1% /var\n",
            ),
            "CAIRN_SLEEP": self._program("sleep", f"#!/bin/sh\necho $1 >>{self.root}/slept\n"),
            **self.env,
            **env,
        }
        environment["CAIRN_IP"] = self._program("ip", f"#!/bin/sh\ncat {self.root}/addresses\n")
        command = [*self.shell.split(), str(LIBRARY / script), "--root", str(self.root), *arguments]
        done = subprocess.run(
            command, check=False, env=environment, capture_output=True, cwd=self.root
        )
        said = done.stdout.decode(errors="replace")
        assert done.returncode == 0, (script, done.returncode, done.stderr)
        if both:
            return said + done.stderr.decode(errors="replace")
        assert not done.stderr, done.stderr
        return said

    def starts(self) -> str:
        """What comes before a start; returns the report."""
        self.run("cairn-bitcoind-look")
        return self.report

    def comes_up(self) -> None:
        """The daemon is up."""
        self.run("cairn-bitcoind-started")

    def ends(
        self, words: str | bytes, result: str = "exit-code", status: str = "1", look: bool = False
    ) -> str:
        """Lets bitcoind end with these words on standard error; returns the report, one line.

        ``look``: also does what comes before the next start.
        """
        text = words if isinstance(words, bytes) else f"{words}\n".encode()
        self.path("run/cairn/bitcoind.stderr").write_bytes(text)
        self.run("cairn-bitcoind-verdict", SERVICE_RESULT=result, EXIT_STATUS=status)
        return self.starts() if look else self.report
