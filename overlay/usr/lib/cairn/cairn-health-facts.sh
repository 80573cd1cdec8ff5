# shellcheck shell=sh disable=SC2154 # storage_class and storage_device are storage-class.sh's
# What kernel and firmware say of the machine's health. Sourced by cairn-health, node-tune and
# cairn-probe; ROOT is the prefix of all paths, for tests. storage-class.sh comes first.
#   health_facts ROOT UPTIME   prints lines "NAME VALUE" and "disk ..." for cairn-health.awk; of
#                              what is not known there is no line, or "-" in the line of a disk
#   health_line FILE           its first line, printable, at most 256 bytes; nothing if unreadable
#   health_whole FILE          a whole number of at most 15 digits, or "-"
#   health_clock_set ROOT      true, false, or nothing when it cannot be told
#   health_disk ROOT DEVICE    a name for this very disk: a hash of serial number, model and size
# Only counters and values of the kernel's own are read, no text that others can write. Sources
# and units of each figure: docs/design/health.md.

# What is no text becomes "?", which is no number either: nothing is made up of its rest.
health_line() {
	[ -f "$1" ] || return 0
	LC_ALL=C head -c 256 "$1" 2>/dev/null | LC_ALL=C tr -c ' -~\n' '?' | head -n 1
}

health_whole() {
	found=$(health_line "$1")
	case $found in '' | *[!0-9]* | 0?* | ????????????????*) found="-" ;; esac
	echo "$found"
}

# hex FILE: the number of a line such as 0x1f (SCSI), or "-"
health_hex() {
	found=$(health_line "$1")
	case $found in 0x*) found=${found#0x} ;; *) found="" ;; esac
	case $found in '' | *[!0-9a-f]* | ?????????*) echo - ;; *) echo $((0x$found)) ;; esac
}

# millidegrees FILE: sets found; of what a sensor can measure
health_millidegrees() {
	found=$(health_line "$1")
	case ${found#-} in '' | *[!0-9]* | 0?* | ???????*) return 1 ;; esac
	[ "$found" -ge -40000 ] && [ "$found" -le 150000 ]
}

# The processor's own zone, then ACPI's, then the sensors of processors without a zone.
health_temperature() {
	zone="" sensor=""
	for wanted in cpu-thermal cpu_thermal soc-thermal x86_pkg_temp acpitz; do
		for zone in "$1"/sys/class/thermal/thermal_zone*; do
			if [ "$(health_line "$zone/type")" = $wanted ] && health_millidegrees "$zone/temp"; then
				sensor=$zone/temp
				break 2
			fi
		done
	done
	[ -n "$sensor" ] || for chip in "$1"/sys/class/hwmon/hwmon*; do
		case $(health_line "$chip/name") in k10temp | coretemp) ;; *) continue ;; esac
		if health_millidegrees "$chip/temp1_input"; then sensor=$chip/temp1_input zone="" && break; fi
	done
	[ -n "$sensor" ] || return 0
	echo "temperature $found"
	[ -n "$zone" ] || return 0
	# where Linux begins to slow the processor down
	limit=""
	for trip in "$zone"/trip_point_*_type; do
		case $(health_line "$trip") in passive | hot) ;; *) continue ;; esac
		# x86_pkg_temp has 0 where nobody has set one
		if ! health_millidegrees "${trip%_type}_temp" || [ "$found" -lt 60000 ]; then continue; fi
		if [ -z "$limit" ] || [ "$found" -lt "$limit" ]; then limit=$found; fi
	done
	[ -z "$limit" ] || echo "limit $limit"
}

# Power and throttling. Firmware's bits (0 under-voltage, 1 to 3 slowed down, 16 to 19 the same
# since the boot) are there with Raspberry Pi's own kernel only; what a boot has had is in RAM.
health_power() {
	low="" low_ever="" slow="" slow_ever=""
	for bits in "$1"/sys/devices/platform/soc*/soc*:firmware/get_throttled; do
		bits=$(health_line "$bits")
		case $bits in '' | *[!0-9a-f]* | ?????????*) continue ;; esac
		bits=$((0x$bits))
		low=$((bits & 1)) low_ever=$((bits >> 16 & 1))
		slow=$(((bits & 14) != 0)) slow_ever=$(((bits >> 16 & 14) != 0))
	done
	for chip in "$1"/sys/class/hwmon/hwmon*; do
		[ "$(health_line "$chip/name")" = rpi_volt ] || continue
		case $(health_line "$chip/in0_lcrit_alarm") in
		0) low=$((${low:-0})) low_ever=$((${low_ever:-0})) ;;
		1) low=1 low_ever=1 ;;
		esac
	done
	for cooler in "$1"/sys/class/thermal/cooling_device*; do
		case $(health_line "$cooler/type") in
		Processor | *cpufreq-cpu* | thermal-cpufreq-*) ;;
		*) continue ;;
		esac
		case $(health_whole "$cooler/cur_state") in
		-) ;;
		0) slow=$((${slow:-0})) slow_ever=$((${slow_ever:-0})) ;;
		*) slow=1 slow_ever=1 ;;
		esac
	done
	for counter in "$1"/sys/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count; do
		case $(health_whole "$counter") in
		-) ;;
		0) slow_ever=$((${slow_ever:-0})) ;;
		*) slow_ever=1 ;;
		esac
	done
	[ ! -d "$1/run/cairn/undervoltage" ] || low_ever=1
	if health_ever "$1/run/cairn/health/undervoltage" "$low_ever"; then low_ever=1; fi
	if health_ever "$1/run/cairn/health/throttled" "$slow_ever"; then slow_ever=1; fi
	echo "undervoltage_now ${low:--}"
	echo "undervoltage_since_boot ${low_ever:--}"
	echo "throttled_now ${slow:--}"
	echo "throttled_since_boot ${slow_ever:--}"
}
# ever FILE VALUE: was it so at any look since the boot?
health_ever() {
	[ "$2" != 1 ] || : >"$1"
	[ -e "$1" ]
}

