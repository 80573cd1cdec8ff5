# shellcheck shell=sh disable=SC2154 # root, here, work, state, health: cairn-status's
# Sentences for the owner: what is wrong and what to do. Sourced by cairn-status.
#   reports   those of Cairn's scripts in the form for the page, which everybody in the local
#             network can read. The screen shows the files themselves.
#   warnings  the clock, a rebuild, health.json, Bitcoin Core's own; for screen and page
# Environment: $root prefix of all paths, $here the folder of this file, $work the one with the
# file facts, $state the answer to getblockchaininfo or nothing,
# $health what health_read printed.

# number NAME: of the answer, 0 for anything else
number() {
	value=$(field "$1")
	case $value in '' | *[!0-9]* | ????????????????*) value=0 ;; esac
	echo "$value"
}

day() { date -u -d "@$1" +%Y-%m-%d 2>/dev/null || echo "$1"; }

# clock: a sentence when the clock can be told to be wrong. No image runs before it was made,
# and consensus keeps the median time of the newest blocks behind the time of the network. An
# old newest block says less: a node that hears of no new ones has one, too.
clock() {
	now=$(date +%s)
	built=$(cat "$root/usr/share/cairn/built" 2>/dev/null) || built=""
	case $built in '' | *[!0-9]*) built=0 ;; esac
	tip=$(number mediantime)
	advice="check the network: the node takes the time from NTP servers."
	# Without tor= the node would connect in the clear.
	[ -z "$locked" ] || advice="no time server is asked with tor=only: write tor=1 in its place for"
	[ -z "$locked" ] || advice="$advice one start, or use a clock with a battery."
	[ "$(node_record "$root" network)" != off ] ||
		advice="no time server is asked while the network is off: correct node.conf and restart."
	if [ "$now" -lt "$built" ]; then
		echo "The clock is wrong: it says $(day "$now"), before this image was made; $advice"
	elif [ "$now" -lt "$tip" ]; then
		echo "The clock is wrong: it says $(day "$now")," \
			"the newest blocks are of $(day "$tip"); $advice"
	elif [ "$tip" -gt 0 ] && [ $((now - tip)) -gt 86400 ] && [ "$(field chain)" = main ] &&
		[ "$(number blocks)" = "$(number headers)" ] && grep -q '^peer   {' "$work/facts"; then
		advice="either the clock is wrong, or the peers send no new blocks."
		echo "The newest block is of $(day "$tip"), but the clock says $(day "$now"): $advice"
	fi
}

# data_disk: datadisk.report, standard input, without models and serial numbers of disks, and
# without the words of cp and systemd-repart, which may have names of wallets. Only known sentences
# pass.
data_disk() {
	while IFS= read -r line; do
		case $line in
		'Put a # in front of erase= in node.conf: it is done.' | \
			"There is no room for the data on the system's "*)
			printf '%s\n' "$line"
			;;
		'datadisk= in node.conf cannot be used; the data stay '*)
			echo "datadisk= in node.conf cannot be used; the data stay where they are."
			;;
		'datadisk= in node.conf is not the disk with the data, which stay '*)
			echo "datadisk= in node.conf is not the disk with the data, which stay where they are." \
				"To move them, write datadisk=system first."
			;;
		*)
			echo "There is a message about the disk for the data; the node's screen and node-status" \
				"show it."
			;;
		esac
	done
}

# Of these files each line is a sentence of our scripts. One that no rule is for stays on the
# screen: it may be made of what only the owner is to see.
reports() {
	for report in "$root"/run/cairn/*.report; do
		[ -s "$report" ] || continue
		name=${report##*/}
		case ${name%.report} in
		node-conf)
			# It quotes lines of the file, which may hold a password.
			sed -n 's/^node\.conf line \([0-9]\{1,6\}\): .*/\1/p' "$report" |
				head -n 5 | sed 's/.*/Line & of node.conf cannot be used and is left out; the/
					s/$/ node'"'"'s screen and node-status say why./'
			! grep -qv '^node\.conf line [0-9]' "$report" ||
				echo "There is a message about node.conf; the node's screen and node-status show it."
			;;
		bitcoind)
			awk -f "$here/cairn-status-bitcoind.awk" "$here/verdict.tsv" "$report"
			;;
		# The name of a wallet may be in why bitcoind is held back. updateurl= is a line of node.conf.
		update) sed -n -e '/held back/d' -e 's|https\{0,1\}://[^ ]*|URL|g' -e '/^Version /p' \
			-e '/^The USB stick has /p' "$report" ;;
		# Only that the screen shows a password: the rest is for who sees the screen.
		wallet)
			! grep -q '^The password for wallets is shown on this screen: ' "$report" ||
				echo "The node's screen shows the password for wallets to whoever sees it; put a #" \
					"in front of walletshow=1 in node.conf when you have copied it, and restart."
			;;
		datadisk) data_disk <"$report" ;;
		data-format | node-tune) sed 's/"[^"]*"/(see the screen)/g' "$report" ;;
		esac 2>/dev/null || :
	done
}

warnings() {
	# After a reboot the report of cairn-bitcoind-verdict is gone, its rebuild is not.
	[ -s "$root/run/cairn/bitcoind.report" ] || [ -e "$root/var/lib/cairn/initial-sync-done" ] ||
		[ "$(field initialblockdownload)" = false ] ||
		awk 'sub(/^what=/, "") {
			print "A damaged database is being rebuilt (" $0 "); the chain is fetched and" \
				" checked again, wallet and settings are kept."
		}' "$root/var/lib/cairn/rebuild" 2>/dev/null || :
	# With the lock of cairn-tor-firewall no time server is ever asked.
	locked=$(node_record "$root" lock)
	wrong=$(clock)
	[ -z "$wrong" ] || printf '%s\n' "$wrong"
	told=$wrong$locked
	health_advice "${told:+clock}"
	# Core's own, one a line
	printf '%s\n' "$state" | awk '
		/^  "warnings": \[$/ { inside = 1; next }
		/^  \]/ { inside = 0 }
		inside { sub(/^ *"/, ""); sub(/",?$/, ""); print "Bitcoin Core warns: " $0 }'
}
