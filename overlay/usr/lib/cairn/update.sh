# shellcheck shell=sh disable=SC2034,SC2154 # root and here are set by who sources it
# What cairn-update, cairn-trial, cairn-update-allowed and node-update share. Sourced; root is the
# prefix of all paths, here the folder of Cairn's scripts. docs/design/update.md has the whole. RAUC
# mounts bundles at /run/cairn/rauc and keeps /var/lib/cairn/update/rauc.status
# (board/common/rauc.conf).
update_state=$root/var/lib/cairn/update
update_slots=$here/cairn-boot-slot

# update_value FILE KEY: of a file of KEY=VALUE lines; a value has letters, digits and .+~-
update_value() {
	sed -n "s/^$2=\([0-9A-Za-z.+~-]\{1,64\}\)\$/\1/p" "$1" 2>/dev/null | head -n 1
}

# update_version: what runs; the same as on the screen
# shellcheck source=overlay/usr/lib/cairn/cairn-version.sh
. "$here/cairn-version.sh"
update_version() { cairn_version "$root"; }

# update_board: the name of the board that this image is for
update_board() {
	sed -n 's/^VARIANT_ID="\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$root/usr/lib/os-release" | head -n 1
}

# update_compare A B: prints older, same or newer, as A is to B. Parts are between . and -; a word
# counts less than nothing (1.0-rc1 is older than 1.0), numbers by their value.
update_compare() {
	printf '%s %s\n' "$1" "$2" | LC_ALL=C awk '
		function rank(part) { return part == "" ? 0 : part ~ /^[0-9]+$/ ? part + 0 : -1 }
		{
			n = split($1, a, /[.~+-]/); m = split($2, b, /[.~+-]/)
			for (i = 1; i <= (n > m ? n : m); i++) {
				x = rank(a[i]); y = rank(b[i])
				if (x == y && x < 0) { x = (a[i] "") > (b[i] ""); y = (a[i] "") < (b[i] "") }
				if (x != y) { print x < y ? "older" : "newer"; exit }
			}
			print "same"
		}'
}

