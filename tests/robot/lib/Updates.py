"""Robot Framework library: bundles, the server and the stick that they come from, and restarts.

Bundles are made of the image under test (lab/updates.py), and signed with the keys that
support/bundle takes. On the Raspberry Pi's image the firmware's part, which QEMU does not have, is
played by lab/pi_firmware.py: it says after each restart whose kernel is started.
"""

from __future__ import annotations

import http.server
import os
import re
import shlex
import shutil
import threading
import time
from functools import partial
from pathlib import Path

from robot.api import logger
from robot.api.deco import keyword, library

from lab import boards, fat, updates
from lab.machine import run_host
from lab.parsing import partition_offset
from lab.paths import ROOT
from lab.pi_firmware import PiFirmware
from lab.under_test import Need
from tests.robot.lib.session import session
from tests.shared.certificates import new_certificate

FOLDER = ROOT / "out/robot/updates"
#: What Linux says at the end, with the argument that the loader gets
RESTART = "Restarting system with command '"
#: What RAUC looks for on a node, and what it looks for when it makes a bundle
PURPOSE = ("-addext", "extendedKeyUsage=codeSigning,emailProtection")
#: Seconds that a silent server holds a connection: longer than RAUC waits (300 s, its src/nbd.c)
SILENCE = 900
#: Seconds since the start that allow an update (overlay/usr/lib/cairn/update.sh)
OLD_ENOUGH = "4000.00 8000.00"


class Server(http.server.SimpleHTTPRequestHandler):
    """Files with ranges, as RAUC asks for them; whole, slowly, or half of a file's bytes.

    Half: connections end from then on. Silent: they stay, and nothing comes any more. Mute: they
    stay, and nothing ever comes.
    """

    def __init__(self, *args: object, sent: list[int], manner: str = "", **words: object) -> None:
        """``manner``: "", slow (500 kB a second), half, silent or mute. ``sent``: bytes so far."""
        self.manner = manner
        self.sent = sent
        super().__init__(*args, **words)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        """Not each of a bundle's hundred pieces."""

    def do_GET(self) -> None:
        """A file, or the part that is asked for."""
        if self.manner == "mute":
            time.sleep(SILENCE)
            return
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        begin, end = 0, size - 1
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last or end), end)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(end - begin + 1))
        self.send_header("Content-Range", f"bytes {begin}-{end}/{size}")
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        with path.open("rb") as file:
            file.seek(begin)
            left = end - begin + 1
            while left:
                if sum(self.sent) > size // 2:
                    if self.manner == "silent":
                        time.sleep(SILENCE)
                    if self.manner in ("half", "silent"):
                        return
                part = file.read(min(left, 50_000))
                self.wfile.write(part)
                self.sent.append(len(part))
                left -= len(part)
                if self.manner == "slow":
                    time.sleep(0.1)


def image_under_test() -> tuple[Path, boards.Board]:
    """The image under test, and the board that it is for."""
    image = Path(session.variable("IMAGE", "")).resolve()
    board = boards.of_image(image)
    assert board, f"{image} is no image of a board; give one with IMAGE="
    return image, board


def choose_slot(board: boards.Board, argument: str = "") -> None:
    """Sets the slot that the virtual machine's next start boots, where no loader is run there.

    ``argument``: of the restart; none is that of a power cut. Raises NothingBootsError.
    """
    if board.meta["QEMU_FIRMWARE"]:
        return
    machine = session.virtual
    offset = partition_offset(run_host("sfdisk", "--json", str(machine.image)), "boot")
    # The board's own loader does not look at all files, either; mtools would stop at the first
    # that a power cut has damaged.
    for name, why in fat.unpack(machine.image, offset, FOLDER / "boot").items():
        logger.info(f"/boot/{name}: {why}", also_console=True)
    firmware = PiFirmware(FOLDER / "boot")
    firmware.restart(argument)
    slot = firmware.boot().slot
    options = machine.options
    if "--slot" in options:
        del options[options.index("--slot") : options.index("--slot") + 2]
    options += ["--slot", slot]


