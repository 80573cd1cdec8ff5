# Lines of node.conf that cannot be used: what the screen says, and what they may have been about.
# Used by node-conf.awk. POSIX awk; must run under busybox and mawk.

# The screen hangs on a wall, and the journal is kept: no line is quoted with a private key or with
# what may be a password, also where its name has a slip.
function masked(nr, line,    key, first, all, option) {
	if (match(line, /-----BEGIN/)) return substr(line, 1, RSTART - 1) "..."
	key = index(line, "=") ? substr(line, 1, index(line, "=")) : ""
	if ((nr in pem) || base64(line)) return (key ~ /^[ \t]*[a-z]+[ \t]*=$/ && length(key) < 20 ? \
		key : "") "..."
	if (tolower(key) ~ /key/ && base64(substr(line, length(key) + 1))) return key "..."
	if (match(tolower(line), /(pas|pwd|psk|secret)[a-z0-9_.-]*[ \t]*[=:]?/))
		return substr(line, 1, RSTART + RLENGTH - 1) "..."
	first = first_word(key == "" ? line : key); all = joined(key == "" ? line : key)
	for (option in kind)
		if (is(option, "secret") && (resembles(first, option) || resembles(all, option)))
			return (key == "" ? first " " : key) "..."
	gsub(/:\/\/[^\/@]*@/, "://...@", line)
	return line
}
function base64(text) {
	text = trim(text)
	return length(text) >= 40 && text ~ /^[A-Za-z0-9+\/]+=*$/
}
# Notes which lines are a private key: OpenSSH's, or PuTTY's. A block that does not end ends where a
# NAME=VALUE stands.
function look_for_key(nr, line) {
	if (line ~ /-----BEGIN|PuTTY-User-Key-File/ && line !~ /PUBLIC/) { in_pem = 1; pem[nr] = "first" }
	else if (line ~ /b3BlbnNzaC1rZXk/) pem[nr] = "first" # how OpenSSH's begins
	else if (in_pem && line ~ /=[ \t]*[^= \t]/) in_pem = 0
	else if (in_pem) pem[nr] = "more"
	if (line ~ /-----END|Private-MAC/) in_pem = 0
}
# A good line that only another one, which cannot be used, makes useless
function say_only(nr, line, why) { if (++rejects <= most_rejected) say(nr, line, why) }
function say(nr, line, why) {
	if (nr in sentence) return
	if (nr in pem) why = pem[nr] == "more" ? "this is a part of a private key" : "This is a" \
		" private key. Take it off the card and make a new pair; the node needs the one line of" \
		" the .pub file"
	line = masked(nr, line)
	gsub(/[^ -~]/, "?", line)
	if (length(line) > 60) line = substr(line, 1, 57) "..."
	sentence[nr] = "node.conf line " nr ": \"" line "\": " why "; the line is ignored."
}
# close_network STATE: off is stronger than outbound; the first line that asks for it is named.
function close_network(state, nr) {
	if (network == "off" || network == state) return
	network = state
	closer = nr
}
# Nothing that other lines ask for by this option is carried out.
function withdraw(option, nr) { if (!(option in withdrawn)) withdrawn[option] = nr }
function withdraw_all(nr) {
	withdraw("erase", nr); withdraw("walletshow", nr)
	withdraw("walletaccess", nr); withdraw("rpcauth", nr)
}
# May the line have been meant to take back, or to limit, what another one asks for? Of a list of
# keys, one with a slip does not take back the others, which would lock their owner out, and
# reindex=yes does not take back reindex=1: there only a line that says no in so many words does.
function judge_withdrawal(nr, key, body,    option, first, all, no, denied) {
	first = first_word(key); all = joined(key)
	body = tolower(body)
	if (key ~ /[^ -~\t]/) withdraw_all(nr)
	for (option in takes_back)
		if (index(body, option) || resembles(first, option) || resembles(all, option))
			withdraw(takes_back[option], nr)
	no = "[ \t]*[=: \t][ \t\"\047]*(0+|no|none|off|false)([^a-z0-9]|$)"
	for (option in denies) {
		denied = body ~ ("no-?" option) || body ~ (option no)
		if (first ~ /^no/ && resembles(substr(first, 3), option)) denied = 1
		if (resembles(first, option) && body ~ (first no)) denied = 1
		if (denied) withdraw(denies[option], nr)
	}
}
# stores NAME VALUE: may that line have been meant to have each block of the first sync stored? A
# number of MiB is no such wish, with a slip or not, and neither is an index that is not wanted.
function stores(word, value) {
	value = tolower(value)
	gsub(/^[ \t"\047]+/, "", value)
	if (resembles(word, "blocksinmemory")) return value !~ /^[1-9]/
	return (resembles(word, "blockfilterindex") || resembles(word, "coinstatsindex")) &&
		value !~ /^(0+|no|none|off|false)([^a-z0-9]|$)/
}
function judge_stores(key, body,    value) {
	value = body
	if (!sub(/^[^=]*=/, "", value)) sub(/^[ \t]*[^ \t:]*[ \t:]*/, "", value)
	if (stores(first_word(key), value) || stores(joined(key), value)) store_doubt = 1
}
# Is it a line like walletaccess that names nothing but ways in? Such a line opens nothing, and its
# tor is no word about where the node goes.
function only_ways(key, body,    first) {
	first = first_word(key)
	if (!resembles(first, "walletaccess") || body ~ /=.*=/) return 0
	body = bare(body)
	body = substr(body, length(first) + 1)
	gsub(/rpc|tor|ssh|onion|and/, " ", body)
	return body ~ /^[ \t=:,;+&"\047]*$/
}
function reject(nr, line, why,    key, name, body) {
	body = line
	sub(/#.*/, "", body)
	key = line
	if (index(key, "=")) key = substr(key, 1, index(key, "=") - 1)
	name = tolower(key)
	gsub(/[^a-z0-9-]/, "", name); sub(/^-+/, "", name)
	if (index(tolower(line), "reindex")) once_doubt = 1
	if (index(tolower(line), "datadisk") || resembles(name, "datadisk")) disk_doubt = 1
	if (tolower(body) ~ /upda|[^ -~\t]/ || resembles(name, "update") || resembles(name, "updateurl"))
		update_doubt = update_doubt ? update_doubt : nr
	judge_withdrawal(nr, key, body)
	judge_stores(key, body)
	if (!bad_ip && bare(key) ~ /^ip([^a-z0-9-]|$)/) bad_ip = nr
	if (rejects >= most_rejected) once_doubt = store_doubt = filters_doubt = 1
	if (++rejects > most_rejected) {
		close_network("off", nr)
		hide("", nr)
		withdraw_all(nr)
		doubt = doubt ? doubt : nr
		update_doubt = update_doubt ? update_doubt : nr
		return
	}
	say(nr, line, why)
	if (only_ways(key, body)) key = body = "walletaccess"
	judge(nr, key)
	judge_rest(nr, tolower(body))
	if (!familiar(key, body)) { close_network("off", nr); hide("", nr) }
	else if (network != "off" && zero_connections(key, body)) close_network("off", nr)
}
# hide SWITCH: what the owner may have meant to switch off is off; all of it for "".
function hide(name, nr,    i) {
	for (i in switches) if ((name == "" || name == i) && !(i in hidden)) hidden[i] = nr
}
# The switch in whose name a text ends, where a line end was lost: 400page
function switch_end(text,    name) {
	for (name in switches)
		if (length(text) >= length(name) &&
			substr(text, length(text) - length(name) + 1) == name) return name
	return ""
}
# What stands behind the name: a second option where a line end was lost, an address of Tor. Only
# exact names count there, as a value may be any word.
function judge_rest(nr, body,    count, tokens, i, word) {
	if (body ~ /[^ -~\t]|onion|:9[01]50([^0-9]|$)/) close_network("off", nr)
	if (body ~ /[^ -~\t]/) hide("", nr)
	count = split(body, tokens, /[^a-z0-9]+/)
	for (i = 1; i <= count; i++) {
		word = tokens[i]
		if (!(word in kind)) sub(/^no/, "", word)
		if (word == "prune") doubt = doubt ? doubt : nr
		if (word in switches) { hide(word, nr); continue }
		if (word in private_word) hide("mdns", nr)
		if (word in private_word || is(word, "private")) close_network("off", nr)
		else if (is(word, "inbound")) close_network("outbound", nr)
	}
	# 400proxy=: the line end in front of the name was lost
	if (!sub(/^[^=]*=/, "", body)) return
	gsub(/[ \t]+=/, "=", body)
	count = split(body, tokens, "=")
	for (i = 1; i < count; i++) {
		if (switch_end(tokens[i]) != "") hide(switch_end(tokens[i]), nr)
		word = guarded_end(tokens[i])
		if (word == "prune") doubt = doubt ? doubt : nr
		else if (stores(word, tokens[i + 1])) store_doubt = 1
		else if (tokens[i] ~ /filters$/) filters_doubt = 1
		else if (is(word, "private")) close_network("off", nr)
		else if (is(word, "inbound")) close_network("outbound", nr)
	}
}
# The option about privacy in whose name a text ends; else one about blocks, or "" for none. One
# that switches the network off goes before one about connections from outside.
function guarded_end(text,    option, found) {
	sub(/^.*[^a-z0-9-]/, "", text)
	if (text ~ /tor$/) return "tor"
	if (match(text, /(prune|reindex|blocksinmemory|blockfilterindex|coinstatsindex)$/))
		found = substr(text, RSTART)
	for (option in kind) {
		if (!is(option, "private") && (is(found, "private") || !is(option, "inbound"))) continue
		if (length(option) > length(text)) continue
		if (substr(text, length(text) - length(option) + 1) == option) found = option
	}
	return found
}
# The name of a line, without what stands in front of it.
function bare(key) {
	key = tolower(substr(key, 1, 80))
	sub(/^[^a-z0-9]+/, "", key); sub(/^(main|test|testnet4|signet|regtest)\./, "", key)
	return key
}
# Its first word, and all of its words in one
function first_word(key) { key = bare(key); sub(/[^a-z0-9-].*/, "", key); return key }
function joined(key) { key = bare(key); gsub(/[^a-z0-9]/, "", key); return key }
# Is the name that of an option, with a slip perhaps? Those about privacy have been judged. A name
# like no other may have been meant to be one of them.
function familiar(key, body) {
	if (body ~ /^[ \t]*\[[^=]*$/) return 1 # a section: its lines speak for themselves
	return known_word(first_word(key)) || known_word(joined(key))
}
function known_word(word,    option) {
	if (word in kind || word in own_keys || word ~ /prun|archiv/) return 1
	for (option in kind) if (resembles(word, option)) return 1
	for (option in own_keys) if (resembles(word, option)) return 1
	return 0
}
# maxconnections=O: no connections at all. Core reads all that does not begin with a number as 0
# (LocaleIndependentAtoi), "many" and "20" with quotes, too: the node would not be more open with
# it.
function zero_connections(key, body) {
	if (!resembles(joined(key), "maxconnections")) return 0
	if (!sub(/^[^=]*=/, "", body)) sub(/^[ \t]*[^ \t:]*/, "", body)
	body = tolower(body)
	gsub(/[ \t:]/, "", body)
	return body !~ /^\+?0*[1-9]/
}
# What may the line have been about?
function judge(nr, key,    text, count, tokens, i) {
	if (key ~ /[^ -~\t]/) {
		once_doubt = store_doubt = filters_doubt = 1; close_network("off", nr); doubt = doubt ? doubt : nr
	}
	text = bare(key)
	sub(/ +$/, "", text)
	if (text in kind) { judge_word(nr, text); return } # reindex-chainstate is not about chain
	text = tolower(substr(key, 1, 80))
	count = split(text, tokens, /[^a-z0-9]+/)
	gsub(/[^a-z0-9]/, "", text)
	tokens[++count] = text
	for (i = 1; i <= count; i++) {
		if (tokens[i] == "" || tokens[i] in judged) continue
		judged[tokens[i]] = 1
		judge_word(nr, tokens[i])
		# noion is onion misspelt, nolistn is nolisten
		if (!(tokens[i] in kind) && tokens[i] ~ /^no./) judge_word(nr, substr(tokens[i], 3))
	}
}
function judge_word(nr, word,    option, state) {
	for (option in switches) if (resembles(word, option)) hide(option, nr)
	# not dns misspelt
	option = word
	sub(/^no/, "", option)
	if (option in switches) return
	if (resembles(word, "reindex")) once_doubt = 1
	if (resembles(word, "filters") || resembles(word, "blockfilterindex") ||
		resembles(word, "peerblockfilters") || (!(word in kind) && index(word, "filter")))
		filters_doubt = 1
	if (resembles(word, "prune") || (!(word in kind) && word ~ /prun|archiv/))
		doubt = doubt ? doubt : nr
	# the file that it names may have said anything
	for (option in elsewhere) if (resembles(word, option)) {
		store_doubt = filters_doubt = 1; doubt = doubt ? doubt : nr
	}
	if (word in private_word || (!(word in kind) && (resembles(word, "tor") || index(word, "tor")))) {
		close_network("off", nr)
		hide("mdns", nr)
	}
	if (network == "off") return
	if (word in kind) {
		if (is(word, "private")) close_network("off", nr)
		else if (is(word, "inbound")) close_network("outbound", nr)
		return
	}
	for (option in kind) {
		if (!is(option, "private") && !is(option, "inbound")) continue
		state = is(option, "private") ? "off" : "outbound"
		if (resembles(word, option)) close_network(state, nr)
		else if (length(option) >= 5 && index(word, option) && !near_other(word))
			close_network(state, nr)
	}
}
function resembles(word, option,    n) {
	if (word == option) return 1
	n = length(option)
	if (n < 3) return 0
	return like(word, option, n >= 8 ? 2 : 1) || like(word, "no" option, 1)
}
# maxconnection is maxconnections misspelt, not connect
function near_other(word,    option) {
	for (option in kind)
		if (!is(option, "private") && !is(option, "inbound") && like(word, option, 2)) return 1
	return 0
}
