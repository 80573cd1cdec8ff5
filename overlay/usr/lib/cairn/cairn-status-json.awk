# Text into JSON and HTML, and Core's JSON into fields, for cairn-status.awk. POSIX awk; must run
# under busybox and mawk. The input is printable ASCII.

# replaced TEXT, CHARACTER, BY: without sub(), in whose replacement & and \ mean something
function replaced(text, character, by,    out, at) {
	while ((at = index(text, character))) {
		out = out substr(text, 1, at - 1) by
		text = substr(text, at + length(character))
	}
	return out text
}
function json(text) { return "\"" replaced(replaced(text, "\\", "\\\\"), "\"", "\\\"") "\"" }
function html(text) {
	text = replaced(replaced(replaced(text, "&", "&amp;"), "<", "&lt;"), ">", "&gt;")
	return replaced(replaced(text, "\"", "&quot;"), "'", "&#39;")
}
# What stands between the quotes of a JSON string of Core's; what is no printable ASCII is "?".
function plain(text,    out, at, c) {
	while ((at = index(text, "\\"))) {
		c = substr(text, at + 1, 1)
		out = out substr(text, 1, at - 1) (index("\"\\/", c) ? c : index("nrt", c) ? " " : "?")
		text = substr(text, at + (c == "u" ? 6 : 2))
	}
	return out text
}
# field INDENT LINE: a line "NAME": VALUE, of that indentation; sets key and value, or returns 0
function field(indent, line) {
	if (substr(line, 1, indent + 1) !~ /^ +"$/ || !match(line, /": /)) return 0
	key = substr(line, indent + 2, RSTART - indent - 2)
	value = substr(line, RSTART + 3)
	if (key !~ /^[A-Za-z0-9_]+$/) return 0
	sub(/,$/, "", value)
	if (value ~ /^".*"$/) value = plain(substr(value, 2, length(value) - 2))
	return 1
}
function whole(text) { return text ~ /^(0|[1-9][0-9]*)$/ && length(text) < 16 }
function decimal(text) {
	return length(text) < 24 && text ~ /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9][0-9]?)?$/
}
# Values of the kinds in the schema; what is not one is null.
function count(text) { return whole(text) ? text : "null" }
function flag(text) { return text == "true" || text == "false" ? text : "null" }
function string(text) { return text == "" ? "null" : json(text) }