# update_failures VERSION: how often its trial has failed
update_failures() {
	failures=$(awk -v version="$1" '$1 == version && $2 ~ /^[0-9][0-9]?$/ { n = $2 }
		END { print n + 0 }' "$update_state/failed" 2>/dev/null) || failures=0
	echo "$failures"
}

# update_say SENTENCE: on the screen until the next one, and in the journal. Printable ASCII. It
# never fails: what follows it, such as a restart, must not depend on a screen or a terminal. A
# trial that ends early has no /run/cairn yet.
update_say() {
	update_text=$(printf '%s' "$*" | LC_ALL=C tr -c ' -~' '?') || :
	printf '%s\n' "$update_text" || :
	{
		mkdir -p "$root/run/cairn" &&
			printf '%s\n' "$update_text" >"$root/run/cairn/update.report.new" &&
			chmod 644 "$root/run/cairn/update.report.new" &&
			mv "$root/run/cairn/update.report.new" "$root/run/cairn/update.report"
	} 2>/dev/null || :
}

# update_lasting NAME: standard input becomes that file of ours on the data partition
update_lasting() {
	set -- "$update_state" "$1"
	{
		mkdir -p "$1" && cat >"$1/$2.new" && sync "$1/$2.new" && mv "$1/$2.new" "$1/$2" && sync "$1"
	} 2>/dev/null
}

# update_trial SLOT PHASE VERSION: notes what is to be tried, and the tip that it has to reach.
# PHASE: installed, or going from the moment when the restart is asked for.
update_trial() {
	answer=$(${NODE_CLI:-node-cli -rpcclienttimeout=60} getblockchaininfo 2>/dev/null) || answer=""
	height=$(printf '%s\n' "$answer" | sed -n 's/^  "blocks": \([0-9]\{1,9\}\),$/\1/p')
	[ -n "$height" ] || height=$(update_value "$update_state/trial" height)
	# They are no fault of the version that is tried.
	${CAIRN_SYSTEMCTL:-systemctl} list-units --state=failed --no-legend --plain --no-pager \
		2>/dev/null | awk 'NF { print $1 }' | update_lasting failed-units || :
	printf 'slot=%s\nphase=%s\nversion=%s\nfrom=%s\nheight=%s\n' "$1" "$2" "$3" \
		"$(update_version)" "${height:-0}" | update_lasting trial
}

# update_restart: tries what is installed
update_restart() {
	slot=$(update_value "$update_state/trial" slot)
	version=$(update_value "$update_state/trial" version)
	update_trial "$slot" going "$version" ||
		update_say "The data partition cannot be written, so a failure of version $version would" \
			"not be remembered; it is tried all the same."
	"$update_slots" ${root:+--root "$root"} reboot
}

# update_not_now: prints why nothing may be installed at the moment, or nothing
update_not_now() {
	read -r up _ <"$root/proc/uptime"
	if [ "${up%%.*}" -lt 600 ]; then
		echo "the node was started less than 10 minutes ago; try again later"
	elif ! "$update_slots" ${root:+--root "$root"} committed 2>/dev/null; then
		echo "the running version is not known to be good yet, or this image has no second slot"
	elif [ "$(${CAIRN_SYSTEMCTL:-systemctl} is-system-running 2>/dev/null)" = stopping ]; then
		echo "the node is being shut down"
	elif [ "$(${CAIRN_SYSTEMCTL:-systemctl} show -p ActiveState --value bitcoind.service \
		2>/dev/null)" = deactivating ]; then
		echo "the data of bitcoind are being written to the disk; try again when that has ended"
	fi
}

# update_devices: the names of the slots' partitions for RAUC, on the disk that the system runs
# from: another disk may have partitions of the same names.
update_devices() {
	disk=$(datadisk_system_disk) || return 1
	mkdir -p "$root/dev/cairn"
	for label in root-a root-b; do
		part=$(datadisk_find "$disk" "$label") || return 1
		ln -sfn "../$part" "$root/dev/cairn/$label"
	done
}

# update_host URL: its host in small letters, without user, port and the dot at the end
update_host() {
	printf '%s\n' "$1" | LC_ALL=C tr '[:upper:]' '[:lower:]' |
		sed 's,^[a-z]*://,,; s,[/?#].*,,; s,.*@,,; s,:[0-9]*$,,; s,\.$,,'
}

# update_proxy URL: sets proxy to what curl takes, "" for none; fails with a sentence in why where
# node.conf restricts the network in a way that a download would go around.
update_proxy() {
	proxy="" why=""
	records=$root/run/cairn/node-conf.records
	if [ ! -s "$records" ]; then
		why="node.conf was not read"
	elif [ "$(sed -n 's/^network //p' "$records")" = off ]; then
		why="the network is off, see node.conf"
	elif grep -q '^tor ' "$records"; then
		proxy=socks5h://127.0.0.1:9050
	else
		found=$(sed -n 's/^option [^ ]* proxy=//p' "$records")
		case $found in
		'') ;;
		*[!0-9A-Za-z.:\[\]-]* | unix:*) why="proxy= in node.conf is not one for everything" ;;
		*) proxy=socks5h://$found ;;
		esac
		# Those say who comes in, or what is shown at home.
		private=""
		[ -n "$proxy$why" ] || private=$(sed -n 's/^private //p' "$records")
		for name in $private; do
			case $name in
			chain | mdns | page | listen | bind | whitebind | discover | natpmp | listenonion) ;;
			*)
				why="the lines of node.conf restrict where the node goes ($name=),"
				why="$why and a download would not follow"
				;;
			esac
		done
	fi
	case $(update_host "$1") in
	*.onion)
		[ -n "$proxy$why" ] || why="an address of Tor needs tor= or proxy= in node.conf"
		;;
	esac
	[ -z "$why" ]
}

# update_words FILE: prints what RAUC said last of a failure, from its output: the line before
# "finished", or what its service calls LastError. Printable ASCII, 200 characters.
update_words() {
	LC_ALL=C awk '
		/^LastError: / { said = substr($0, 12) }
		/^finished$/ && said == "" { said = before }
		{ before = $0 }
		END { print said }' "$1" 2>/dev/null | LC_ALL=C tr -c '\n -~' '?' | cut -c1-200
}

