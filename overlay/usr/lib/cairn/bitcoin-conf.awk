# Reads a bitcoin.conf as Bitcoin Core does, as far as it is about where bitcoind listens. Used by
# listening.awk and firewall.awk, which have the END. POSIX awk; runs under busybox and mawk.
#
# After the file:  lines[1..NR]   its lines; `first`: number of the first [section], 0 for none
#                  chain          the chain in force
#                  has(NAME)      is there such a line in force?  value(NAME): its first value, "no"
#                                 for a negation
#                  entries(NAME, LIST)  all values in force, in LIST[1..]; returns how many
#                  listens()      does bitcoind listen for peers?

# set NAME VALUE: the first value in the chain's section counts, then the first above it
function set(name, value,    at) {
	if (section == "") { if (!(name in above)) above[name] = value }
	else if (!((section, name) in below)) below[section, name] = value
	at = section SUBSEP name
	every[at, ++many[at]] = value
}
function has(name) {
	if ((chain, name) in below) return 1
	# of these two only a negation counts above the sections of a test chain
	return name in above && (chain == "main" || name !~ /^(bind|connect|port)$/ || above[name] == "no")
}
function value(name) { return (chain, name) in below ? below[chain, name] : above[name] }
function entries(name, list,    n, i, at) {
	n = 0
	at = chain SUBSEP name
	for (i = 1; i <= many[at] + 0; i++) if (every[at, i] != "no") list[++n] = every[at, i]
	if (chain != "main" && name == "bind") return n
	at = "" SUBSEP name
	for (i = 1; i <= many[at] + 0; i++) if (every[at, i] != "no") list[++n] = every[at, i]
	return n
}
function listens(    proxy, alone) {
	if (has("listen")) return value("listen") == "1"
	proxy = has("proxy") && value("proxy") != "" && value("proxy") != "0"
	alone = has("maxconnections") && value("maxconnections") + 0 <= 0
	return !has("connect") && !proxy && !alone
}

BEGIN { chain = "main"; section = ""; first = 0 }
{ lines[NR] = $0; text = $0; sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text) }
text ~ /^\[.*\]$/ {
	section = substr(text, 2, length(text) - 2)
	if (!first) first = NR
	next
}
text ~ /^#/ || text !~ /=/ { next }
{
	name = substr(text, 1, index(text, "=") - 1); sub(/[ \t]+$/, "", name)
	worth = substr(text, index(text, "=") + 1); sub(/^[ \t]+/, "", worth)
	if (section == "" && name == "chain") chain = worth
	else if (section == "" && name ~ /^(regtest|signet|testnet|testnet4)$/ && worth != "0")
		chain = name == "testnet" ? "test" : name
	else if (name ~ /^no(bind|whitebind|connect)$/) set(substr(name, 3), "no")
	else if (name ~ /^no(listen|proxy)$/) set(substr(name, 3), worth == "1" ? "0" : "?")
	else if (name ~ \
		/^(bind|whitebind|connect|proxy|listen|maxconnections|port|networkactive)$/) set(name, worth)
}
