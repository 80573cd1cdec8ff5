# shellcheck shell=sh disable=SC2154 # root and update_state are those of update.sh
# node.conf and the version before: the last good one from before an update is kept for it, as it
# may not know the lines that the newer one does. Sourced by update.sh, behind node-conf.sh and
# fat.sh; docs/design/update.md.

# update_conf_next: keeps the last good node.conf while an update is being written. It becomes the
# kept one when that is installed; an update that fails leaves what was kept for the version beside.
update_conf_next() {
	[ ! -f "$root/var/lib/cairn/node.conf" ] ||
		(umask 077 && update_lasting node.conf.next <"$root/var/lib/cairn/node.conf") || :
}
update_conf_installed() {
	[ ! -f "$update_state/node.conf.next" ] || {
		mv "$update_state/node.conf.next" "$update_state/node.conf" && sync "$update_state"
	} || :
}
update_conf_failed() { rm -f "$update_state/node.conf.next" || :; }

# update_conf_kept [NAMES]: prints the file that is put back. What is carried out once gets a # in
# front, as it was long ago; with an argument only the names of these lines are printed. The last
# line keeps the file from being taken for a later one that was cut short.
update_conf_kept() {
	LC_ALL=C awk -v names="${1:-}" '
		{
			# lines as node-conf.awk reads them
			n = split($0, piece, "\r")
			for (i = 1; i <= n; i++) {
				mark = NR == 1 && i == 1 && sub(/^\357\273\277/, "", piece[i]) ? "\357\273\277" : ""
				if (piece[i] ~ /^[ \t]*(reindex|reindex-chainstate|erase)[ \t]*=/) {
					name = piece[i]
					gsub(/=.*|[ \t]/, "", name)
					once = once " " name "="
					piece[i] = "#" piece[i]
				}
				if (names == "") printf "%s%s", (i > 1 ? "\r" : "") mark, piece[i]
			}
			if (names == "") print ""
		}
		END { print (names == "" ? "# put back by node-update" : substr(once, 2)) }' \
		"$update_state/node.conf"
}

# update_conf_is_back: is the present node.conf the one that was put back last? The owner may have
# changed the kept one since.
update_conf_is_back() {
	cmp -s "$update_state/node.conf.put-back" "$root/boot/node.conf" 2>/dev/null
}

# update_conf_noted: does trial say that a node.conf was put back for it?
update_conf_noted() { [ "$(update_value "$update_state/trial" put-back)" = 1 ]; }