@library(scope="GLOBAL", auto_keywords=False)
class Updates:
    """Another version of the system for the node under test."""

    def __init__(self) -> None:
        """Nothing is served."""
        self.server: http.server.ThreadingHTTPServer | None = None

    @staticmethod
    def _running() -> tuple[str, str]:
        """Version and slot of the guest's system, as node-update says them."""
        said = session.run("node-update status | sed -n '1s/^running *//p'").split(" ")
        return said[0], said[-1]

    @keyword
    def make_update(
        self, version: str, broken: str = "", keys: str = "", board: str = "", seconds: int = 900
    ) -> str:
        """Makes a bundle of that version from the image under test; returns its file's name.

        ``broken``: "" (default), unit, panic, root, disk, hang or bitcoind (lab/updates.py).
        ``keys``: folder with ca.pem, bundle.pem and bundle.key to sign with, default the image's
        own. ``board``: whose it says it is, default the image's. ``seconds``: what its trial may
        take, default 900.

        Fails if the image or a tool is missing, or without the keys.

        Example:
        | ${file}=    Make Update    9.0.0    broken=unit
        """
        session.need(Need.DISK)
        image, mine = image_under_test()
        board = board or mine.name
        signer = f"-{Path(keys).name}" if keys else ""
        name = f"{version}-{broken or 'whole'}-{board}{signer}.raucb"
        out = FOLDER / f"cairn-{name}"
        if out.exists():
            return out.name
        FOLDER.mkdir(parents=True, exist_ok=True)
        if keys:
            os.environ["CAIRN_BUNDLE_KEY"] = f"{keys}/bundle.key"
            os.environ["CAIRN_BUNDLE_CERT"] = f"{keys}/bundle.pem"
            os.environ["CAIRN_KEYRING"] = f"{keys}/ca.pem"
        try:
            updates.make(image, board, version, out, broken, int(session.seconds(seconds)))
        finally:
            for word in ("KEY", "CERT"):
                os.environ.pop(f"CAIRN_BUNDLE_{word}", None)
            os.environ.pop("CAIRN_KEYRING", None)
        return out.name

    @keyword
    def strangers_keys(self) -> str:
        """Makes keys that no image knows; returns their folder.

        Fails if openssl does.

        Example:
        | ${keys}=    Strangers Keys
        """
        folder = FOLDER / "stranger"
        if (folder / "bundle.pem").exists():
            return str(folder)
        folder.mkdir(parents=True, exist_ok=True)
        made = new_certificate(folder, "bundle", *PURPOSE, days=2)
        shutil.copy(made, folder / "ca.pem")
        return str(folder)

    @keyword
    def keys_that_end_soon(self) -> str:
        """Makes keys that the image knows, with a certificate for one day; returns their folder.

        Fails without the key of the development certificate authority (support/dev-keys).

        Example:
        | ${keys}=    Keys That End Soon
        """
        mine = ROOT / "out/keys"
        folder = FOLDER / "soon"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        ca = shutil.copy(mine / "dev-ca.pem", folder / "ca.pem")
        signed = ["-CA", ca, "-CAkey", mine / "dev-ca.key"]
        signed += ["-addext", "basicConstraints=critical,CA:false"]
        new_certificate(folder, "bundle", *signed, *PURPOSE, days=1)
        return str(folder)

    @keyword
    def move_clock(self, days: int) -> None:
        """The guest's clock goes forward by so many days, or back if the number is negative.

        Example:
        | Move Clock    3
        """
        session.run(f"date -s @$(($(date +%s) + {int(days)} * 86400))")

    @keyword
    def only_the_beginning_of(self, file: str) -> str:
        """Makes a bundle without its last third, which has the signature; returns its file's name.

        Example:
        | ${short}=    Only The Beginning Of    ${file}
        """
        content = (FOLDER / file).read_bytes()
        short = FOLDER / file.replace(".raucb", "-short.raucb")
        short.write_bytes(content[: len(content) * 2 // 3])
        return short.name

    @keyword
    def other_board(self) -> str:
        """The name of a board that the image under test is not for.

        Example:
        | ${board}=    Other Board
        """
        mine = image_under_test()[1]
        return next(name for name in boards.names() if name != mine.name)

    @keyword
    def serve_updates(self, port: int, manner: str = "") -> None:
        """Serves all bundles by HTTP on this port of 127.0.0.1, for a guest with such a feeder.

        ``manner``: "" (default), slow (500 kB a second), half (connections end when half of a file
        was sent), silent (they stay then, and nothing comes any more) or mute (nothing ever comes).

        Example:
        | Serve Updates    18670    manner=half
        """
        self.stop_serving()
        handler = partial(Server, directory=str(FOLDER), sent=[], manner=manner)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @keyword
    def stop_serving(self) -> None:
        """Ends the server, if there is one.

        Example:
        | Stop Serving
        """
        if self.server:
            self.server.shutdown()
            self.server.server_close()
        self.server = None

    @keyword
    def plug_update_stick(self, *files: str) -> None:
        """A USB stick with these bundles is plugged in from the next start on; none: no stick.

        Example:
        | Plug Update Stick    cairn-9.0.0-whole-x86_64.raucb
        """
        session.need(Need.DISK)
        session.virtual.extra = []
        if not files:
            return
        stick = FOLDER / "stick.img"
        stick.unlink(missing_ok=True)
        size = sum((FOLDER / file).stat().st_size for file in files)
        run_host("truncate", "-s", f"{size // 2**20 + 40}M", str(stick))
        run_host("mkfs.vfat", "-F", "32", "-n", "STICK", str(stick))
        for file in files:
            run_host("mcopy", "-i", str(stick), str(FOLDER / file), f"::{file}")
        session.virtual.extra = [
            *("-device", "qemu-xhci,id=stickbus"),
            *("-drive", f"if=none,id=stick,format=raw,file={stick}"),
            *("-device", "usb-storage,bus=stickbus.0,drive=stick,serial=STICK,removable=on"),
        ]

    @keyword
    def node_has_been_up_for_an_hour(self) -> None:
        """The guest's scripts believe that the machine was started long ago, until it restarts.

        Those of a unit with ProtectProc= do not: it has a /proc of its own.

        Example:
        | Node Has Been Up For An Hour
        """
        session.run(
            f"echo {shlex.quote(OLD_ENOUGH)} >/run/uptime && mount --bind /run/uptime /proc/uptime"
        )

    @keyword
    def try_what_is_installed(self) -> None:
        """Has the guest restart in two seconds, to try the other slot.

        Example:
        | Try What Is Installed
        """
        session.run("setsid sh -c 'sleep 2; node-update reboot' >/dev/null 2>&1 </dev/null &")

    @keyword
    def restart_as_the_firmware_would(self, seconds: float = 300) -> None:
        """Waits for the end of a restart that the node has begun, and starts what then boots.

        ``seconds``: for that end, default 300. On a PC the image's own loader chooses. Of the
        Raspberry Pi's image the model reads the boot partition, with the argument of the restart.

        Fails if the machine does not end, or if nothing would boot.

        Example:
        | Restart As The Firmware Would    seconds=900
        """
        machine = session.virtual
        machine.ends(session.seconds(seconds))
        log = machine.serial_log()
        argument = log.rpartition(RESTART)[2].partition("'")[0] if RESTART in log else ""
        choose_slot(image_under_test()[1], argument)
        machine.power_on()

    @keyword
    def running_version(self) -> str:
        """The version of the guest's system, as node-update says it.

        Example:
        | ${version}=    Running Version
        """
        return self._running()[0]

    @keyword
    def version_beside(self) -> str:
        """The version in the slot that does not run, as node-update says it; fails if none boots.

        Example:
        | ${before}=    Version Beside
        """
        said = session.run("node-update status")
        found = re.search(r"^beside it   (\S+) in slot [ab]$", said, re.MULTILINE)
        assert found, said
        return found[1]

    @keyword
    def version_should_be(self, version: str) -> None:
        """Fails unless the guest's root file system is of that version, and so its boot files are.

        Example:
        | Version Should Be    9.0.0
        """
        running, slot = self._running()
        assert running == version, f"{running} in slot {slot}"
        release = session.run(f"sed -n s/^version=//p /boot/slot-{slot}/release")
        assert release == version, f"root {version} in slot {slot}, boot files of {release}"
