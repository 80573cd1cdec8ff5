# Lines of node.conf that cannot be used: what the screen says, and what they may have been about.
# Used by node-conf.awk. POSIX awk; must run under busybox and mawk.

function say(nr, line, why) {
	if (nr in sentence) return
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
	if (is(name, "secret")) line = key "=..."
	if (rejects >= most_rejected) once_doubt = 1
	if (++rejects > most_rejected) {
		close_network("off", nr)
		hide("", nr)
		doubt = doubt ? doubt : nr
		update_doubt = update_doubt ? update_doubt : nr
		return
	}
	say(nr, line, why)
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
		else if (is(word, "private")) close_network("off", nr)
		else if (is(word, "inbound")) close_network("outbound", nr)
	}
}
# The option about privacy in whose name a text ends; else prune or reindex, or "" for none. One
# that switches the network off goes before one about connections from outside.
function guarded_end(text,    option, found) {
	sub(/^.*[^a-z0-9-]/, "", text)
	if (text ~ /tor$/) return "tor"
	if (text ~ /(prune|reindex)$/) found = text ~ /prune$/ ? "prune" : "reindex"
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
# Is the name that of an option, with a slip perhaps? Those about privacy have been judged. A name
# like no other may have been meant to be one of them.
function familiar(key, body,    first) {
	if (body ~ /^[ \t]*\[[^=]*$/) return 1 # a section: its lines speak for themselves
	key = first = bare(key)
	sub(/[^a-z0-9-].*/, "", first); gsub(/[^a-z0-9]/, "", key)
	return known_word(first) || known_word(key)
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
function zero_connections(key, body,    name) {
	name = bare(key)
	gsub(/[^a-z0-9]/, "", name)
	if (!resembles(name, "maxconnections")) return 0
	if (!sub(/^[^=]*=/, "", body)) sub(/^[ \t]*[^ \t:]*/, "", body)
	body = tolower(body)
	gsub(/[ \t:]/, "", body)
	return body !~ /^\+?0*[1-9]/
}
# What may the line have been about?
function judge(nr, key,    text, count, tokens, i) {
	if (key ~ /[^ -~\t]/) { once_doubt = 1; close_network("off", nr); doubt = doubt ? doubt : nr }
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
	if (resembles(word, "prune") || (!(word in kind) && word ~ /prun|archiv/))
		doubt = doubt ? doubt : nr
	# the file that it names may have said anything
	for (option in elsewhere) if (resembles(word, option)) doubt = doubt ? doubt : nr
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
