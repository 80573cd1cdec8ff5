"""A board that QEMU plays: an image, a key, a port for SSH, and play-power as its power switch.

    .venv/bin/python -m tests.board.played DIR [IMAGE]

makes one in DIR and prints the words that `make robot` takes for it.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab import boards
from lab.machine import Machine, run_host
from lab.paths import OUT, ROOT

IMAGE = OUT / "devimage/cairn-dev.img"
SSH_PORT = 18722
#: The suites' feeder (tests/robot/resources/node.resource)
FEEDER_PORT = 18655
#: Where the guest reaches this machine, as support/qemu has it.
FEEDER = "10.0.2.100:8333"


@dataclass(frozen=True)
class Played:
    """One such board."""

    directory: Path
    ssh_port: int = SSH_PORT

    def make(self, image: Path = IMAGE, conf: str = "") -> None:
        """A fresh copy of the image whose node.conf has a new key, and ``conf``. It is off."""
        self.switch("off")
        machine = Machine()
        machine.new_disk(image.resolve(), self.directory, "8G")
        key = self.directory / "key"
        run_host("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "play", "-f", str(key))
        public = key.with_suffix(".pub").read_text()
        machine.put_node_conf(f"sshkey={public}{conf}".encode())
        machine.sockets.rmdir()
        options = ["--ssh", str(self.ssh_port), "--feeder", str(FEEDER_PORT)]
        # On a busy host, emulated processors wait for each other, systemd's moving lines on the
        # console take half of their time, and after a reset Linux was seen to take the timer for a
        # broken one.
        options += ["--smp", "1", "--append", "no_timer_check systemd.show_status=no"]
        if board := boards.of_image(image):  # the copy's name does not say it
            options += ["--board", board.name]
        (self.directory / "options").write_text("".join(f"{word}\n" for word in options))

    def switch(self, state: str) -> None:
        """Switches it on or off. Raises AssertionError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        subprocess.run([*self.power, state], check=True, cwd=ROOT)

    @property
    def power(self) -> list[str]:
        """The command for its power, without its last word."""
        return [str(ROOT / "tests/board/play-power"), str(self.directory)]

    def words(self) -> dict[str, str]:
        """What its owner says about it; the environment of `make robot`."""
        return {
            "BOARD_HOST": f"127.0.0.1:{self.ssh_port}",
            "BOARD_KEY": str(self.directory / "key"),
            "BOARD_POWER": " ".join(f"'{word}'" for word in self.power),
            "BOARD_SERIAL": str(self.directory / "serial"),
        }


def main() -> None:
    """Makes one, and says how it is tested."""
    played = Played(Path(sys.argv[1]).resolve())
    played.make(Path(sys.argv[2]) if len(sys.argv) > 2 else IMAGE)
    played.switch("on")
    print("\n".join(f'{name}="{value}"' for name, value in played.words().items()))


if __name__ == "__main__":
    main()
