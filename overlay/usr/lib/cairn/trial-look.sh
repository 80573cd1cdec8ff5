# shellcheck shell=sh disable=SC2034,SC2154 # variables are shared with who sources it
# What cairn-trial looks at to judge the system that runs, and what ends it if a look hangs.
# Sourced, behind update.sh and datadisk-facts.sh; root is the prefix of all paths, systemctl the
# command.

# Not before /var is there: what is below it belongs to the read-only root until then.
data_there() {
	awk '$2 == "/var" && $4 ~ /^rw(,|$)/ { yes = 1 } END { exit !yes }' "$root/proc/mounts"
}

# mixed: prints why what runs is not one system, or nothing. Partitions are found by their names,
# and a card or disk of another node has the same ones.
mixed() {
	current=$(slots get-current) || return 0
	running=$(update_version)
	case $(datadisk_boot) in
	none)
		# cairn-trial.service waits for boot.mount, which waits for the disk.
		echo "the boot partition was not mounted"
		return 0
		;;
	other)
		echo "the boot partition and the root file system are not on one disk;" \
			"unplug a disk that was another node's"
		return 0
		;;
	esac
	kernel=$(tr ' ' '\n' <"$root/proc/cmdline" | sed -n 's/^cairn\.version=//p' | tail -n 1)
	files=$(update_value "$root/boot/slot-$current/release" version)
	for found in $kernel $files; do
		[ "$found" = "$running" ] || {
			echo "the kernel is of version $found and the root file system of $running;" \
				"unplug a disk that was another node's"
			return 0
		}
	done
	[ -d "$root/boot/slot-$current" ] || echo "the boot partition has nothing of the slot that" \
		"runs; unplug a disk that was another node's"
}

# foreign_boot: is what runs not one system, so that the boot partition that is mounted may be
# another node's? Then it is said: what that says is not about this node, and nothing is changed.
foreign_boot() {
	[ "$(datadisk_boot)" != none ] || return 1
	why=$(mixed)
	[ -n "$why" ] || return 1
	update_say "The boot partition is left alone: $why, and restart."
}

# among STATE: prints those of units (update_units) in that state, but for those of which that was
# noted before the update, as far as /var is there
among() {
	before=""
	! data_there || before=$(paste -s -d ' ' "$update_state/failed-units" 2>/dev/null) || before=""
	# by the environment: names of units have backslashes
	printf '%s\n' "$units" | BEFORE=" $before " STATE=$1 awk '
		($3 == ENVIRON["STATE"] || $4 == ENVIRON["STATE"]) &&
			!index(ENVIRON["BEFORE"], " " $1 " ") { printf "%s%s", sep, $1; sep = ", " }'
}

# before NAME: is it among what was noted before the update?
before() { grep -qxF "$1" "$update_state/failed-units" 2>/dev/null; }

# closed: prints why the owner could not reach the node any more, or it nobody, which was not so
# before the update; or nothing. A version that is alone in its network cannot be mended from afar.
closed() {
	if { [ -e "$root/run/cairn/firewall.report" ] && ! before firewall.report; } ||
		{ [ -e "$root/run/cairn/tor-firewall.report" ] && ! before tor-firewall.report; }; then
		echo "its firewall could not be loaded as node.conf wants it"
		return 0
	fi
	# Of the same node.conf; another one is the owner's business.
	had=$(update_value "$update_state/trial" network)
	conf=$(update_value "$update_state/trial" conf)
	if [ -z "$had" ] || [ "$conf" != "$(node_record "$root" sum)" ]; then return 0; fi
	case $had:$(node_record "$root" network) in
	off:* | outbound:outbound | *:on | *:) ;;
	*)
		echo "it cannot use a line of node.conf that the version before could," \
			"and without it the node has no network"
		;;
	esac
}

# once_more: starts units of failed again whose time was up, once in a trial, with those that need
# them, and waits for that; fails if one of failed has another reason, or had its second start. A
# slow machine is no fault of the version, and PID 1 gives most units 90 s.
once_more() {
	set --
	for unit in $(printf '%s\n' "$failed" | tr -d ,); do
		case " $tried_again " in *" $unit "*) return 1 ;; esac
		[ "$($systemctl show -p Result --value -- "$unit" 2>/dev/null)" = timeout ] || return 1
		set -- "$@" "$unit"
	done
	tried_again="$tried_again $*"
	printf 'started once more, as the time was up: %s\n' "$*"
	# Those were not started at all.
	for unit in $($systemctl show -p RequiredBy --value -- "$@" 2>/dev/null); do
		set -- "$@" "$unit"
	done
	# less than the ten minutes without progress that end a trial
	timeout 300 "$systemctl" start -- "$@" || :
}

