"""cairn-link on made-up ports, routes and neighbours: when a link is restarted, and when not."""

from __future__ import annotations

import configparser
import itertools
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.paths import ROOT

SHELLS = ["dash", "busybox sh"]
STATE = "run/cairn/link/state"
V4 = "default via 192.168.1.1 dev end0 proto dhcp src 192.168.1.9 metric 1024\n"
V6 = "default via fe80::1 dev end0 proto ra metric 1024 expires 1794sec pref medium\n"
LOCAL = "192.168.1.0/24 dev end0 proto kernel scope link src 192.168.1.9\n"


@dataclass
class Machine:
    """A root directory with network ports, and commands that say what a test wants."""

    path: Path
    shell: list[str] = field(default_factory=list)

    def write(self, name: str, text: str | bytes) -> Path:
        """Puts a file below the machine's root."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def port(self, name: str = "end0", kind: str = "1", carrier: str = "1") -> None:
        """A port of the machine's own."""
        self.write(f"sys/class/net/{name}/type", f"{kind}\n")
        self.write(f"sys/class/net/{name}/carrier", f"{carrier}\n")
        self.write(f"sys/class/net/{name}/device/vendor", "0x1\n")

    def network(self, routes4: str, routes6: str, before: str, after: str | None = None) -> None:
        """What ip says: routes, and neighbours before and after the probe."""
        self.write("said/4", routes4)
        self.write("said/6", routes6)
        self.write("said/before", before)
        self.write("said/after", before if after is None else after)

    def look(self, uptime: int) -> list[str]:
        """One look at this time; the changes of links and the probes that it made."""
        self.write("proc/uptime", f"{uptime}.99 1.0\n")
        (self.path / "said/probed").unlink(missing_ok=True)
        self.write("done", "")
        script = ROOT / "overlay/usr/lib/cairn/cairn-link"
        result = subprocess.run(
            [*self.shell, str(script), "--once", "--root", str(self.path)],
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
            env={
                **os.environ,
                "CAIRN_IP": str(self.path / "ip"),
                "CAIRN_KEYSCAN": str(self.path / "keyscan"),
                "CAIRN_SLEEP": "true",
            },
        )
        assert (result.returncode, result.stderr) == (0, "")
        return (self.path / "done").read_text().splitlines()

    def restarts(self, *times: int) -> list[int]:
        """Those of the times at which a link was restarted."""
        return [at for at in times if any("down" in line for line in self.look(at))]


@pytest.fixture(params=SHELLS)
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    """A machine with one port, a router that does not answer, and made-up commands."""
    made = Machine(tmp_path, request.param.split())
    made.write(
        "ip",
        f"""#!/bin/sh
cd {tmp_path}/said
case "$*" in
"-4 route show") cat 4 ;;
"-6 route show") cat 6 ;;
"neigh show dev "*) if [ -e probed ]; then cat after; else cat before; fi ;;
"link set "*) echo "$*" >>../done ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
""",
    ).chmod(0o755)
    made.write(
        "keyscan",
        f'#!/bin/sh\necho "probe $5" >>{tmp_path}/done\n: >{tmp_path}/said/probed\nexit 1\n',
    ).chmod(0o755)
    (tmp_path / "run/cairn/link").mkdir(parents=True)
    made.port()
    made.network(V4 + LOCAL, "", "192.168.1.1  FAILED\n", "192.168.1.1  INCOMPLETE\n")
    return made


def test_a_silent_router(machine: Machine) -> None:
    """Off and on after three minutes, not before, and again after a quarter of an hour at most."""
    times = (100, 130, 279, 280, 310, 489, 700, 1179, 1180, 1210, 2079, 2080)
    assert machine.restarts(*times) == [280, 1180, 2080]
    assert (machine.path / STATE).read_text() == "end0 - 2080 3\n"
    lines = [line for line in machine.look(2100) if "probe" in line]
    assert lines == ["probe 192.168.1.1"]