# update_conf_judge: what the kept node.conf would make of the present one. Sets conf_lacks to what
# keeps the node private, as the present file, the last boot or what is remembered says, and the
# kept one does not; conf_opens to lines of the kept one that let somebody in; and if it keeps fewer
# blocks, conf_keeps and conf_needs. Fails with a sentence in why if that cannot be told.
update_conf_judge() {
	conf_untold="it cannot be told whether the kept node.conf keeps the node as private as the present"
	conf_untold="$conf_untold one; nothing was changed" why=$conf_untold
	conf_work=$(mktemp -d) || return 1
	conf_ended=0
	update_conf_compare || conf_ended=1
	rm -r "$conf_work" || :
	return $conf_ended
}
# update_conf_line RECORDS: prints " (line N)", the first one that was rejected, or nothing
update_conf_line() {
	sed -n 's/^rejected node\.conf \(line [0-9]*\):.*/ (\1)/p' "$1" | head -n 1
}
update_conf_compare() {
	mkdir -p "$conf_work/root/var/lib/cairn" "$conf_work/was" "$conf_work/is" || return 1
	# Some lines are good on a node only that keeps all blocks.
	for conf_pruned in "$root"/var/lib/cairn/prune.*; do
		[ ! -f "$conf_pruned" ] || cp "$conf_pruned" "$conf_work/root/var/lib/cairn/" || return 1
	done
	update_conf_kept >"$conf_work/kept" || return 1
	# The parser has variables of its own.
	(node_conf_parse "$conf_work/root" "$conf_work/kept" "$conf_work/was") || return 1
	grep -qx "good 1" "$conf_work/was/records" || {
		conf_line=$(update_conf_line "$conf_work/was/records")
		[ -z "$conf_line" ] || {
			why="this version cannot use a line$conf_line of the kept node.conf,"
			why="$why /var/lib/cairn/update/node.conf, so $conf_untold"
		}
		return 1
	}
	! grep -Eq '^(once|erase) ' "$conf_work/was/records" || return 1
	conf_wants=$(update_record private) || return 1
	if remembered_private "$root/var/lib/cairn/private"; then
		conf_wants="$conf_wants $remembered_line"
	elif [ -e "$root/var/lib/cairn/private" ]; then
		return 1
	fi
	# It may have been written since the boot. No file, and none that may be it, asks for nothing.
	(node_conf_parse "$root" "$root/boot/node.conf" "$conf_work/is") || return 1
	grep -qx "good 1" "$conf_work/is/records" || {
		grep -qx "absent 1" "$conf_work/is/records" &&
			! grep -Eq '^(rejected|unread) ' "$conf_work/is/records"
	} || {
		conf_line=$(update_conf_line "$conf_work/is/records")
		why="the present node.conf cannot be understood as a whole$conf_line, so it is not known how"
		why="$why private it means the node to be; correct it, or go back without --node-conf;"
		why="$why nothing was changed"
		return 1
	}
	conf_pruned=$root/var/lib/cairn/prune.$(sed -n 's/^chain //p' "$conf_work/was/records")
	if remembered_prune "$conf_pruned"; then
		conf_pruned=$remembered_line
	elif [ -e "$conf_pruned" ]; then
		conf_pruned=torn
	else
		conf_pruned=""
	fi
	LC_ALL=C awk -v table="$here/../../share/cairn/options.tsv" -v wants="$conf_wants" \
		-v pruned="$conf_pruned" -f "$here/update-conf.awk" "$conf_work/is/records" \
		"$conf_work/was/records" >"$conf_work/found" || return 1
	conf_lacks=$(sed -n 's/^lacks //p' "$conf_work/found") &&
		conf_opens=$(sed -n 's/^opens //p' "$conf_work/found") &&
		conf_keeps=$(sed -n 's/^keeps //p' "$conf_work/found") &&
		conf_needs=$(sed -n 's/^needs //p' "$conf_work/found")
}

# update_conf_put_back: the kept node.conf takes the place of the present one, which stays as
# node.conf.replaced; what takes its place is noted as node.conf.put-back. That is noted before, for
# a power cut until slot other is armed for version. Fails with a sentence in why.
update_conf_put_back() {
	why="no node.conf was kept; nothing was changed"
	[ -f "$update_state/node.conf" ] || return 1
	why="the kept node.conf cannot be read; nothing was changed"
	conf_text=$(update_conf_kept) || return 1
	# It has been done already, and the one that was replaced then must not be lost.
	[ ! -f "$root/boot/node.conf" ] ||
		! printf '%s\n' "$conf_text" | cmp -s - "$root/boot/node.conf" || return 0
	why="a rollback is prepared already, with the kept node.conf as it was then; take it back first"
	why="$why (node-update cancel); nothing was changed"
	! update_conf_noted || { [ -f "$root/boot/node.conf" ] && ! update_conf_is_back; } || return 1
	update_conf_judge || return 1
	why="the kept node.conf would make the node less private: it lacks what the present one has, or"
	why="$why had at the last start, in these lines: $conf_lacks. Nothing was changed; go back without"
	why="$why --node-conf, or put a # in front of the lines that the older version does not know (what"
	why="$why you have taken out counts until a restart)"
	[ -z "$conf_lacks" ] || return 1
	why="the kept node.conf would let in, or ask, whom the present one does not, by these lines:"
	why="$why $conf_opens. Nothing was changed; go back without --node-conf, or put a # in front of"
	why="$why them in /var/lib/cairn/update/node.conf"
	[ -z "$conf_opens" ] || return 1
	why="the kept node.conf would delete blocks: it has $conf_keeps, and the node keeps $conf_needs."
	why="$why Nothing was changed; go back without --node-conf, or correct prune= in"
	why="$why /var/lib/cairn/update/node.conf"
	[ -z "$conf_needs" ] || return 1
	conf_replaces=""
	if [ -f "$root/boot/node.conf" ]; then
		conf_replaces=1
		why="the present node.conf cannot be kept on the data partition; nothing was changed"
		(umask 077 && update_lasting node.conf.replaced <"$root/boot/node.conf" &&
			printf '%s\n' "$conf_text" | update_lasting node.conf.put-back) &&
			printf 'slot=%s\nphase=node-conf\nversion=%s\nput-back=1\n' "$other" "$version" |
			update_lasting trial || return 1
		echo "the present node.conf is kept as /var/lib/cairn/update/node.conf.replaced"
	else
		# If it were removed again, what is remembered of it would be missed, and the network be off.
		echo "there is no node.conf, so the kept one stays, whatever becomes of the rollback"
	fi
	why="the boot partition cannot be written; nothing was changed"
	fat_begin "$root" || {
		[ -z "$conf_replaces" ] || rm -f "$update_state/trial" || :
		return 1
	}
	conf_ended=0
	printf '%s\n' "$conf_text" | fat_put "$root/boot/node.conf" || conf_ended=1
	fat_end "$root" || :
	[ $conf_ended = 0 ] || {
		# It may be there all the same.
		why="the new node.conf could not be written, or not for certain"
		[ -n "$conf_replaces" ] || return 1
		update_conf_over
		why="the new node.conf could not be written${conf_said:+. $conf_said}"
		[ -n "$conf_said" ] || why="$why; the old one is still there"
		return 1
	}
	conf_once=$(update_conf_kept names) || conf_once=""
	[ -z "$conf_once" ] || echo "these lines of the kept node.conf are carried out once and got a #" \
		"in front, so that they are not carried out again: $conf_once" || :
}

