"""Robot Framework library: bundles, the server and the stick that they come from, and restarts.

Bundles are made of the image under test (lab/updates.py), and signed with the keys that
support/bundle takes. On the Raspberry Pi's image the firmware's part, which QEMU does not have, is
played by lab/pi_firmware.py: it says after each restart whose kernel is started.
"""

from __future__ import annotations

import http.server
import os
import shlex
import shutil
import threading
import time
from functools import partial
from pathlib import Path

from robot.api.deco import keyword, library

from lab import boards, updates
from lab.machine import run_host
from lab.paths import ROOT
from lab.pi_firmware import PiFirmware
from lab.serial_log import since_power_on
from lab.under_test import Need
from tests.robot.lib.session import session

FOLDER = ROOT / "out/robot/updates"
#: What Linux says at the end, with the argument that the loader gets
RESTART = "Restarting system with command '"
#: Seconds since the start that allow an update (overlay/usr/lib/cairn/update.sh)
OLD_ENOUGH = "4000.00 8000.00"


class Server(http.server.SimpleHTTPRequestHandler):
    """Files with ranges, as RAUC asks for them; whole, slowly, or only up to half."""

    def __init__(self, *args: object, manner: str = "", **words: object) -> None:
        """``manner``: "", slow (50 kB a second) or half."""
        self.manner = manner
        super().__init__(*args, **words)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """A file, or the part that is asked for."""
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
                if self.manner == "half" and begin + (end - begin + 1 - left) > size // 2:
                    return
                part = file.read(min(left, 50_000))
                self.wfile.write(part)
                left -= len(part)
                if self.manner == "slow":
                    time.sleep(1)


@library(scope="GLOBAL", auto_keywords=False)
class Updates:
    """Another version of the system for the node under test."""

    def __init__(self) -> None:
        """Nothing is served."""
        self.server: http.server.ThreadingHTTPServer | None = None

    @staticmethod
    def _image() -> Path:
        image = Path(session.variable("IMAGE", "")).resolve()
        assert boards.of_image(image), f"{image} is no image of a board; give one with IMAGE="
        return image

    @keyword
    def make_update(
        self, version: str, broken: str = "", keys: str = "", board: str = "", seconds: int = 900
    ) -> str:
        """Makes a bundle of that version from the image under test; returns its file's name.

        ``broken``: "" (default), unit, panic, root, disk or bitcoind (lab/updates.py). ``keys``:
        folder with ca.pem, bundle.pem and bundle.key to sign with, default the image's own.
        ``board``: whose it says it is, default the image's. ``seconds``: what its trial may take,
        default 900.

        Fails if the image or a tool is missing, or without the keys.

        Example:
        | ${file}=    Make Update    9.0.0    broken=unit
        """
        session.need(Need.DISK)
        image = self._image()
        mine = boards.of_image(image)
        assert mine
        board = board or mine.name
        name = f"{version}-{broken or 'whole'}-{board}{'-stranger' if keys else ''}.raucb"
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
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-subj", "/CN=stranger", "-addext", "extendedKeyUsage=codeSigning"]
        run_host(*command, "-keyout", str(folder / "bundle.key"), "-out", str(folder / "ca.pem"))
        shutil.copy(folder / "ca.pem", folder / "bundle.pem")
        return str(folder)

    @keyword
    def serve_updates(self, port: int, manner: str = "") -> None:
        """Serves all bundles by HTTP on this port of 127.0.0.1, for a guest with such a feeder.

        ``manner``: "" (default), slow or half: the connection ends there.

        Example:
        | Serve Updates    18656    manner=half
        """
        self.stop_serving()
        handler = partial(Server, directory=str(FOLDER), manner=manner)
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
        board = boards.of_image(self._image())
        assert board
        if not board.meta["QEMU_FIRMWARE"]:
            log = since_power_on(machine.serial.read_text(errors="replace"))
            argument = log.rpartition(RESTART)[2].partition("'")[0] if RESTART in log else ""
            firmware = PiFirmware(updates.boot_files(machine.image, FOLDER / "boot"))
            firmware.restart(argument)
            slot = firmware.boot().root[-1]
            options = machine.options
            if "--slot" in options:
                del options[options.index("--slot") : options.index("--slot") + 2]
            options += ["--slot", slot]
        machine.power_on()

    @keyword
    def running_version(self) -> str:
        """The version of the guest's system, as node-update says it.

        Example:
        | ${version}=    Running Version
        """
        return session.run("node-update status | sed -n '1s/^running *//p'").split(" ")[0]

    @keyword
    def version_should_be(self, version: str) -> None:
        """Fails unless the guest's root file system is of that version, and so its boot files are.

        Example:
        | Version Should Be    9.0.0
        """
        said = session.run("node-update status | sed -n '1s/^running *//p'")
        assert said.split(" ")[0] == version, said
        slot = said.split(" ")[-1]
        release = session.run(f"sed -n s/^version=//p /boot/slot-{slot}/release")
        assert release == version, f"root {version} in slot {slot}, boot files of {release}"