# The date on which the boot loader in the Raspberry Pi's EEPROM was made, which it puts into the
# device tree: 4 bytes, the highest first. Before 2018 there was none.
health_firmware() {
	file=$1/sys/firmware/devicetree/base/chosen/bootloader/build-timestamp
	[ -f "$file" ] || return 0
	stamp=$(head -c 8 "$file" 2>/dev/null | od -An -v -tx1 | tr -d ' \n')
	[ ${#stamp} = 8 ] && [ $((0x$stamp)) -ge 1514764800 ] || return 0
	echo "boot_firmware_date $(date -u -d "@$((0x$stamp))" +%Y-%m-%d)"
}

# From the network by systemd-timesyncd, or at the boot from a clock that runs without power; never
# when it is behind the date of the image.
health_clock_set() {
	built=$(health_whole "$1/usr/share/cairn/built")
	if [ "$built" != - ] && [ "$(date +%s)" -lt "$built" ]; then
		echo false
		return 0
	fi
	if [ -e "$1/run/systemd/timesync/synchronized" ]; then
		echo true
		return 0
	fi
	for clock in "$1"/sys/class/rtc/rtc*; do
		if [ "$(health_line "$clock/hctosys")" = 1 ]; then echo true && return 0; fi
	done
	[ ! -d "$1/run/systemd/timesync" ] || echo false
}

health_disk() {
	words=""
	for name in size serial wwid device/serial device/cid device/wwid device/vpd_pg80 device/model; do
		words="$words/$(health_line "$1/sys/block/$2/$name")"
	done
	case $words in /[1-9]*) printf %s "$words" | sha256sum | cut -c1-16 ;; *) echo - ;; esac
}

# written DISK: bytes since the disk was found; the kernel counts sectors of 512 bytes
health_written() {
	sectors=$(health_line "$1/stat" | awk '{ print $7 }')
	case $sectors in
	'' | *[!0-9]* | 0?* | ????????????????*) echo - ;;
	*) echo $((sectors * 512)) ;;
	esac
}

# A line "disk NAME KIND DATA WRITTEN FAILED TIMEOUTS LIFE RESERVE" for each
health_disks() {
	seen=0
	for disk in "$1"/sys/block/*; do
		name=${disk##*/}
		case $name in
		*[!a-z0-9]* | *boot[0-9]* | *rpmb*) continue ;;
		mmcblk[0-9]* | nvme[0-9]* | sd[a-z]* | vd[a-z]*) ;;
		*) continue ;;
		esac
		seen=$((seen + 1))
		[ $seen -le 16 ] || break
		path=$(readlink -f "$disk")
		storage_kind "$path"
		life="-" reserve="-"
		if [ "$storage_class" = emmc ]; then
			life=$(health_line "$path/device/life_time")
			reserve=$(health_line "$path/device/pre_eol_info")
			case $life in 0x[0-9a-f][0-9a-f]\ 0x[0-9a-f][0-9a-f]) ;; *) life="-" ;; esac
			case $reserve in 0x0[123]) ;; *) reserve="-" ;; esac
		fi
		if [ "$life" != - ]; then
			a=$((${life% *})) b=$((${life#* }))
			# types A and B of memory; 0: not told, 11: more than all
			life=$((a > b ? a : b))
			if [ $life -lt 1 ] || [ $life -gt 11 ]; then life="-"; else life=$((life * 10)); fi
		fi
		data=false
		[ "$name" != "$storage_device" ] || data=true
		echo "disk $name $storage_class $data $(health_written "$path")" \
			"$(health_hex "$path/device/ioerr_cnt") $(health_hex "$path/device/iotmo_cnt")" \
			"$life $reserve"
	done
}

# What cairn-link has noted: the longest silence, restarts of all ports, the last of them
health_link() {
	[ -f "$1/run/cairn/link/state" ] || return 0
	head -c 4096 "$1/run/cairn/link/state" 2>/dev/null | LC_ALL=C tr -c ' -~\n' '?' |
		awk -v now="$2" '
			function is(word) { return word ~ /^[0-9]+$/ && length(word) < 12 && word + 0 <= now + 0 }
			NF != 4 { next }
			is($2) && now - $2 > silent { silent = now - $2 }
			is($3) && (ago == "" || now - $3 < ago) { ago = now - $3 }
			$4 ~ /^[0-9]+$/ && length($4) < 9 { count += $4 }
			END {
				print "gateway_silent_seconds " silent + 0
				print "link_restarts " count + 0
				if (ago != "") print "last_link_restart_seconds_ago " ago
			}'
}

# storage_class ROOT DIR comes first: it says which disk has the data.
health_facts() {
	health_temperature "$1"
	health_power "$1"
	health_firmware "$1"
	clock=$(health_clock_set "$1")
	[ -z "$clock" ] || echo "clock_set $clock"
	errors=$(health_whole "$1/sys/fs/ext4/${storage_partition:-none}/errors_count")
	[ "$errors" = - ] || echo "filesystem_errors $errors"
	health_link "$1" "$2"
	health_disks "$1"
}
