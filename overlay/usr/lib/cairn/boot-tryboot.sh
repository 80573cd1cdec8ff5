# shellcheck shell=sh disable=SC2154 # boot and current are set by who sources it
# Which slot boots, by config.txt and tryboot.txt of the Raspberry Pi. Sourced by cairn-boot-slot
# and cairn-boot-files, which have set boot (/boot) and current (the slot that runs).
# docs/design/update.md explains the files. Both name a folder by os_prefix=; tryboot.txt is read
# for one boot, after `reboot '0 tryboot'`.

# loader_slot FILE: the slot that it names, the last line counts; fails without one
loader_slot() {
	# shellcheck disable=SC2002 # the shell's own word on a missing file cannot be left out
	named=$(cat "$boot/$1" 2>/dev/null | tr -d '\r' |
		sed -n 's/^os_prefix=slot-\([ab]\)\/$/\1/p' | tail -n 1)
	[ -n "$named" ] && echo "$named"
}

# The slot that `cairn-boot-slot reboot` starts. During a trial tryboot.txt has had its turn.
loader_primary() {
	if [ "$(loader_slot config.txt)" = "$current" ] && loader_slot tryboot.txt; then return 0; fi
	loader_slot config.txt
}

loader_may_boot() {
	[ -f "$boot/slot-$1/good" ] || [ "$(loader_slot config.txt)" = "$1" ] ||
		[ "$(loader_primary)" = "$1" ]
}

loader_committed() { [ -f "$boot/slot-$1/good" ] && [ "$(loader_slot config.txt)" = "$1" ]; }

loader_was_good() { [ -f "$boot/slot-$1/good" ]; }

# The EEPROM notes nothing of it, and nothing but `cairn-boot-slot reboot` leads to a try.
loader_tried() { return 1; }

# The firmware's watchdog is for trials only: a node that is slow once must not lose its system.
# kernel_watchdog_timeout is in seconds; config.txt has no such line. The firmware also hands it to
# Linux as watchdog.open_timeout: the time until systemd has to feed the watchdog (Raspberry Pi's
# documentation of config.txt). 60: what a slow USB disk needs as root, several times over.
loader_arm() {
	[ "$(loader_slot "slot-$1/config.txt")" = "$1" ] || return 1
	settings=$(cat "$boot/slot-$1/config.txt") || return 1
	{
		printf '%s\n' "$settings"
		echo "# One trial boot: if the kernel does not get as far as systemd, start again"
		echo "kernel_watchdog_timeout=60"
	} | fat_put "$boot/tryboot.txt"
}

loader_forget_tries() {
	[ "$(loader_slot tryboot.txt)" != "$1" ] || fat_remove "$boot/tryboot.txt"
}

# The EEPROM has forgotten the request before it starts anything.
loader_spent() { :; }
loader_spend() { :; }

# The mark first: a power cut before config.txt is in place leaves the old slot as the one that
# boots.
loader_good() {
	[ -f "$boot/slot-$1/good" ] || fat_put "$boot/slot-$1/good" </dev/null || return 1
	if [ "$(loader_slot config.txt)" != "$1" ]; then
		fat_put "$boot/config.txt" <"$boot/slot-$1/config.txt" || return 1
	fi
	loader_forget_tries "$1"
}

loader_bad() {
	fat_tidy "$boot/config.txt" && fat_tidy "$boot/tryboot.txt" && loader_forget_tries "$1" &&
		fat_remove "$boot/slot-$1/good"
}

# Did the loader read tryboot.txt? A number of four bytes says so (Raspberry Pi's documentation,
# "bootloader properties": tryboot); an EEPROM that does not know it writes none.
flag=$root/proc/device-tree/chosen/bootloader/tryboot
loader_tells() { [ -f "$flag" ]; }
loader_trial_boot() {
	loader_tells && [ "$(LC_ALL=C tr -d '\000' <"$flag" | wc -c)" -gt 0 ]
}

# No: whether all EEPROMs that write the flag set it is known from their documentation only.
loader_denies() { return 1; }

loader_reboot_argument() { echo '0 tryboot'; }

# SLOT CMDLINE FOLDER: cmdline.txt and config.txt of a slot, from what the bundle has for both
loader_files() {
	printf '%s\n' "$2" >"$3/cmdline.txt" &&
		sed "s/^os_prefix=.*/os_prefix=slot-$1\//" "$3/config.txt" >"$3/config.tmp" &&
		mv "$3/config.tmp" "$3/config.txt"
}
