# Is the input one JSON object with no name twice at its top, as Core reads settings.json
# (src/common/settings.cpp, UniValue)? POSIX awk; exit status 0 yes, 1 no.
{ text = text $0 "\n" }

function space() { while (substr(text, at, 1) ~ /^[ \t\r\n]$/) at++ }
function string(    c, from) {
	if (substr(text, at, 1) != "\"") return 0
	from = ++at
	while ((c = substr(text, at, 1)) != "\"") {
		if (c == "" || c < " ") return 0
		if (c == "\\") {
			c = substr(text, ++at, 1)
			if (c == "u") {
				if (substr(text, at + 1, 4) !~ \
					/^[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]$/) return 0
				at += 4
			} else if (c == "" || !index("\"\\/bfnrt", c)) return 0
		}
		at++
	}
	last = substr(text, from, at++ - from)
	return 1
}
function word(    rest) {
	rest = substr(text, at, 80)
	if (!match(rest, /^(true|false|null|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?)/)) return 0
	at += RLENGTH
	return 1
}
function value(depth,    c, close_with) {
	if (depth > 100) return 0
	space(); c = substr(text, at, 1)
	if (c == "\"") return string()
	if (c != "{" && c != "[") return word()
	close_with = c == "{" ? "}" : "]"
	at++; space()
	if (substr(text, at, 1) == close_with) { at++; return 1 }
	while (1) {
		space()
		if (c == "{") {
			if (!string()) return 0
			if (depth == 1 && (last in names)) return 0
			if (depth == 1) names[last] = 1
			space()
			if (substr(text, at++, 1) != ":") return 0
		}
		if (!value(depth + 1)) return 0
		space()
		if (substr(text, at, 1) == close_with) { at++; return 1 }
		if (substr(text, at++, 1) != ",") return 0
	}
}
END {
	at = 1
	space()
	if (substr(text, at, 1) != "{" || !value(1)) exit 1
	space()
	exit at <= length(text)
}
