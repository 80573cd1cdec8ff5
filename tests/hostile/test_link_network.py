"""cairn-link on a real cable, with the kernel's own neighbours, by iproute2's ip and busybox's.

Two network namespaces: in one the node's port, in the other a router that can be made to vanish
while the cable stays in. Only the port's folder below /sys is made up: a virtual cable is no port
of the machine's own.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.hostile.rights import superuser

#: $1 the root folder of the test, $2 the watcher with its shell, $3 the command ip
STEPS = """
set -eu
unshare -n sleep 300 &
router=$!
trap 'kill $router' EXIT
until [ "$(readlink /proc/$router/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
there() { nsenter -t $router -n "$@"; }
ip link set lo up
ip link add end0 type veth peer name peer0
ip link set peer0 netns $router
there ip addr add 192.0.2.1/24 dev peer0
there ip addr add fe80::1/64 dev peer0 nodad
there ip link set peer0 up
ip addr add 192.0.2.9/24 dev end0
ip link set end0 addrgenmode none up
ip addr add fe80::9/64 dev end0 nodad
# The kernel believes what it knew for half a second here, not for half a minute.
for family in ipv4 ipv6; do
	echo 500 >/proc/sys/net/$family/neigh/end0/base_reachable_time_ms
	echo 1 >/proc/sys/net/$family/neigh/end0/delay_first_probe_time
done
routes() {
	ip route replace default via 192.0.2.1 dev end0
	ip -6 route replace default via fe80::1 dev end0
}
look() {
	echo "$1.00 1.00" >"$root/proc/uptime"
	# as in the unit
	setpriv --reuid=835 --regid=835 --clear-groups --no-new-privs --bounding-set=-all,+net_admin \\
		--inh-caps=-all,+net_admin --ambient-caps=-all,+net_admin \\
		env CAIRN_IP="$command" $watcher --root "$root" --once
	cat "$root/run/cairn/link/state"
}
root=$1 watcher=$2 command=$3
routes
echo "both answer:"
look 100
echo "one answers:"
there ip addr del 192.0.2.1/24 dev peer0
sleep 2
look 200
sleep 6
look 400
echo "none answers:"
there ip addr del fe80::1/64 dev peer0
sleep 2
look 500 >/dev/null # the kernel asks: DELAY, then three probes
sleep 6
look 500
look 690
echo "up again:"
ip -o link show end0 | grep -o '[<,]UP[,>]' | tr -d '<,>'
routes
echo "they answer again:"
there ip addr add 192.0.2.1/24 dev peer0
look 2000
look 2300
echo "no router:"
ip route del default
ip -6 route del default
there ip addr del 192.0.2.1/24 dev peer0
look 3000
look 4000
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are for its user alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("command", ["ip", "busybox ip"])
@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_real_neighbours(place: Path, shell: str, command: str) -> None:
    """A link is restarted when both routers are gone, and only then; by a user with one right."""
    sudo = superuser()
    port = place / "sys/class/net/end0"
    (port / "device").mkdir(parents=True)
    (port / "type").write_text("1\n")
    (port / "carrier").write_text("1\n")
    for name in ("proc", "run/cairn/link"):
        (place / name).mkdir(parents=True)
    subprocess.run([*sudo, "chown", "835:835", place / "run/cairn/link"], check=True)
    shutil.copy(ROOT / "overlay/usr/lib/cairn/cairn-link", place)
    watcher = f"{shell} {place}/cairn-link"
    said = subprocess.run(
        [*sudo, "unshare", "-n", "sh", "-c", STEPS, "steps", str(place), watcher, command],
        check=False,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "both answer:",
        "one answers:",
        "none answers:",
        "end0 500 - 0",
        "end0: the cable is in, but no router has answered for 190 s; "
        "the link is switched off and on",
        "end0 - 690 1",
        "up again:",
        "UP",
        "they answer again:",
        "end0 - 690 1",
        "end0 - 690 1",
        "no router:",
        "end0 - 690 1",
        "end0 - 690 1",
    ]