# update_conf_return: what is noted in trial does not stay, so the node.conf that was replaced for
# it comes back, unless the owner has written another one meanwhile. The copy stays. Fails if the
# boot partition cannot be written. Sets conf_said to what that means for the owner, "" for nothing:
# this boot may have read the older file already.
update_conf_return() {
	conf_said=""
	update_conf_noted && [ -f "$update_state/node.conf.replaced" ] &&
		[ -f "$root/boot/node.conf" ] || return 0
	if ! update_conf_is_back; then
		# A power cut may have come before it was put back.
		! cmp -s "$update_state/node.conf.replaced" "$root/boot/node.conf" || return 0
		conf_said="node.conf was changed meanwhile and stays; the one from before is"
		conf_said="$conf_said /var/lib/cairn/update/node.conf.replaced."
		return 0
	fi
	conf_said="The boot partition cannot be written, so node.conf is still the one from before"
	conf_said="$conf_said the update; yours is /var/lib/cairn/update/node.conf.replaced. The disk"
	conf_said="$conf_said probably fails: replace it."
	update_conf_read
	fat_begin "$root" || return 1
	update_conf_good
	conf_ended=0
	fat_put "$root/boot/node.conf" <"$update_state/node.conf.replaced" || conf_ended=1
	fat_end "$root" || :
	[ $conf_ended = 0 ] || return 1
	conf_said="Your own node.conf is in place and counts from the next restart on."
}

# update_conf_good: a start that has read what was put back notes that as the last good node.conf
# (keep_good). The one that it had replaced, which was found good before, takes that place: if it is
# the beginning of the other one, it would be taken for that one cut short; and an installation
# would keep the other one for the version that runs. Where there is no room for it, none is noted.
update_conf_good() {
	for conf_good in "$root/run/cairn/node-conf.good" "$root/var/lib/cairn/node.conf"; do
		! cmp -s "$update_state/node.conf.put-back" "$conf_good" 2>/dev/null ||
			lasting "$conf_good" 600 <"$update_state/node.conf.replaced" || rm -f "$conf_good" || :
	done
}

# update_conf_read: waits until node-config has read node.conf in this start, five minutes at most.
# What it reads before the owner's file comes back it notes as the last good one, at any moment.
update_conf_read() {
	conf_looks=60
	while [ ! -e "$root/run/cairn/node-conf.records" ] && [ $conf_looks -gt 0 ]; do
		sleep 5
		conf_looks=$((conf_looks - 1))
	done
}

# update_conf_over: the same at the end of what is noted, of which nothing is left then; but the
# note stays, for the next start, if the file could not come back.
update_conf_over() {
	! update_conf_return || rm -f "$update_state/trial" "$update_state/reason" || :
}

# update_conf_interrupted: the rollback to version has ended when no more was done than that
update_conf_interrupted() {
	# It may have been armed already; a Raspberry Pi does not try it at just any restart.
	slots set-primary "$(slots get-current)" || :
	update_conf_over
	set -- "The rollback to version $version was interrupted before its restart." \
		${conf_said:+"$conf_said"}
	[ -e "$update_state/trial" ] || set -- "$@" "Begin the rollback again."
	update_say "$@"
}