# update_because WORDS: sets why to a sentence for what RAUC says of a bundle that it does not take
update_because() {
	case $1 in
	*"not yet valid"*)
		why="the node's clock says $(date -u +%Y-%m-%d), which is before the first day of the"
		why="$why bundle's certificate; connect the node to a network whose time servers set the clock"
		;;
	*expired*)
		why="by the node's clock, $(date -u +%Y-%m-%d), the certificate that signed it has ended;"
		why="$why take a bundle that was signed later"
		;;
	*[Ss]ignature* | *certificate*) why="it is not signed for this node ($1)" ;;
	'') why="it is not signed for this node, is damaged, or could not be read to its end" ;;
	*) why="RAUC says: $1" ;;
	esac
}

# update_take_back: nothing is tried at the next restart. If that cannot be written, it is noted as
# installed, and unchanged says so.
update_take_back() {
	other=$(update_other)
	armed=$("$update_slots" ${root:+--root "$root"} get-primary) || armed=""
	unchanged="Nothing has changed."
	if [ "$armed" != "$other" ] || "$update_slots" ${root:+--root "$root"} set-primary \
		"$("$update_slots" ${root:+--root "$root"} get-current)"; then
		rm -f "$update_state/trial" || :
		return 0
	fi
	version=$(update_value "$root/boot/slot-$other/release" version)
	unchanged="But the boot partition cannot be written, so the next restart tries version"
	unchanged="$unchanged $version."
	update_trial "$other" installed "$version" || :
}

# update_install SOURCE ALLOW [BY_ITSELF]: has RAUC install a bundle, a file or an URL. ALLOW: words
# of cairn-update-allowed. BY_ITSELF: nobody asked for it now, so a failure has to be remembered.
# Prints what happens; returns 1 when it failed, with the reason in why, and in unchanged what that
# means; busy is 1 if another one has the screen. Neither Ctrl-C nor a connection that ends stops
# it; SIGTERM ends RAUC, and this in order.
update_install() {
	unchanged="Nothing has changed." busy=""
	why=$(update_not_now)
	[ -z "$why" ] || return 1
	proxy=""
	case $1 in
	http://* | https://*) update_proxy "$1" || return 1 ;;
	esac
	if ! update_devices; then
		why="the partitions of the two slots were not found on the system's disk"
		return 1
	fi
	# The lock is gone with the last process that has it open, however that ends.
	why="/run/cairn cannot be written"
	touch "$root/run/cairn/update.lock" || return 1
	exec 8>"$root/run/cairn/update.lock"
	if ! flock -n 8; then
		why="another update is being installed" busy=1
		return 1
	fi
	trap '' HUP INT PIPE
	trap : TERM
	rm -f "$root/run/cairn/update.why" "$root/run/cairn/update.done"
	# For the version that runs now, should the next one need other lines.
	[ ! -f "$root/var/lib/cairn/node.conf" ] ||
		(umask 077 && update_lasting node.conf <"$root/var/lib/cairn/node.conf") || :
	if ! printf 'phase=writing\n' | update_lasting trial && [ -n "${3:-}" ]; then
		why="the data partition cannot be written, so a failure would not be remembered"
		return 1
	fi
	rm -f "$update_state/last"
	update_say "An update is being written. The version that runs stays as it is;" \
		"you may pull the plug."
	{
		CAIRN_UPDATE_ALLOW=$2 all_proxy=$proxy ALL_PROXY=$proxy no_proxy='' \
			${CAIRN_RAUC:-rauc} install "$1" 2>&1 && : >"$root/run/cairn/update.done"
	} | (umask 077 && tee "$root/run/cairn/update.log") || :
	other=$(update_other)
	version=$(update_value "$root/boot/slot-$other/release" version)
	armed=$("$update_slots" ${root:+--root "$root"} get-primary) || armed=""
	if [ ! -e "$root/run/cairn/update.done" ] || [ "$armed" != "$other" ]; then
		update_take_back
		update_because "$(update_words "$root/run/cairn/update.log")"
		found=$(head -n 1 "$root/run/cairn/update.why" 2>/dev/null | LC_ALL=C tr -c '\n -~' '?')
		why=${found:-"$why"}
		return 1
	fi
	update_trial "$other" installed "$version" || :
	update_say "Version $version is installed and is tried at the next restart" \
		"(node-update reboot); until it has proved itself, the old version stays."
}

# update_other: the slot that does not run
update_other() {
	case $("$update_slots" ${root:+--root "$root"} get-current) in
	a) echo b ;;
	*) echo a ;;
	esac
}
