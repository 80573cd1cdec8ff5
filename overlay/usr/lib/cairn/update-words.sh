# shellcheck shell=sh disable=SC2034,SC2154 # why is for who sources it, root is theirs
# What the owner is told, and what RAUC says of a bundle, in plain words. Sourced by update.sh.

# update_screen SENTENCE: on the screen until the next one. Printable ASCII. It never fails: what
# follows it, such as a restart, must not depend on a screen or a terminal. A trial that ends early
# has no /run/cairn yet.
update_screen() {
	update_text=$(printf '%s' "$*" | LC_ALL=C tr -c ' -~' '?') || :
	{
		mkdir -p "$root/run/cairn" &&
			printf '%s\n' "$update_text" >"$root/run/cairn/update.report.new" &&
			chmod 644 "$root/run/cairn/update.report.new" &&
			mv "$root/run/cairn/update.report.new" "$root/run/cairn/update.report"
	} 2>/dev/null || :
}

# update_say SENTENCE: the same, and printed, and in the journal, where what a unit prints is anyway
update_say() {
	update_screen "$@"
	printf '%s\n' "$update_text" || :
	[ -n "${JOURNAL_STREAM:-}" ] ||
		timeout 5 "${CAIRN_LOGGER:-logger}" -t node-update -- "$update_text" 2>/dev/null || :
}

# update_last: prints what became of the last trial, if it has failed
update_last() { head -n 1 "$update_state/last" 2>/dev/null | cut -c1-400 || :; }

update_writing="An update is being written. The version that runs stays as it is; you may pull the"
update_writing="$update_writing plug."

# update_progress: prints standard input, which RAUC says, and shows each further tenth on the
# screen (its src/main.c: print_progress_callback)
update_progress() {
	update_tenths=0
	while IFS= read -r update_line; do
		printf '%s\n' "$update_line" || :
		update_percent=$(printf '%s\n' "$update_line" | sed -n 's/^ *\([1-9][0-9]\{0,2\}\)% .*/\1/p')
		[ "$((${update_percent:-0} / 10))" -gt "$update_tenths" ] || continue
		update_tenths=$((update_percent / 10))
		update_screen "$update_writing $update_percent % are done."
	done
}

# What RAUC says if the days of a certificate are not now, from the first character on (its
# src/signature.c, with OpenSSL's words behind it). Looked for anywhere, they would also be found in
# a file's name and in what a server has sent, and those must not say what to do about the clock.
update_verify="signature verification failed: Verify error: certificate"

# update_server WORDS: prints why the HTTPS server's own certificate is not accepted, if curl says
# that. The reasons are those of the bundle's certificate, which must not be blamed for it. What
# else curl says has names that the server has given itself, so that is not repeated.
update_server() {
	case $1 in
	"SSL certificate problem: "* | "SSL certificate OpenSSL verify result: "*)
		printf '%s\n' "$1" | LC_ALL=C sed -n \
			's|^[^:]*: \([A-Za-z -]*[a-z]\)\( ([0-9]*)\)\{0,1\}$|\1|p'
		;;
	"SSL: "*certificate*) echo "it is of another name" ;;
	"SSL "*certificate*) echo "it cannot be verified" ;;
	esac
}

# update_words FILE [info]: prints what RAUC said last of a failure, from its output: the line
# before "finished", or what its service calls LastError. Without "finished" it did not come to
# install anything, or was killed. Of rauc info it is the last line; the ones above are a log, with
# names and what a server has sent. Printable ASCII, 200 characters.
update_words() {
	update_said=$(LC_ALL=C awk -v info="${2:-}" '
		/^LastError: / { said = substr($0, 12) }
		/^finished$/ { ended = 1; if (said == "") said = before }
		/[Ff]ailed|[Ee]rror/ { failed = $0 }
		{ before = $0 }
		END {
			if (info != "") said = before
			else if (said == "" && !ended) said = failed != "" ? failed : "it ended without a reason"
			print said
		}' "$1" 2>/dev/null) || :
	update_fault=""
	case $update_said in
	*": SSL"*) update_fault=SSL${update_said##*: SSL} ;;
	*": server not responding")
		# why is in the log of the process that asks it
		update_fault=$(sed -n \
			's,^rauc-nbd-Message: [0-9:.]* request failed: \(.*\) (retrying ./5)$,\1,p' "$1" | tail -n 1)
		;;
	esac
	update_fault=$(update_server "$update_fault")
	if [ -n "$update_fault" ]; then
		update_said="the HTTPS server's certificate: $update_fault"
	else
		case $update_said in
		# RAUC's own end of a sentence that has the address in it, which may be long
		*": server not responding") update_said="no server answers: $update_said" ;;
		esac
	fi
	printf '%s\n' "$update_said" | LC_ALL=C tr -c '\n -~' '?' | cut -c1-200
}

# update_because WORDS: sets why to a sentence for what RAUC says of a bundle that it does not take
update_because() {
	case $1 in
	"the HTTPS server's certificate: "*)
		why="the HTTPS server's own certificate is not accepted (${1#*: }; the node's clock says"
		why="$why $(date -u +%Y-%m-%d)), so no update was read from there; correct the address, have"
		why="$why that certificate or the clock corrected, or take a USB stick"
		;;
	"$update_verify is not yet valid"*)
		why="the node's clock says $(date -u +%Y-%m-%d), which is before the first day of the"
		why="$why bundle's certificate;"
		if [ "$(node_record "$root" network)" = off ]; then
			why="$why no time server is asked while the network is off: correct node.conf and restart"
		elif [ "$(node_record "$root" lock)" = 1 ]; then
			# Without tor= the node would connect in the clear.
			why="$why no time server is asked with tor=only: write tor=1 in its place for one start, or"
			why="$why use a clock with a battery"
		else
			why="$why connect the node to a network whose time servers set the clock"
		fi
		;;
	"$update_verify has expired"*)
		why="by the node's clock, $(date -u +%Y-%m-%d), the certificate that signed it has ended;"
		why="$why take a bundle that was signed later"
		;;
	"no server answers: "*)
		why="no usable answer comes from that address; check it and the network (${1#*: })"
		;;
	*"Compatible mismatch"*) why="it is for another board ($1)" ;;
	*"remote server"*) why="the server did not send the whole bundle ($1)" ;;
	*"Invalid bundle format"*) why="it is damaged or not whole ($1)" ;;
	*[Ss]ignature* | *certificate*) why="it is not signed for this node ($1)" ;;
	'') why="it is not signed for this node, is damaged, or could not be read to its end" ;;
	*) why="RAUC says: $1" ;;
	esac
}
