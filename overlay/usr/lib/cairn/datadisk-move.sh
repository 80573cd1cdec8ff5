# shellcheck shell=sh disable=SC2154 # root, work and system_part are set by who sources it
# Makes the data partition of another disk, and moves the data there or back. Sourced by
# cairn-datadisk, which sets root, work and system_part. What survives a power cut at each step is
# in docs/design/datadisk.md. Each function returns 1 with a sentence in $trouble when it fails.

trouble=""

settle() { udevadm settle --timeout=30 || :; }

# look_again PART: udev reads its labels anew
look_again() {
	udevadm trigger --action=change "/dev/$1" || :
	settle
}

# fsck_part PART: repairs its file system as the boot would. Of one that udev does not know, the
# second superblock may be whole.
fsck_part() {
	fs_type=$(property "$1" ID_FS_TYPE)
	if [ -z "$fs_type" ]; then
		fs_type=ext4
		case $(magic "$1" 1024).$(magic "$1" 5120) in 1020.* | *.1020) fs_type=f2fs ;; esac
	fi
	status=0
	"fsck.$fs_type" -y "/dev/$1" >"$work/fsck.log" 2>&1 || status=$?
	# 1: repaired
	[ "$status" -le 1 ]
}

# set_label PART LABEL: the label of its file system, on the disk when this returns. A superblock
# that a power cut has torn is repaired first.
set_label() {
	write_label "$@" || { fsck_part "$1" && write_label "$@"; } || {
		trouble="The label of $1 cannot be written; the disk may be failing."
		return 1
	}
	sync
	look_again "$1"
}
write_label() {
	case $(property "$1" ID_FS_TYPE) in
	f2fs) f2fslabel "/dev/$1" "$2" >/dev/null 2>&1 ;;
	*) e2label "/dev/$1" "$2" >/dev/null 2>&1 ;;
	esac
}

# attach PART POINT OPTIONS: mounts it below the work folder, in this unit's own name space
attach() {
	mkdir -p "$work/$2"
	fsck_part "$1" || {
		trouble="The file system on $1 cannot be repaired."
		return 1
	}
	mount -o "nodev,nosuid,noexec,noatime,$3" "/dev/$1" "$work/$2" || {
		trouble="The file system on $1 cannot be mounted."
		return 1
	}
}
detach() { umount "$work/$1"; }

# content FOLDER: what counts in it, one name a line. lost+found belongs to the file system,
# before-move to an earlier move, .cairn-moving to this one.
content() {
	find "$1/" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name 'before-move*' \
		! -name .cairn-moving ! -name .cairn-moving.new
}

# datadisk_held: does the system's partition hold a node's data? What cannot be looked at, does.
datadisk_held() {
	held=yes
	if attach "$system_part" old ro; then
		# from the top, so that a folder that is not there differs from one that cannot be read
		entries=$(find "$work/old/" -mindepth 1 -maxdepth 3 2>/dev/null) &&
			case $entries in *"$work/old/lib/bitcoind/"*) false ;; esac && held=no
		detach old || :
	fi
	echo "$held"
}

used_kib() { df -Pk "$1" | awk 'NR == 2 { print $3 }'; }
free_kib() { df -Pk "$1" | awk 'NR == 2 { print $4 }'; }
gigabytes() { awk -v kib="$1" 'BEGIN { printf "%.1f", kib * 1024 / 1000000000 }'; }

# copy FROM TO WHERE: what content() lists, with progress on the consoles every 10 s
copy() {
	content "$1" >"$work/entries"
	total=$(used_kib "$1")
	before=$(used_kib "$2")
	if [ $((total + 65536)) -ge "$(free_kib "$2")" ]; then
		trouble="There is no room for the data on $3: $(gigabytes "$total") GB are needed,"
		trouble="$trouble $(gigabytes "$(free_kib "$2")") GB are free."
		return 1
	fi
	rm -f "$work/copied"
	{
		if (copy_entries "$2") 2>"$work/cp.log"; then echo 0; else echo 1; fi >"$work/copied"
	} &
	seconds=0
	until [ -s "$work/copied" ]; do
		sleep 1
		seconds=$((seconds + 1))
		[ $((seconds % 10)) -eq 0 ] || continue
		done_kib=$(($(used_kib "$2") - before))
		announce "Moving the data to $3: $(gigabytes "$done_kib") of $(gigabytes "$total") GB." \
			"If the power fails, it begins again and nothing is lost."
	done
	wait
	if [ "$(cat "$work/copied")" != 0 ] || ! sync -f "$2" || ! same "$1" "$2" 2>>"$work/cp.log"; then
		words=$(tail -n 1 "$work/cp.log" 2>/dev/null | ascii)
		trouble="Copying the data to $3 failed: ${words:-the copy is not what was to be copied.}"
		return 1
	fi
}

