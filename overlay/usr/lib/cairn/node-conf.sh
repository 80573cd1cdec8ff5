# shellcheck shell=sh
# node.conf for scripts. Sourced; ROOT is the prefix of all paths, for tests.
#   node_conf_parse ROOT FILE WORK [KNOWN]  reads FILE with the one parser, writes WORK/records.
#       Before the data partition exists cairn-data-format calls it, after that node-config only.
#       WORK is an empty folder, KNOWN a file with the names of bitcoind's options.
#   taken_off FILE SIZE, bitcoin_conf ROOT RECORDS, remember_private ROOT RECORDS, keep_good ROOT,
#   lasting FILE [MODE]
# What the records mean: node-conf.awk. How the others read them: database-engine.sh.

# The parser lies in the same tree as the scripts, in the image and in the repository.
[ -n "${node_conf_here-}" ] || node_conf_here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
case $node_conf_here in */lib/cairn) ;; *) node_conf_here=$node_conf_here/../lib/cairn ;; esac
# shellcheck source=overlay/usr/lib/cairn/memory.sh
. "$node_conf_here/memory.sh"

# taken_off FILE SIZE: may what FILE, a good one, has behind its first SIZE bytes be gone? Blanks
# may, and whole lines that owners are told to take out again, or whose absence never opens, shows,
# deletes, prunes or announces anything:
# - comments; walletshow and erase, whose default is to show and erase nothing
# - reindex=1, but not reindex=0, which may be what keeps another line from being carried out
# - who may log in or reach RPC. rpcwhitelist= is no such line: it limits what rpcauth= lets in.
# If such a line was torn off, the node is only more closed than its owner wants it.
# If they could not be read to their end, they may not.
taken_off() {
	# the byte in front tells whether a line ends there
	{
		if [ "$2" -gt 0 ]; then tail -c "+$2" "$1"; else { echo && cat "$1"; }; fi &&
			printf '\n# all\n'
	} | tr '\r' '\n' | LC_ALL=C awk '
		{ all = $0 == "# all" }
		NR == 1 { lost = $0 !~ /^.?[ \t\f\v]*$/; next }
		{ sub(/#.*/, ""); gsub(/[ \t\f\v]+/, "") }
		$0 != "" && !/^(walletshow|erase|walletaccess|walletkey|sshkey|rpcauth)=/ &&
			!/^reindex(-chainstate)?=1$/ { lost = 1 }
		END { exit lost || !all }'
}

node_conf_parse() {
	absent="" ignored="" cut="" lost="" forgotten="" input=/dev/null
	if [ ! -e "$2" ]; then
		absent="There is no node.conf on the boot partition"
		# as Windows' editor names it, or a repair of the file system
		for other in "$1"/boot/[Nn][Oo][Dd][Ee].[Cc][Oo][Nn][Ff]?* \
			"$1"/boot/[Ff][Ss][Cc][Kk]*.[Rr][Ee][Cc]; do
			[ ! -e "$other" ] || lost=$(printf %s "${other##*/}" | tr -cd ' -[]-~' | cut -c1-60)
		done
		if [ -n "$lost" ]; then
			absent="$absent, but $lost, which may be it. The network is off:"
			absent="$absent rename that file to node.conf, or remove it, and restart."
		fi
		if awk '$5 == "/boot" { seen = 1 } END { exit seen }' \
			"$1/proc/self/mountinfo" 2>/dev/null; then
			absent="The boot partition, with node.conf, is not there;"
			absent="$absent restart, and replace the disk if that does not help"
			lost=1
			for known_before in "$1"/var/lib/cairn/private \
				"$1"/var/lib/cairn/node.conf "$1"/var/lib/cairn/prune.*; do
				[ ! -e "$known_before" ] || lost=""
			done
			if [ -n "$lost" ]; then
				absent="$absent. The network is off, as nothing is known of what"
				absent="$absent node.conf said."
			fi
		fi
		[ -n "$lost" ] || absent="$absent; the node runs with its defaults."
	elif [ ! -f "$2" ] || ! cat "$2" >"$3/raw" 2>/dev/null; then
		ignored="node.conf cannot be read. Copy the file to the boot partition again."
	elif size=$(wc -c <"$3/raw") && [ "$size" -gt 65536 ]; then # a thousand times the template
		ignored="node.conf is larger than 64 KiB and is ignored as a whole; is it the right file?"
	elif [ "$(tr -d '\000' <"$3/raw" | wc -c)" -ne "$size" ]; then
		ignored="node.conf is not a text file and is ignored as a whole;"
		ignored="$ignored save it as plain UTF-8 text."
	else
		input=$3/raw
		last=$1/var/lib/cairn/node.conf
		# A torn FAT file ends early.
		if [ -f "$last" ] && head -c "$size" "$last" | cmp -s - "$input" &&
			! taken_off "$last" "$size"; then
			cut=$last
		fi
	fi
	archives="" remembered=""
	for archive in main test testnet4 signet regtest; do
		! remembered_prune "$1/var/lib/cairn/prune.$archive" || [ "$remembered_line" != 0 ] ||
			archives="$archives $archive"
	done
	if remembered_private "$1/var/lib/cairn/private"; then
		remembered=$remembered_line
	elif [ -e "$1/var/lib/cairn/private" ]; then
		forgotten=1
	fi
	LC_ALL=C awk -v table="$node_conf_here/../../share/cairn/options.tsv" -v known="${4-}" \
		-v ignored="$ignored" -v absent="$absent" -v remembered="$remembered" \
		-v archives="$archives" -v cut="$cut" -v lost="$lost" -v forgotten="$forgotten" \
		-f "$node_conf_here/chain-ports.awk" \
		-f "$node_conf_here/node-conf-values.awk" -f "$node_conf_here/node-conf-end.awk" \
		-f "$node_conf_here/node-conf-rejected.awk" -f "$node_conf_here/node-conf.awk" \
		"$input" >"$3/records" || {
		why="node.conf could not be read because of an error of Cairn's own."
		printf '%s\n' 'chain main' 'chain-directory ' 'network off' 'lock 1' "prune-doubt $why" \
			"note $why The network is off; please report it with your node.conf." >"$3/records"
	}
}

# bitcoin_conf ROOT RECORDS: prints bitcoind's configuration. With the network not on, the
# records have no option that would say otherwise than the lines in front. Fails when either awk
# does: bitcoind goes anywhere with a configuration that lacks the owner's lines.
bitcoin_conf() {
	conf_lines=$(awk -v root="$1" '
	$1 == "chain" { chain = $2 }
	$1 == "network" { network = $2 }
	$1 == "option" {
		line = $0
		sub(/^option [^ ]* /, "", line)
		if ($2 != at && $2 != "-") options = options "[" $2 "]\n"
		at = $2
		options = options line "\n"
	}
	END {
		print "# Written by node-config at boot from node.conf; changes here are lost."
		print "includeconf=" root "/run/bitcoind/once.conf"
		print "includeconf=" root "/run/bitcoind/wallet.conf"
		print "includeconf=" root "/run/bitcoind/tuned.conf"
		print "includeconf=" root "/usr/share/cairn/defaults.conf"
		print "chain=" chain
		if (network != "on" && network != "outbound") print "networkactive=0"
		if (network != "on") print "listen=0\nlistenonion=0\nnatpmp=0\ni2pacceptincoming=0"
		printf "%s", options
	}' "$2") || return 1
	printf '%s\n' "$conf_lines" |
		awk -f "$node_conf_here/bitcoin-conf.awk" -f "$node_conf_here/listening.awk"
}

# lasting FILE [MODE]: standard input becomes FILE on the data partition, whole or not at all, also
# when the power fails. MODE is 644 if it is not given.
lasting() {
	{
		rm -f "$1.new" && (umask 077 && cat >"$1.new") && chmod "${2:-644}" "$1.new" &&
			sync "$1.new" && mv "$1.new" "$1" && sync "${1%/*}"
	} 2>/dev/null
}

# remember_private ROOT RECORDS: notes which options keep the node private. Only a good file
# takes a name from the list.
remember_private() {
	memory=$1/var/lib/cairn/private
	private=$(sed -n 's/^private //p' "$2") || return 1
	before=""
	if remembered_private "$memory"; then before=$remembered_line; fi
	if ! grep -q '^good 1$' "$2"; then
		# not as it was written: it stays, and with it the doubt
		[ -n "$before" ] || [ ! -e "$memory" ] || return 0
		# in the shell, which loses no name
		names=$before
		for private_name in $private; do
			case " $names " in *" $private_name "*) ;; *) names="$names $private_name" ;; esac
		done
		private=${names# }
	fi
	if [ -z "$private" ]; then
		[ ! -e "$memory" ] || { rm -f "$memory" && sync "${memory%/*}"; }
	elif [ "$private" != "$before" ]; then
		printf '%s\n' "$private" | lasting "$memory"
	fi
}

# keep_good ROOT: the last good node.conf, which node-config has left in /run, stays on the data
# partition. A later one that is its beginning only has been cut short. It has what rpcauth= says.
keep_good() {
	[ -e "$1/run/cairn/node-conf.good" ] || return 0
	cmp -s "$1/run/cairn/node-conf.good" "$1/var/lib/cairn/node.conf" ||
		lasting "$1/var/lib/cairn/node.conf" 600 <"$1/run/cairn/node-conf.good"
}