# look: sets verdict to good, bad or wait, why to a reason, and notes progress. If alone is not
# empty, there is no other slot to fall back to: an answer of bitcoind is enough.
look() {
	verdict="wait"
	state=$($systemctl is-system-running 2>/dev/null) || :
	# It says so only when no job is left, and one waits for /dev/cairn/data for as long as it takes.
	case $state in
	initializing | starting)
		[ "$($systemctl is-active emergency.target 2>/dev/null)" != active ] || state=maintenance
		;;
	esac
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
	why=$(mixed)
	if [ -n "$why" ]; then
		verdict=bad
		return 0
	fi
	if ! data_there; then
		# Whether they had failed before cannot be read.
		why="the data partition was not mounted"
		units=$(update_units) || units=""
		failed=$(among failed)
		[ -z "$failed" ] || why="$why; failed: $failed"
		return 0
	fi
	why="systemd did not answer" units=""
	[ -n "$alone" ] || units=$(update_units) || return 0
	failed=$(among failed)
	if [ -n "$failed" ]; then
		why="failed: $failed"
		once_more || verdict=bad
		return 0
	fi
	if [ -e "$root/run/cairn/bitcoind.hold" ]; then
		why=$(head -n 1 "$root/run/cairn/bitcoind.report" 2>/dev/null) || why=""
		verdict=bad why="held back, $why"
		return 0
	fi
	if [ -z "$alone" ]; then
		why=$(closed)
		if [ -n "$why" ]; then
			verdict=bad
			return 0
		fi
	fi
	update_noted_tip "$update_state/trial" || :
	wanted=$height wanted_chain=$chain
	why="no answer from bitcoind"
	# One that writes its cache answers nothing for minutes, and has 16 threads for questions.
	[ "$(seconds)" -ge "${ask_at:-0}" ] || return 0
	status=0
	answer=$(${NODE_CLI:-node-cli -rpcclienttimeout=20} getblockchaininfo 2>&1) || status=$?
	if [ $status != 0 ]; then
		case $answer in
		# error code: -28, and what it is doing
		*"code: -28"*) noted "$answer" ;;
		*"timeout reached"*) ask_at=$(($(seconds) + 60)) ;;
		esac
		# rpcwhitelist= of the owner's does not let the node ask this: it runs, and that is all.
		case $answer in *"HTTP error 403"*) ;; *) return 0 ;; esac
		[ "$($systemctl show -p ActiveState --value bitcoind.service 2>/dev/null)" = active ] ||
			return 0
		height=${wanted:-0}
	else
		update_tip_of "$answer"
		# The owner has changed chain= meanwhile, and heights of two chains say nothing.
		[ -z "$chain" ] || [ -z "$wanted_chain" ] || [ "$chain" = "$wanted_chain" ] || wanted=""
	fi
	why="the node has block ${height:-0}, and had ${wanted:-0} before"
	[ -n "$height" ] || return 0
	[ -n "$first" ] || first=$height
	[ "$height" = "$last" ] || noted "$height"
	last=$height
	again=$(among auto-restart)
	if [ -n "$again" ]; then
		why="ends and is started again and again: $again"
	elif [ -n "$alone" ]; then
		verdict=good
	# degraded: complete, with units that have failed; those above are none of this version's.
	elif [ "$state" != running ] && [ "$state" != degraded ]; then
		why="the boot was not complete"
	elif [ "$height" -ge "${wanted:-0}" ]; then
		verdict=good
	elif [ "$(seconds)" -ge "$limit" ] && [ "$height" -gt "$first" ]; then
		verdict=good
	fi
}

# worked: notes progress if bitcoind, a check or conversion of data, a check of a file system, or
# the copying of a data disk has worked: used the processor for 3 s within a minute, a twentieth of
# one core. One that only waits uses less. bitcoind says the same words for as long as it replays
# blocks, and the others say nothing.
worked() {
	used=$($systemctl show -p CPUUsageNSec --value bitcoind.service cairn-data-look.service \
		cairn-datadisk.service 'systemd-fsck@*.service' 'node-convert@*.service' 2>/dev/null |
		awk '/^[0-9]+$/ && length($0) < 19 { sum += $1 } END { printf "%d\n", sum / 1000000 }') ||
		return 0
	now=$(seconds)
	if [ -n "$used_at" ] && [ "$used" -ge "$used_before" ] && [ $((now - used_at)) -le 60 ]; then
		[ $((used - used_before)) -ge 3000 ] || return 0
		moved=$now
	fi
	used_before=$used used_at=$now
}

# noted TEXT: bitcoind is on its way if that is another text than before
noted() {
	[ "$1" != "$shown" ] || return 0
	shown=$1
	moved=$(seconds)
}

# restart_in SECONDS: by force, unless this script has ended before. A process that waits for a disk
# that hangs cannot be ended, and PID 1 goes on feeding the watchdog meanwhile. This one reads
# nothing but programs that were used before. Not if a restart would start the same trial again.
restart_in() {
	if [ -z "$1" ] || [ "$spent" = 3 ]; then return 0; fi
	(sleep "$1" && $systemctl --force reboot) &
	guards="$guards $!"
	# shellcheck disable=SC2064 # those that there are now
	trap "kill $guards 2>/dev/null || :" EXIT
}
