"""Sets a node's own data aside while tests have the machine, and puts them back.

What is set aside lies in one folder of the data partition: the databases, blocks and wallets, what
the scripts of the image remember, and a copy of node.conf. Nothing is copied or deleted but
node.conf: folders are renamed, so that it takes no space and no time. What stays where it is: the
SSH host key, and the counts of cairn-health.

The scripts run as root on the node. Each ends with an error before it has changed anything, or
leaves a state from which KEEP goes on.
"""

from __future__ import annotations

import shlex

#: Keys of node.conf that are about the machine. Tests leave them as the owner has them: without
#: them nobody might reach it any more, or its data might be looked for on another disk.
MACHINE_KEYS = ("hostname", "filesystem", "datadisk", "sshkey", "ip", "gateway", "dns")
#: Those that no test may bring, and that are left out while tests run: a consent to an erasure.
NEVER = ("erase",)
ASIDE = "/var/lib/cairn-aside"
#: MiB that the tests' own chain and databases may need
SPACE = 3000

PRELUDE = f"""\
set -eu
aside={ASIDE}
fail() {{ echo "$*" >&2; exit 1; }}
# remembered FOLDER: what scripts of the image wrote there, but for what stays
remembered() {{
	for f in "$1"/* "$1"/.[!.]*; do
		case ${{f##*/}} in
		ssh | health) ;;
		*) if [ -e "$f" ] || [ -L "$f" ]; then printf '%s\\n' "$f"; fi ;;
		esac
	done
}}
# move FROM TO: what is remembered in one folder into another one
move() {{ remembered "$1" | while IFS= read -r f; do mv "$f" "$2/"; done; }}
# conf FILE: makes it /boot/node.conf; after a power cut in between, one of both files is there.
conf() {{
	mount -o remount,rw /boot || fail "the boot partition cannot be written"
	cp "$1" /boot/node.conf.new && sync && mv /boot/node.conf.new /boot/node.conf
	sync
	mount -o remount,ro /boot
}}
"""

#: Sets everything aside. Then bitcoind is stopped, and the tests' node.conf may be written.
TAKE = (
    PRELUDE
    + f"""\
[ ! -e $aside ] && [ ! -e $aside.new ] || fail "there is $aside already"
[ -f /boot/node.conf ] || fail "there is no /boot/node.conf, which would have to be kept"
free=$(df -Pm /var | awk 'NR == 2 {{ print $4 }}')
[ "$free" -ge {SPACE} ] || fail "only $free MiB are free on the data partition, {SPACE} are needed"
systemctl stop cairn-sync-done.timer bitcoind
mkdir -m 700 $aside.new $aside.new/cairn
cp /boot/node.conf $aside.new/node.conf
mv /var/lib/bitcoind $aside.new/bitcoind
move /var/lib/cairn $aside.new/cairn
sync
mv $aside.new $aside
sync
"""
)

#: Puts everything back. The tests' data are deleted; with `keep` they are moved to $aside.tests,
#: because somebody may have used the node after a run that was interrupted.
BACK = (
    PRELUDE
    + """\
[ ! -e $aside.new ] || [ -e $aside ] || mv $aside.new $aside
[ -d $aside ] || fail "there is no $aside"
systemctl stop cairn-sync-done.timer bitcoind
if [ -d $aside/bitcoind ]; then
	if [ "$keep" ]; then
		[ ! -e $aside.tests ] || fail "there is $aside.tests already; look at it, and remove it"
		mkdir -m 700 $aside.tests $aside.tests/cairn
		[ ! -e /var/lib/bitcoind ] || mv /var/lib/bitcoind $aside.tests/bitcoind
		move /var/lib/cairn $aside.tests/cairn
	else
		rm -rf /var/lib/bitcoind
		remembered /var/lib/cairn | while IFS= read -r f; do rm -rf "$f"; done
	fi
	mv $aside/bitcoind /var/lib/bitcoind
fi
move $aside/cairn /var/lib/cairn
conf $aside/node.conf
rm -r $aside
sync
"""
)


def back(keep: bool) -> str:
    """The script that puts everything back."""
    return f"keep={'yes' if keep else ''}\n{BACK}"


def write_conf(file: str) -> str:
    """The script that makes a file of the node its node.conf."""
    kept = "[ -f $aside/node.conf ] || fail 'the node has no copy of its own node.conf'"
    return f"{PRELUDE}{kept}\nconf {shlex.quote(file)}\n"


def key_of(line: str) -> str:
    """The name of the setting in a line."""
    return line.partition("#")[0].partition("=")[0].strip()


def is_machines(line: str) -> bool:
    """Whether a line of node.conf is about the machine and how it is reached, not about bitcoind.

    Those with a value of 0 or 1 count as bitcoind's: its option dns= has the same name.
    """
    name, _, value = line.partition("#")[0].partition("=")
    return name.strip() in (*MACHINE_KEYS, *NEVER) and value.strip() not in ("", "0", "1")


def settings_of(text: str) -> set[str]:
    """The names of all settings in a node.conf that are not about the machine, of all sections."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return {
        line.partition("=")[0].strip()
        for line in lines
        if line and not line.startswith("[") and not is_machines(line)
    }


def conf_for_tests(own: str, wanted: str) -> str:
    """The tests' node.conf: the owner's lines about the machine, and theirs behind these.

    The tests' may end in a section. A node that is not told whom to connect to stays off the
    network: the owner's own node may be one that only goes through Tor.
    """
    lines = [line for line in own.splitlines() if is_machines(line) and key_of(line) not in NEVER]
    if "connect" not in settings_of(wanted):
        lines.append("networkactive=0")
    return "\n".join([*lines, wanted])
