# shellcheck shell=sh disable=SC2034,SC2154 # variables are shared with update.sh
# How often a version has failed on this node: after three times nothing tries it by itself. Sourced
# by update.sh, whose functions it uses.

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
	[ "$(${CAIRN_SYSTEMCTL:-systemctl} is-system-running 2>/dev/null)" != stopping ] || return 0
	update_count_failure "$begun"
	unchanged="$unchanged${given_up:+" $given_up"}"
}

# update_not_noted: a trial that nobody asked for now cannot be noted, so nobody would know that it
# has failed. What is installed is not tried then. Fails, with a sentence in why.
update_not_noted() {
	update_take_back
	update_failed_by_itself
	why="the data partition cannot be written, so a failure would not be remembered"
	return 1
}
