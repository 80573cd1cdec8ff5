# shellcheck shell=sh disable=SC2034,SC2154 # variables for who sources it
# What cairn-probe measured on the data disk, and what follows from it. Sourced by node-tune and
# cairn-probe, after storage-class.sh and cairn-health-facts.sh.
#   disk_speed ROOT DEVICE CLASS   reads the result for this very disk (its name below /sys/block
#                                  and its class)
# Sets   speed_disk   the disk's identity (health_disk); "-" if it has none, or its class is not
#                     measured
#        speed_write  KiB a second, written one after the other
#        speed_read   reads of 4 KiB a second, at random places, one at a time
#        speed_sync   microseconds for a write of 4 KiB with fdatasync
#                     all three are "" without a result that is as cairn-probe writes it
#        speed_class  the class whose settings suit the disk: CLASS, if nothing says otherwise
#        speed_words  half a sentence for --explain
#   disk_speed_matters CLASS       is this a class that is measured?
# The thresholds and their sources: docs/design/tuning.md.

disk_speed_matters() { case $1 in usb | sata) ;; *) return 1 ;; esac }

# The file belongs to a user with fewer rights than who reads it here. Its folder lies in one of
# root's, and nothing of that user runs any more when node-tune does. Still: no link is followed,
# nothing that is no file is opened, and only seven lines of these forms count.
disk_speed_result() { # FILE DISK
	[ -f "$1" ] && [ ! -L "$1" ] && [ "$(wc -c <"$1")" -le 256 ] || return 1
	LC_ALL=C awk -v disk="$2" '
		function is(name) {
			return index($0, name "=") == 1 &&
				(value = substr($0, length(name) + 2)) ~ /^[1-9][0-9]*$/ && length(value) <= 8
		}
		NR == 1 && $0 == "cairn-probe 1" { good++ }
		NR == 2 && $0 == "disk=" disk { good++ }
		NR == 3 && is("write_kib_per_s") { good++; found = value }
		NR == 4 && is("reads_per_s") { good++; found = found " " value }
		NR == 5 && is("sync_us") { good++; found = found " " value }
		NR == 6 && is("written_kib") { good++ }
		NR == 7 && $0 == "end" { good++ }
		END {
			if (good != 7 || NR != 7) exit 1
			print found
		}' "$1"
}

disk_speed() {
	speed_write="" speed_read="" speed_sync="" speed_class=$3 speed_disk=-
	if ! disk_speed_matters "$3"; then
		speed_words="not measured: nothing depends on it for $3"
		return 0
	fi
	speed_words="not measured: there is no result for this disk; its class decides"
	[ -z "$2" ] || speed_disk=$(health_disk "$1" "$2")
	[ "$speed_disk" != - ] || return 0
	speed_found=$(disk_speed_result "$1/var/lib/cairn/probe/result" "$speed_disk" 2>/dev/null) ||
		return 0
	speed_write=${speed_found%% *} speed_sync=${speed_found##* }
	speed_read=${speed_found#* } speed_read=${speed_read% *}
	case $3 in
	usb)
		if [ "$speed_write" -ge 51200 ] && [ "$speed_read" -ge 3500 ] &&
			[ "$speed_sync" -le 8000 ]; then speed_class=sata; fi
		;;
	sata)
		if [ "$speed_write" -lt 29297 ] || [ "$speed_read" -lt 1500 ]; then speed_class=sd; fi
		;;
	esac
	speed_words="measured: writes $(disk_speed_tenths "$speed_write" 1024) MiB/s,"
	speed_words="$speed_words $speed_read reads of 4 KiB a second,"
	speed_words="$speed_words $(disk_speed_tenths "$speed_sync" 1000) ms for a synced write;"
	if [ "$speed_class" = "$3" ]; then
		speed_words="$speed_words settings for $3"
	else
		speed_words="$speed_words settings for $speed_class instead of $3"
	fi
}

# tenths NUMBER UNIT: NUMBER in units, with one digit behind the point
disk_speed_tenths() { echo "$(($1 / $2)).$(($1 % $2 * 10 / $2))"; }
