# shellcheck shell=sh
# What screen and page make of health.json. Sourced by cairn-status and node-status; ROOT is the
# prefix of all paths, for tests.
#   health_read ROOT  prints the file if it is of the last 5 minutes, otherwise nothing
#   figure NAME       number or date of that key in $health; nothing if it has another form
#   health_advice [WORD]  one sentence a line for each matter in "attention" but WORD
# The folder is the collector's, which could put a link there: whatever the file is, at most 16 KiB
# of it are read, and only figures in their form and words of the list below leave here.

health_read() {
	health=$(LC_ALL=C head -c 16384 "$1/run/cairn/health.json" 2>/dev/null |
		LC_ALL=C tr -c ' -~\n' '?') || health=""
	{ read -r since_boot _ <"$1/proc/uptime"; } 2>/dev/null || since_boot=""
	written=$(figure uptime_seconds)
	case ${since_boot%%.*} in '' | *[!0-9]* | 0?* | ????????????*) return 0 ;; esac
	case $written in '' | *[!0-9]*) return 0 ;; esac
	age=$((${since_boot%%.*} - written))
	[ $age -lt 0 ] || [ $age -gt 300 ] || printf '%s\n' "$health"
}

# Whole numbers without the tenths; no leading zeros, which a shell would read as octal.
figure() {
	printf '%s\n' "$health" |
		sed -nE -e "s/^  \"$1\": (0|-0|-?[1-9][0-9]{0,11})(\.[0-9])?,\$/\1/p" \
			-e "s/^  \"$1\": \"([0-9]{4}-[0-9]{2}-[0-9]{2})\",\$/\1/p" | head -n 1
}

health_advice() {
	printf '%s\n' "$health" | sed -n 's/^  "attention": \["\([a-z0-9:", -]*\)"\],$/\1/p' |
		head -n 1 | sed 's/", "/ /g' | tr ' ' '\n' | head -n 20 | while read -r what; do
		case $what in
		"${1-}") ;;
		undervoltage)
			echo "The power supply was too weak for a moment since the start (under-voltage);" \
				"this damages cards and files. Use a better supply and cable" \
				"(27 W for a Raspberry Pi 5)."
			;;
		throttled)
			echo "The processor is slowed down because of heat or a weak power supply;" \
				"nothing is lost, but the node is slower. Check fan, air and supply."
			;;
		hot)
			echo "The processor is hot ($(figure temperature_celsius) C), which shortens its life;" \
				"check fan and air."
			;;
		clock)
			echo "The clock has not been set since the start: no time server has answered;" \
				"check the network."
			;;
		filesystem-errors)
			echo "The file system of the data disk had errors (count: $(figure filesystem_errors));" \
				"save the wallet, then restart, which repairs it. If they come back," \
				"replace the card or disk."
			;;
		disk-timeouts)
			echo "The data disk did not answer in time; check its cable and power supply," \
				"and replace it if this goes on."
			;;
		disk-worn:*)
			echo "The disk ${what#disk-worn:} is nearly worn out, as it says itself;" \
				"save the wallet and replace it."
			;;
		link) health_link_advice ;;
		esac
	done
}

health_link_advice() {
	restarts=$(figure link_restarts)
	ago=$(figure last_link_restart_seconds_ago)
	words="The router does not answer although the cable is in"
	[ "$(figure gateway_silent_seconds)" != 0 ] ||
		words="The router did not answer for a while although the cable was in"
	[ "${restarts:-0}" = 0 ] ||
		words="$words; the link was restarted $restarts times, last ${ago:+$((ago / 60)) minutes ago}"
	echo "$words. Check cable, switch and router."
}
