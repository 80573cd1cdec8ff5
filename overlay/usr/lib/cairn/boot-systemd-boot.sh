# shellcheck shell=sh disable=SC2154 # boot and current are set by who sources it
# Which slot boots, by systemd-boot's boot counting. Sourced by cairn-boot-slot and
# cairn-boot-files, which have set boot (/boot) and current (the slot that runs).
# docs/design/update.md explains the files.
#
# An entry is cairn-SLOT.conf, or cairn-SLOT+LEFT.conf or cairn-SLOT+LEFT-DONE.conf while its boots
# are counted. One with no tries left comes last; of the others the one with the highest `version`
# is started, which is a counter here (boot_entry_compare() in systemd 262's src/boot/boot.c).
entries=$boot/loader/entries

# Prints "SLOT LEFT NUMBER" for each entry, with LEFT - for one that is not counted.
entries_list() {
	for entry in "$entries"/cairn-[ab].conf "$entries"/cairn-[ab]+*.conf; do
		[ -f "$entry" ] || continue
		name=${entry##*/cairn-}
		name=${name%.conf}
		left=-
		case $name in
		?+*)
			left=${name#*+}
			left=${left%%-*}
			;;
		esac
		case $left in -) ;; '' | *[!0-9]* | ?????*) continue ;; esac
		# of an image before there were updates it is the version of the system, 0.N
		number=$(sed -n 's/^version \([0-9]\{1,9\}\).*/\1/p' "$entry" | head -n 1)
		echo "${name%"${name#?}"} $left ${number:-0}"
	done
}

# The slot that is started next
loader_primary() {
	entries_list | awk '
		$2 != "-" && $2 + 0 == 0 { next }
		best == "" || $3 + 0 > number { best = $1; number = $3 + 0 }
		END { if (best == "") exit 1; print best }'
}

# Was the slot good once, or may it be tried yet?
loader_may_boot() {
	entries_list | awk -v slot="$1" '
		$1 == slot && ($2 == "-" || $2 + 0) { yes = 1 }
		END { exit !yes }'
}

# Does the slot stay? A counted entry with a higher number is a trial of it. One with the number of
# the lasting entry is what a power cut in loader_good has left.
loader_committed() {
	[ -f "$entries/cairn-$1.conf" ] || return 1
	entries_list | awk -v slot="$1" '
		$1 != slot { next }
		$2 == "-" { lasting = $3 + 0 }
		$2 != "-" && $3 + 0 > counted { counted = $3 + 0 }
		END { exit counted > lasting }'
}

loader_was_good() { [ -f "$entries/cairn-$1.conf" ]; }

# Is there an entry whose tries have been used up? A new one comes with the next arming only. One
# with the number of the lasting entry, which entries_list prints first, is of a trial that is over.
loader_tried() {
	entries_list | awk -v slot="$1" '
		$1 != slot { next }
		$2 == "-" { lasting = $3 + 0; next }
		$3 + 0 > lasting { if ($2 + 0) left = 1; else none = 1 }
		END { exit left || !none }'
}

# SLOT CMDLINE VERSION: boots next, once
loader_arm() {
	number=$(entries_list | awk '$3 + 0 > most { most = $3 + 0 } END { print most + 1 }')
	loader_forget_tries "$1" || return 1
	{
		echo "title Cairn $3"
		echo "version $number"
		echo "sort-key cairn"
		echo "linux /slot-$1/linux"
		[ ! -f "$boot/slot-$1/microcode.img" ] || echo "initrd /slot-$1/microcode.img"
		# By this word a trial knows that it is one without /boot; the lasting entry has it not.
		echo "options $2 cairn.trial"
	} | fat_put "$entries/cairn-$1+1.conf"
}

loader_forget_tries() {
	for entry in "$entries/cairn-$1"+*.conf; do
		fat_remove "$entry" || return 1
	done
}

# Are there no tries left of the slot that runs? systemd-boot takes one before it starts an entry.
# It does so by renaming a file, and starts the entry, too, where the firmware cannot do that.
loader_spent() {
	entries_list | awk -v slot="$1" '
		$1 == slot && $2 != "-" && $2 + 0 { left = 1 }
		END { exit left }'
}

loader_spend() {
	for entry in "$entries/cairn-$1"+*.conf; do
		[ -f "$entry" ] || continue
		left=${entry##*+}
		left=${left%.conf}
		case ${left%%-*} in *[!0]*) ;; *) continue ;; esac
		fat_put "$entries/cairn-$1+0-1.conf" <"$entry" && fat_remove "$entry" || return 1
	done
}

# The lasting entry is there before the counted one goes.
loader_good() {
	if ! loader_committed "$1"; then
		for entry in "$entries/cairn-$1"+*.conf; do
			[ -f "$entry" ] || continue
			lines=$(sed '/^options /s/ cairn\.trial$//' "$entry") || return 1
			printf '%s\n' "$lines" | fat_put "$entries/cairn-$1.conf" || return 1
		done
	fi
	[ -f "$entries/cairn-$1.conf" ] && loader_forget_tries "$1"
}

loader_bad() {
	for entry in "cairn-$1.conf" "cairn-$1+1.conf" "cairn-$1+0-1.conf"; do
		fat_tidy "$entries/$entry" || return 1
	done
	loader_forget_tries "$1" && fat_remove "$entries/cairn-$1.conf"
}

# Did the loader start a trial?
loader_trial_boot() { tr ' ' '\n' <"$root/proc/cmdline" | grep -qx cairn.trial; }

# Does its word say that no trial runs, whatever /boot says? The kernel of another disk may have
# been started, with the root file system of a slot here that is none of the good ones.
loader_denies() { ! loader_trial_boot; }

# Would it tell? Each entry with one try has the word.
loader_tells() { :; }

# No argument: any restart tries what is armed.
loader_reboot_argument() { :; }

# SLOT CMDLINE FOLDER: what only this loader needs in a slot's folder
loader_files() { :; }