# copy_entries TARGET: in a shell of its own
copy_entries() {
	target=$1
	set --
	while IFS= read -r entry; do set -- "$@" "$entry"; done <"$work/entries"
	[ $# -eq 0 ] || cp -a "$@" "$target/"
}

# same FOLDER COPY: do both have the same files, read from the disks and not from memory?
same() {
	{ echo 3 >"$root/proc/sys/vm/drop_caches"; } 2>/dev/null || :
	listing "$1" >"$work/old.list" && listing "$2" >"$work/new.list" &&
		cmp -s "$work/old.list" "$work/new.list"
}

# listing FOLDER: all files with their owners, modes, sizes and times, and the SHA-256 of those that
# nobody else has: all but blocks and databases, whose content would take hours to read. Fails if
# something cannot be read.
listing() (
	cd "$1" || exit 1
	set -- . -type f ! -path './lost+found/*' ! -path './before-move*' ! -path './.cairn-moving*'
	find "$@" -exec ls -ln {} + >"$work/list" || exit 1
	find "$@" \( -path '*/wallets/*' -o -name 'wallet.dat*' -o ! -path '*/blocks/*' \
		! -path '*/chainstate/*' ! -path '*/indexes/*' \) -exec sha256sum {} + >>"$work/list" ||
		exit 1
	LC_ALL=C sort "$work/list"
)

# datadisk_make DISK SERIAL FORCE: the partition, the data, the label, the marker. FORCE is
# `require` for a disk without a partition table, else `force`.
datadisk_make() {
	id=$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
	where="the disk $1${2:+ (serial $2)}"
	announce "Making the data partition on $where."
	# First of all: what this disk is from now on, until it is whole
	set_label "$system_part" "mk-$id-$(serial_sum "$2")" || return 1
	mkdir -p "$work/repart.d"
	format=$(record filesystem)
	printf '[Partition]\nType=linux-generic\nLabel=cairn-data-%s\nFormat=%s\nSizeMinBytes=512M\n' \
		"$id" "${format:-ext4}" >"$work/repart.d/data.conf"
	if [ "$3" = force ] && ! erase "$1"; then
		trouble="The old partitions of $where are still in use. Restart the node to try again."
		return 1
	fi
	systemd-repart --dry-run=no "--empty=$3" --seed=random --definitions="$work/repart.d" \
		"/dev/$1" >"$work/repart.log" 2>&1 || {
		trouble="The data partition cannot be made on $where: $(tail -n 1 "$work/repart.log" | ascii)"
		return 1
	}
	settle
	made=$(datadisk_find "$1" "cairn-data-$id") || {
		trouble="The data partition on $where does not appear."
		return 1
	}
	attach "$system_part" old ro || return 1
	attach "$made" new rw || {
		detach old
		return 1
	}
	status=0
	copy "$work/old" "$work/new" "$where" || status=1
	detach old || status=1
	detach new || status=1
	[ "$status" -eq 0 ] || return 1
	sync
	# From here on the copy counts; a failure is no reason to go on with the old data.
	set_label "$made" "cairn-$id" || unfinished=1
	[ -z "$unfinished" ] || return 1
	announce "The data partition on $where is ready."
}

# erase DISK: its signatures, until the kernel has forgotten its partitions, at most half a minute.
# systemd-repart could make none in their place. wipefs asks the kernel to forget them, and so does
# udev when wipefs closes the disk; both in vain while udev looks at one of them.
erase() {
	tries=0
	while :; do
		for partition in $(partitions "$1") "$1"; do
			wipefs -a "/dev/$partition" >/dev/null 2>&1 || :
		done
		settle
		[ -n "$(partitions "$1")" ] || return 0
		tries=$((tries + 1))
		[ "$tries" -lt 30 ] || return 1
		sleep 1
	done
}

# datadisk_back PART ID WHERE: moves the data to the system's partition
datadisk_back() {
	announce "Moving the data from $3 back to the system's disk."
	attach "$1" old ro || return 1
	attach "$system_part" new rw || {
		detach old
		return 1
	}
	status=0
	back_copy "$2" || status=1
	detach old || status=1
	detach new || status=1
	[ "$status" -eq 0 ] || return 1
	sync
	# The disk's data count no more, and then the system's do. In between the marker still names
	# the disk, and nothing has changed its data.
	set_label "$1" "old-$2" || return 1
	set_label "$system_part" data || return 1
	announce "The data are on the system's disk again. Those on $3 are left as they were."
}

# The copy goes to the top of the system's partition. What is there already is set aside first.
back_copy() {
	[ "$(property "$system_part" ID_FS_TYPE)" != ext4 ] ||
		/usr/lib/systemd/systemd-growfs "$work/new" >/dev/null 2>&1 || :
	flag=$work/new/.cairn-moving
	trouble="The system's disk cannot be written."
	if [ "$(cat "$flag" 2>/dev/null)" = "$1" ]; then
		# The rest of a copy that was not finished; the disk has all of it.
		content "$work/new" >"$work/entries"
		# Others' folders cannot be written by root, who has no right to override their modes.
		while IFS= read -r entry; do
			chown -hR 0:0 "$entry" && rm -rf "$entry" || return 1
		done <"$work/entries"
	else
		set_aside "$work/new" || return 1
		sync
		echo "$1" >"$flag.new" && mv "$flag.new" "$flag" || return 1
		sync
	fi
	copy "$work/old" "$work/new" "the system's disk"
}

# set_aside FOLDER: its content goes to before-move in it, or before-move+ if there is one already
set_aside() {
	if [ $(($(used_kib "$work/old") + 65536)) -ge "$(free_kib "$1")" ]; then
		trouble="There is no room for the data on the system's disk; they stay where they are."
		trouble="$trouble Write a card anew that is large enough, or take datadisk=system out."
		return 1
	fi
	aside="$1/before-move"
	while [ -e "$aside" ]; do aside="$aside+"; done
	content "$1" >"$work/entries"
	[ -s "$work/entries" ] || return 0
	mkdir "$aside" || return 1
	while IFS= read -r entry; do mv "$entry" "$aside/" || return 1; done <"$work/entries"
}