def test_off_and_on(machine: Machine) -> None:
    """In this order, and on even if off failed."""
    machine.look(100)
    assert machine.look(300)[1:] == ["link set end0 down", "link set end0 up"]


def test_a_router_that_answers_in_between(machine: Machine) -> None:
    """The three minutes begin anew."""
    assert machine.restarts(100, 200) == []
    machine.network(V4, "", "192.168.1.1 lladdr aa:bb:cc:dd:ee:ff REACHABLE\n")
    assert machine.look(260) == []  # not even a probe
    machine.network(V4, "", "192.168.1.1  FAILED\n")
    assert machine.restarts(300, 400, 479, 480) == [480]


ANSWERS = [
    "192.168.1.1 lladdr aa:bb:cc:dd:ee:ff REACHABLE\n",
    "192.168.1.1 lladdr aa:bb:cc:dd:ee:ff STALE\n",
    "192.168.1.1 lladdr aa:bb:cc:dd:ee:ff DELAY\n",
    "192.168.1.1 lladdr aa:bb:cc:dd:ee:ff PROBE\n",
    "192.168.1.1 lladdr aa:bb:cc:dd:ee:ff PERMANENT\n",
    "192.168.1.1 lladdr aa:bb:cc:dd:ee:ff ref 1 used 3/1/2 probes 1 REACHABLE\n",
    "",  # the kernel was not made to ask
    "192.168.1.11  FAILED\n",
    "FAILED\n",
    "192.168.1.1 \n",
    "\x1b[2J FAILED 192.168.1.1\n",
]


@pytest.mark.parametrize("neighbours", ANSWERS)
def test_what_is_no_silence(machine: Machine, neighbours: str) -> None:
    """Whatever is not FAILED or INCOMPLETE."""
    machine.network(V4, "", neighbours)
    assert machine.restarts(100, 300, 2000) == []
    assert (machine.path / STATE).read_text() == ""


@pytest.mark.parametrize(
    ("routes4", "routes6"),
    [
        ("", ""),
        (LOCAL, ""),
        ("default dev end0 scope link\n", ""),
        ("default via 192.168.1.1 dev wlan0\n", ""),
        ("unreachable default via 192.168.1.1 dev end0\n", ""),
        ("10.0.0.0/8 via 192.168.1.1 dev end0\n", ""),
        ("default via $(reboot) dev end0\n", ""),
    ],
)
def test_no_router(machine: Machine, routes4: str, routes6: str) -> None:
    """A network without a router, or with a static address only, is left alone."""
    machine.network(routes4, routes6, "192.168.1.1  FAILED\n")
    assert machine.restarts(100, 300, 2000) == []
    assert machine.look(2100) == []


def test_one_of_two_routers(machine: Machine) -> None:
    """As long as one answers, the link works."""
    both = "192.168.1.1  FAILED\nfe80::1 lladdr aa:bb:cc:dd:ee:ff router REACHABLE\n"
    machine.network(V4, V6, both)
    assert machine.restarts(100, 300, 2000) == []
    machine.network(V4, V6, "192.168.1.1  FAILED\nfe80::1  router INCOMPLETE\n")
    assert machine.restarts(2010, 2190) == [2190]
    assert "probe fe80::1%end0" in machine.look(2200)


def test_several_next_hops(machine: Machine) -> None:
    """Each is a router."""
    routes = (
        "default proto static metric 5\n\tnexthop via 192.168.1.1 dev end0 weight 1\n"
        "\tnexthop via 192.168.1.2 dev end0 weight 1\n" + LOCAL
    )
    machine.network(routes, "", "192.168.1.1  FAILED\n192.168.1.2  FAILED\n")
    assert machine.restarts(100, 300) == [300]
    machine.network(routes, "", "192.168.1.1  FAILED\n192.168.1.2 lladdr a REACHABLE\n")
    assert machine.restarts(1300, 1500) == []


