"""Sets a node's own data aside while tests have the machine, and puts them back.

What is set aside lies in one folder of the data partition: the databases, blocks and wallets, what
the scripts of the image remember, and a copy of node.conf. Nothing is copied or deleted but
node.conf: folders are renamed, so that it takes no space and no time. What stays where it is: the
SSH host key, and the counts of cairn-health.

The scripts run as root on the node. Each ends with an error before it has changed anything, or
leaves a state from which BACK goes on. The power may fail at any moment, and the node starts then:
it must not run the owner's chain with the tests' node.conf, nor without what the scripts remember
of it (`prune=`, an automatic rebuild). So node.conf comes first, and the chain last.
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
# conf FILE: makes it /boot/node.conf; after a power cut in between, one of both files is there.
# Its failure is told by hand: sh does not end with an error in the middle of a list of &&.
conf() {{
	[ -s "$1" ] || fail "$1 is empty or not there, so /boot/node.conf was left as it is"
	mount -o remount,rw /boot || fail "the boot partition cannot be written"
	{{
		cp "$1" /boot/node.conf.new && sync && mv /boot/node.conf.new /boot/node.conf && sync &&
			cmp -s "$1" /boot/node.conf
	}} || {{
		rm -f /boot/node.conf.new || :
		mount -o remount,ro /boot || :
		fail "/boot/node.conf could not be written; what is in $aside is as it was," \
			"so look at the boot partition and try again"
	}}
	mount -o remount,ro /boot
}}
"""

#: Sets everything aside. Then bitcoind is stopped, and the tests' node.conf may be written.
TAKE = (
    PRELUDE
    + f"""\
for f in $aside $aside.new $aside.done; do [ ! -e "$f" ] || fail "there is $f already"; done
[ -s /boot/node.conf ] || fail "there is nothing in /boot/node.conf, which would have to be kept"
free=$(df -Pm /var | awk 'NR == 2 {{ print $4 }}')
[ "$free" -ge {SPACE} ] || fail "only $free MiB are free on the data partition, {SPACE} are needed"
systemctl stop cairn-sync-done.timer bitcoind
mkdir -m 700 $aside.new $aside.new/cairn
cp /boot/node.conf $aside.new/node.conf
remembered /var/lib/cairn >$aside.new/names
# Both are whole on the disk before anything is moved
sync
mv /var/lib/bitcoind $aside.new/bitcoind
remembered /var/lib/cairn | while IFS= read -r f; do mv "$f" $aside.new/cairn/; done
sync
mv $aside.new $aside
sync
"""
)

#: Puts everything back. The tests' data are deleted; with `keep` they are moved to $aside.tests,
#: because somebody may have used the node after a run that was interrupted.
#:
#: It may be cut off anywhere, and the node may have started since. In $aside are then: conf-done,
#: if node.conf is the owner's; names, what of /var/lib/cairn is the owner's, here or there; tests,
#: what was moved out of the way. $aside.done has nothing of the owner's any more.
BACK = (
    PRELUDE
    + """\
# finish: all is back
finish() {
	to=$aside.tests
	while [ -e $to ]; do to=$to+; done
	[ ! -e $aside.done/tests ] || mv $aside.done/tests $to
	rm -rf $aside.done
	sync
}
# away PATH NAME: the tests', or made by a start in between
away() {
	[ -e "$1" ] || [ -L "$1" ] || return 0
	if [ "$keep" ]; then
		[ -d $aside/tests ] || mkdir -m 700 $aside/tests
		mkdir -p $aside/tests/cairn
		to=$aside/tests/$2
		while [ -e "$to" ] || [ -L "$to" ]; do to=$to+; done
		mv "$1" "$to"
	else
		rm -rf "$1"
	fi
}
# is_owners FILE: was it there before, and is not set aside (any more)?
is_owners() {
	! [ -e "$aside/cairn/${1##*/}" ] && ! [ -L "$aside/cairn/${1##*/}" ] || return 1
	status=0
	grep -qxF -e "$1" $aside/names || status=$?
	[ $status -le 1 ] || fail "$aside/names cannot be read; nothing more was moved"
	return $status
}
if [ -e $aside.done ]; then
	finish
	[ -e $aside ] || [ -e $aside.new ] || exit 0
fi
if [ -e $aside.new ] && [ ! -e $aside ]; then
	if [ ! -e $aside.new/bitcoind ]; then
		# The databases are moved first: nothing was. The copies may be empty.
		rm -f $aside.new/node.conf $aside.new/names
		[ ! -e $aside.new/cairn ] || rmdir $aside.new/cairn
		rmdir $aside.new
		sync
		exit 0
	fi
	# node.conf is written after the last move only: it is still the owner's
	: >$aside.new/conf-done
	sync
	mv $aside.new $aside
fi
[ -d $aside ] || fail "there is no $aside: nothing of the owner's is set aside"
[ -f $aside/names ] || fail "there is no $aside/names, so it is not known what is whose"
systemctl stop cairn-sync-done.timer bitcoind
if [ ! -e $aside/conf-done ] || [ ! -s /boot/node.conf ]; then
	conf $aside/node.conf
	: >$aside/conf-done
	sync
fi
[ ! -e $aside/bitcoind ] || away /var/lib/bitcoind bitcoind
remembered /var/lib/cairn | while IFS= read -r f; do
	is_owners "$f" || away "$f" "cairn/${f##*/}"
done
sync
if [ -e $aside/cairn ]; then
	remembered $aside/cairn | while IFS= read -r f; do
		away "/var/lib/cairn/${f##*/}" "cairn/${f##*/}"
		mv "$f" /var/lib/cairn/
	done
	sync
	# fails if something is left
	rmdir $aside/cairn
fi
if [ -e $aside/bitcoind ]; then
	away /var/lib/bitcoind bitcoind
	mv $aside/bitcoind /var/lib/bitcoind
fi
sync
mv $aside $aside.done
sync
finish
"""
)


def back(keep: bool) -> str:
    """The script that puts everything back."""
    return f"keep={'yes' if keep else ''}\n{BACK}"


def write_conf(file: str) -> str:
    """The script that makes a file of the node its node.conf."""
    kept = """\
[ -s $aside/node.conf ] || fail "the node has no copy of its own node.conf"
[ ! -e $aside/conf-done ] || fail "the node's own data are being put back"
"""
    return f"{PRELUDE}{kept}conf {shlex.quote(file)}\n"


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
