# shellcheck shell=sh disable=SC2034,SC2154 # variables are shared with who sources it
# What cairn-trial looks at to judge the system that runs. Sourced, behind update.sh and
# datadisk-facts.sh; root is the prefix of all paths, systemctl the command.

# Not before /var is there: what is below it belongs to the read-only root until then.
data_there() {
	awk '$2 == "/var" && $4 ~ /^rw(,|$)/ { yes = 1 } END { exit !yes }' "$root/proc/mounts"
}

# mixed: prints why what runs is not one system, or nothing. Partitions are found by their names,
# and a card or disk of another node has the same ones.
mixed() {
	current=$(slots get-current) || return 0
	running=$(update_version)
	if [ ! -d "$root/boot/slot-$current" ]; then
		# cairn-trial.service waits for boot.mount, which waits for the disk.
		echo "the boot partition was not mounted"
		return 0
	fi
	kernel=$(tr ' ' '\n' <"$root/proc/cmdline" | sed -n 's/^cairn\.version=//p' | tail -n 1)
	files=$(update_value "$root/boot/slot-$current/release" version)
	for found in $kernel $files; do
		[ "$found" = "$running" ] || {
			echo "the kernel is of version $found and the root file system of $running;" \
				"unplug a disk that was another node's"
			return 0
		}
	done
	if disk=$(datadisk_system_disk) && ! datadisk_is_on "$disk" /boot; then
		echo "the boot partition and the root file system are not on one disk;" \
			"unplug a disk that was another node's"
	fi
}

# failing: prints the units that have failed, but for those that had failed before the update.
# Returns 1 if systemd does not say.
failing() {
	units=$($systemctl list-units --state=failed --no-legend --plain --no-pager 2>/dev/null) ||
		return 1
	before=""
	! data_there || before=$(paste -s -d ' ' "$update_state/failed-units" 2>/dev/null) || before=""
	# by the environment: names of units have backslashes
	printf '%s\n' "$units" | BEFORE=" $before " awk '
		NF && !index(ENVIRON["BEFORE"], " " $1 " ") { printf "%s%s", sep, $1; sep = ", " }'
}

# look: sets verdict to good, bad or wait, why to a reason, and notes progress
look() {
	verdict="wait"
	state=$($systemctl is-system-running 2>/dev/null) || :
	case $state in
	maintenance)
		verdict=bad why="the boot ended in the emergency mode"
		return 0
		;;
	stopping)
		# by the owner or a power button: that boot says nothing
		verdict=stop
		return 0
		;;
	esac
	why="systemd did not answer"
	failed=$(failing) || return 0
	if [ -n "$failed" ]; then
		verdict=bad why="failed: $failed"
		return 0
	fi
	why=$(mixed)
	if [ -n "$why" ]; then
		verdict=bad
		return 0
	fi
	if [ -e "$root/run/cairn/bitcoind.hold" ]; then
		why=$(head -n 1 "$root/run/cairn/bitcoind.report" 2>/dev/null) || why=""
		verdict=bad why="held back, $why"
		return 0
	fi
	why="the boot was not complete"
	if ! data_there; then
		why="the data partition was not mounted"
		return 0
	fi
	wanted=$(update_value "$update_state/trial" height)
	why="no answer from bitcoind"
	status=0
	answer=$(${NODE_CLI:-node-cli -rpcclienttimeout=20} getblockchaininfo 2>&1) || status=$?
	if [ $status != 0 ]; then
		# error code: -28, and what it is doing
		case $answer in *"code: -28"*) noted "$answer" ;; esac
		return 0
	fi
	height=$(printf '%s\n' "$answer" | sed -n 's/^  "blocks": \([0-9]\{1,9\}\),$/\1/p')
	why="the node has block ${height:-0}, and had ${wanted:-0} before"
	[ -n "$height" ] || return 0
	[ -n "$first" ] || first=$height
	[ "$height" = "$last" ] || noted "$height"
	last=$height
	# degraded: complete, with units that have failed; those above are none of this version's.
	if [ "$state" != running ] && [ "$state" != degraded ]; then
		why="the boot was not complete"
	elif [ "$height" -ge "${wanted:-0}" ]; then
		verdict=good
	elif [ "$(seconds)" -ge "$limit" ] && [ "$height" -gt "$first" ]; then
		verdict=good
	fi
}

# noted TEXT: bitcoind is on its way if that is another text than before
noted() {
	[ "$1" != "$shown" ] || return 0
	shown=$1
	moved=$(seconds)
}
