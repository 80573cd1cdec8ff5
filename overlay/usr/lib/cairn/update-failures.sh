# shellcheck shell=sh disable=SC2034,SC2154 # variables are shared with update.sh
# What is not installed by itself: a version that has failed three times on this node, and one that
# the owner has gone back from; and what an installation that was broken off has cost. Sourced by
# update.sh, whose functions it uses.

# update_failures VERSION: prints that. Compared as strings: 2.1 is not 2.10.
update_failures() {
	failures=$(awk -v version="$1" '$1 "" == version "" && $2 ~ /^[0-9][0-9]?$/ { n = $2 }
		END { print n + 0 }' "$update_state/failed" 2>/dev/null) || failures=0
	echo "$failures"
}

# update_failures_without VERSION: prints what is noted of the other versions
update_failures_without() {
	[ ! -f "$update_state/failed" ] ||
		awk -v version="$1" '$1 "" != version ""' "$update_state/failed"
}

# update_count_failure VERSION: its trial has failed once more, or its installation by itself. Sets
# given_up to a sentence if that was the last time, else to nothing.
update_count_failure() {
	failures=$(($(update_failures "$1") + 1))
	{
		update_failures_without "$1" | tail -n 20
		echo "$1 $failures"
	} | update_lasting failed || :
	given_up=""
	[ "$failures" -lt 3 ] ||
		given_up="Version $1 has failed three times and is not tried again by itself."
}

# update_failed_by_itself: an installation that nobody asked for now has failed. If RAUC had begun
# to write, that counts: it has cost the version beside, and would be begun again each night. A
# shutdown is no fault of the version's.
update_failed_by_itself() {
	begun=$(update_value "$root/run/cairn/update.begun" version)
	[ -n "$begun" ] || return 0
	! update_stopping || return 0
	update_count_failure "$begun"
	unchanged="$unchanged${given_up:+" $given_up"}"
}

# update_kept: prints the version beside, if one can go back to it
update_kept() {
	beside=$(update_other)
	slots was-good "$beside" || return 0
	update_value "$root/boot/slot-$beside/release" version
}

# update_over: prints what the next installation writes over: that, or what one before it has
# written over already, and nobody was told
update_over() {
	over=$(update_kept)
	echo "${over:-"$(update_value "$update_state/trial" over)"}"
}

# update_gone VERSION: is what could be gone back to still there? Not if RAUC has begun to write
# over it, and then gone says so. No VERSION, no loss.
update_gone() {
	[ -n "$1" ] && ! slots was-good "$(update_other)" || return 0
	gone="version $1, which was kept to go back to, is gone"
	return 1
}

# update_note_writing VERSION OVER: notes that RAUC is about to write, into which slot, and over
# what. With a VERSION a power cut counts as its failure (update_count_killed).
update_note_writing() {
	printf 'slot=%s\nphase=writing\nversion=%s\nover=%s\n' "$(update_other)" "$1" "$2" |
		update_lasting trial
}

# update_count_killed: an installation was killed while RAUC wrote. Its note, which is removed,
# has a version if nobody had asked for it then: it would be begun again each night, so it counts.
# Not twice, should the power fail once more; and not if it runs, and that was not noted.
update_count_killed() {
	[ "$(update_value "$update_state/trial" phase)" = writing ] || return 0
	killed=$(update_value "$update_state/trial" version)
	rm -f "$update_state/trial"
	if [ -n "$killed" ] && [ "$killed" != "$(update_version)" ] && sync "$update_state"; then
		update_count_failure "$killed"
	fi
}

# update_interrupted: the same at the next start
update_interrupted() {
	# RAUC may have armed it already; a Raspberry Pi does not try it at just any restart.
	update_disarm || return 0
	rm -f "$update_state/reason"
	update_conf_failed
	given_up="" gone="nothing has changed"
	update_gone "$(update_value "$update_state/trial" over)" || :
	update_count_killed
	update_say "An update was interrupted while it was being written; $gone." \
		"${given_up:-"Begin it again."}"
}

# update_gone_back: prints the versions that the owner has gone back from, one a line
update_gone_back() { sed -n 's/^version=//p' "$update_state/gone-back" 2>/dev/null || :; }

# update_left VERSION: has the owner gone back from this one?
update_left() { update_gone_back | grep -qxF -- "$1"; }

# update_settled: the version that runs stays, and what is noted of its trial is still there. An
# older one, a rollback or a downgrade, is what the owner has asked for: the newer ones that it came
# from must not come again by themselves. Once one of them stays, or a newer one does, that is over.
# What is beside it ran before, too: the power may have failed before the trial was noted.
update_settled() {
	{
		update_gone_back
		update_value "$update_state/trial" from
		update_kept
	} | sort -u | while read -r settled; do
		[ "$(update_compare "$settled" "$(update_version)")" != newer ] || echo "version=$settled"
	done | tail -n 20 | update_lasting gone-back || :
	[ -s "$update_state/gone-back" ] || rm -f "$update_state/gone-back"
}

# update_tip_of ANSWER: sets height and chain to what getblockchaininfo says, or to nothing
update_tip_of() {
	height=$(printf '%s\n' "$1" | sed -n 's/^  "blocks": \([0-9]\{1,9\}\),$/\1/p')
	chain=$(printf '%s\n' "$1" | sed -n 's/^  "chain": "\([a-z0-9]\{1,16\}\)",$/\1/p')
}

# update_tip: notes height and chain, the last ones that bitcoind is known to have had, for a
# version that is installed while it does not answer
update_tip() { printf 'height=%s\nchain=%s\n' "$height" "$chain" | update_lasting tip || :; }

# update_noted_tip FILE: sets height and chain to those in trial or tip; height to nothing if it is
# no height. A trial that an older version has noted has no chain.
update_noted_tip() {
	height=$(sed -n 's/^height=\([0-9]\{1,9\}\)$/\1/p' "$1" 2>/dev/null | head -n 1)
	chain=$(update_value "$1" chain)
	[ -n "$height" ]
}

# update_not_noted: a trial that nobody asked for now cannot be noted, so nobody would know that it
# has failed. What is installed is not tried then. Fails, with a sentence in why.
update_not_noted() {
	update_take_back
	update_failed_by_itself
	why="the data partition cannot be written, so a failure would not be remembered"
	return 1
}
