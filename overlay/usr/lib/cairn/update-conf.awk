# What a kept node.conf would make of the present one: prints a line for each kind of it.
#   lacks NAMES   keeps the node private, or limits who is in, and the kept file has it not, or
#                 otherwise
#   opens LINES   of the kept file that the present one has not: lets somebody in, or asks somebody
#   keeps PRUNE, needs PRUNE  fewer blocks would be kept: by the kept file, and by what counts now
# Called by update-conf.sh with the records (node-conf.awk) of the present file and of the kept one.
# Variables: table   options.tsv
#            wants   names that keep the node private, by earlier boots
#            pruned  what bitcoind last came up with on the kept file's chain, "" if it never did,
#                    torn if that cannot be read
# POSIX awk; must run under busybox and mawk.

BEGIN {
	while ((getline row < table) > 0) {
		if (row ~ /^#/ || split(row, words, "\t") != 6) continue
		options++
		if (("," words[5] ",") ~ /,(inbound|opens),/) opening[words[1]] = 1
	}
	close(table)
	n = split("sshkey walletkey walletaccess walletshow", words, " ")
	for (i = 1; i <= n; i++) opening[words[i]] = 1
}
FNR == 1 { file++ }
$1 == "option" {
	line = $0
	sub(/^option [^ ]* /, "", line)
	name = line
	sub(/=.*/, "", name)
	# no<name>=1, as node-conf-end.awk shows a list that is empty
	if (line ~ /^no[^=]*=1$/) name = substr(name, 3)
	take(name, line)
	next
}
{
	name = $1
	line = $0
	sub(/^[^ ]* ?/, "", line)
	record[file, name] = line
	if (name in opening) take(name, name "=" line)
}
function take(name, line) {
	if ((file, bare(line)) in has) return
	has[file, bare(line)] = 1
	name_of[file, ++count[file]] = name
	line_of[file, count[file]] = line
}
# A key is the same with another comment.
function bare(line) {
	if (match(line, /^(ssh|wallet)key=[^ ]+ [^ \t]+/)) return substr(line, 1, RLENGTH)
	return line
}
# differ NAME: has one of the two files a line of that option that the other has not?
function differ(name,    f, i) {
	for (f = 1; f <= 2; f++) for (i = 1; i <= count[f]; i++)
		if (name_of[f, i] == name && !((3 - f, line_of[f, i]) in has)) return 1
	return name == "chain" && record[1, name] != record[2, name]
}
# Only follows from tor=1 (print_tor), or from another line about wallets (print_own)
function follows(name, line) {
	if (record[2, "tor"] != "" && record[1, "tor"] == "" &&
		line ~ /^(listen=1|listenonion=1|bind=127\.0\.0\.1:[0-9]+=onion)$/) return 1
	return line == "walletaccess=ssh" || (line == "walletaccess=rpc" &&
		(((2, "walletaccess=tor") in has) || kept_key))
}
# Nobody's password is shown; a key is known by its end.
function shown(name, line) {
	if (name ~ /key$/ && length(line) > 60)
		line = name "=..." substr(line, length(line) - 23)
	else if (name == "rpcauth") sub(/:.*/, ":...", line)
	gsub(/[^ -~]/, "?", line)
	return length(line) > 60 ? substr(line, 1, 57) "..." : line
}
# Who is asked for updates?
function asked(f) { return record[f, "update"] == "off" ? "" : record[f, "updateurl"] }
# How much is kept: 0 is all, and 1 deletes nothing by itself.
function blocks(prune) {
	return prune == "0" ? 2000000000 : prune == "1" || prune == "torn" ? 1900000000 : prune + 0
}
function check_private(    i, n, words, name, kept, present, told, lacks) {
	n = split(record[2, "private"], words, " ")
	for (i = 1; i <= n; i++) kept[words[i]] = 1
	n = split(record[1, "private"], words, " ")
	for (i = 1; i <= n; i++) present[words[i]] = 1
	n = split(wants " " record[1, "private"], words, " ")
	for (i = 1; i <= n; i++) {
		name = words[i]
		if ((name in kept) && !((name in present) && differ(name))) continue
		if (!(name in told)) lacks = lacks " " name
		told[name] = 1
	}
	for (i = 1; i <= count[1]; i++) {
		name = name_of[1, i]
		# Without rpcwhitelistdefault=0 fewer are let in.
		if (name !~ /^rpcwhitelist/ || line_of[1, i] == "rpcwhitelistdefault=0") continue
		if ((name in told) || ((2, line_of[1, i]) in has)) continue
		lacks = lacks " " name
		told[name] = 1
	}
	if (lacks != "") print "lacks" lacks
}
function check_open(    i, name, line, opens) {
	for (i = 1; i <= count[2]; i++) if (name_of[2, i] == "walletkey") kept_key = 1
	for (i = 1; i <= count[2]; i++) {
		name = name_of[2, i]
		line = line_of[2, i]
		if (!(name in opening) || ((1, bare(line)) in has) || follows(name, line)) continue
		# switched off; rpcwhitelistdefault=0 lets more users in
		if ((line ~ /^[a-z0-9]+=0$/ || line ~ /^no[a-z0-9]+=1$/) && name != "rpcwhitelistdefault")
			continue
		opens = opens ", " shown(name, line)
	}
	if (asked(2) != "" && asked(2) != asked(1)) opens = opens ", updateurl=" asked(2)
	# The version that is gone back from would come again by itself.
	if (asked(2) != "" && record[2, "update"] == "auto" && record[1, "update"] != "auto")
		opens = opens ", update=auto"
	if (opens != "") print "opens " substr(opens, 3)
}
# Without prune= the rule of node-tune decides, and never for fewer than 550 MiB; but once all
# blocks are kept, they are until another value is written (prune-target.sh).
function check_prune(    keeps, needs) {
	keeps = record[2, "prune"]
	needs = record[1, "prune"]
	if (needs == "" && (keeps != "" || record[1, "good"] == "")) needs = pruned
	else if (record[1, "chain"] != record[2, "chain"] && blocks(pruned) > blocks(needs)) needs = pruned
	if (keeps == "" && (pruned == "0" || pruned == "torn")) return
	if (blocks(keeps == "" ? "550" : keeps) >= blocks(needs)) return
	print "keeps " (keeps == "" ? "no prune=" : "prune=" keeps)
	print "needs " (needs == "torn" ? "what cannot be read any more" : "prune=" needs)
}
END {
	if (file != 2 || !options) exit 1
	check_private()
	check_open()
	check_prune()
}