@pytest.mark.parametrize(
    ("name", "kind", "carrier", "more"),
    [
        ("end0", "1", "0", ""),  # no cable
        ("end0", "1", "", ""),  # the port is off: not readable
        ("end0", "1", "x", ""),
        ("end0", "772", "1", ""),
        ("end0", "", "1", ""),
        ("end0", "1", "1", "phy80211"),
        ("end0", "1", "1", "wireless"),
        ("end0", "1", "1", "master"),
        ("end0;reboot", "1", "1", ""),
    ],
)
def test_ports_that_are_left_alone(
    machine: Machine, name: str, kind: str, carrier: str, more: str
) -> None:
    """No cable, not Ethernet, or part of something else."""
    for file in ("type", "carrier", "device/vendor"):
        (machine.path / "sys/class/net/end0" / file).unlink()
    machine.port(name, kind, carrier)
    if more:
        machine.write(f"sys/class/net/{name}/{more}/x", "")
    assert machine.restarts(100, 300, 2000) == []
    assert machine.look(2100) == []


def test_what_cannot_be_read(machine: Machine) -> None:
    """No time, no ip, no port: nothing happens."""
    machine.look(100)
    for text in ("", "x", "-5", "99999999999999999"):
        machine.write("proc/uptime", text)
    machine.write("ip", "#!/bin/sh\nexit 1\n")
    assert machine.restarts(300, 2000) == []
    machine.write("ip", "#!/bin/sh\nhead -c 4096 /dev/urandom\n")
    assert machine.restarts(3000, 4000) == []
    (machine.path / "ip").unlink()
    assert machine.restarts(5000, 6000) == []


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"end0\n",
        b"end0 50 99999 1\n",  # a restart that is still to come
        b"end0 99999 - 0\n",
        b"end0 -1 -1 -1\n",
        b"end0 08 09 010\n",
        b"end0 a[$(reboot)] 1 1\n",
        b"end0 1e9 1e9 1e9\n",
        bytes(range(256)) * 40,
        b"end0 99999999999999999999 99999999999999999999 99999999999999999999\n",
    ],
)
def test_forged_states(machine: Machine, state: bytes) -> None:
    """Never lead to more restarts than one in a quarter of an hour."""
    machine.write(STATE, state)
    found = machine.restarts(*range(100, 2000, 60))
    assert len(found) >= 1
    assert all(later - one >= 900 for one, later in itertools.pairwise(found))
    assert found[0] >= 280 or state.startswith(b"end0 50")


def test_a_link_that_does_not_come_up(machine: Machine) -> None:
    """Is tried three times."""
    script = (machine.path / "ip").read_text()
    machine.write("ip", script.replace(">>../done ;;", ">>../done; exit 2 ;;"))
    machine.look(100)
    assert machine.look(300)[1:] == ["link set end0 down", *["link set end0 up"] * 3]


def test_energy_efficient_ethernet_is_off() -> None:
    """For one driver; the port's name and address are as systemd's own file makes them."""
    ours, theirs = (configparser.ConfigParser(interpolation=None) for _ in range(2))
    for parser in (ours, theirs):
        parser.optionxform = str  # type: ignore[assignment, method-assign]
    ours.read(ROOT / "overlay/usr/lib/systemd/network/80-cairn-rp1.link")
    assert dict(ours["Match"]) == {"Driver": "macb"}
    assert dict(ours["EnergyEfficientEthernet"]) == {"Enable": "no"}
    default = Path("/usr/lib/systemd/network/99-default.link")
    if default.exists():
        theirs.read(default)
        assert set(theirs["Link"]) <= set(ours["Link"])
        assert ours["Link"]["NamePolicy"] == theirs["Link"]["NamePolicy"]
        assert ours["Link"]["MACAddressPolicy"] == theirs["Link"]["MACAddressPolicy"]
