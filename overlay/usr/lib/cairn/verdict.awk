# Finds bitcoind's last words in the table of their meanings. POSIX awk.
#
# usage: awk -v up= -v failed= -f verdict.awk verdict.tsv WORDS
#   up      1: bitcoind was up before it ended (lines for "start" do not apply)
#   failed  1: it ended by itself with exit status 1, as it does after an error
#   WORDS   its standard error, of a run that was up from then on; or a look's result
# Environment: copy  replaces {copy} in the sentence
# Output: "action<TAB>sentence<TAB>said", printable ASCII; nothing when no line fits. Without
# a fitting line but with an error of bitcoind's: "<TAB><TAB>said".
#
# A warning at the start may name a wallet, and that name have a line break in it. Therefore
# words before it was up must be its only error, and it must have ended over one: more of them
# can be made, but the real one cannot be taken away. For a look, words are enough: it looks.
# Behind a warning at the start, words that would lead to a rebuild only count as an end.
BEGIN { FS = "\t" }

FNR == NR {
	if ($0 == "" || $0 ~ /^#/) next
	if ($1 == "say") { sentence[$2] = $3; next }
	rules++
	action[rules] = $1; when[rules] = $2; named[rules] = $3; words[rules] = "^(" $4 ")$"
	next
}
/^Warning: / { warned = 1 }
FNR > 500 || length($0) > 2000 { next } # no sentence of Core's, nor a reason to work for hours
# always the companion of another one (src/net.cpp)
$0 == "Error: Failed to listen on any port. Use -listen=0 if you want this." { next }
# its question, behind an error without "Error: " (src/init.cpp)
$0 == "Please restart with -reindex or -reindex-chainstate to recover." { asked = 1 }
/^Error: / && !($0 in errors) { errors[$0] = 1; count++; if (count == 1) first = $0 }
{ line[++lines] = $0 }

function short(text) {
	sub(/^(Error: |bitcoin-dbconvert: )/, "", text)
	sub(/^A fatal internal error occurred, see [a-z.]* for details: /, "", text)
	sub(/; .*/, "", text) # Core's advice
	gsub(/[^ -~]/, "?", text)
	return length(text) > 120 ? substr(text, 1, 117) "..." : text
}
# not by sub(), to which & and \ mean something
function put(text, name, value,    at) {
	at = index(text, name)
	return at ? substr(text, 1, at - 1) value substr(text, at + length(name)) : text
}
END {
	for (r = 1; r <= rules; r++) {
		if (when[r] == "start" && up) continue
		for (i = 1; i <= lines; i++) {
			if (line[i] !~ words[r]) continue
			others = (line[i] in errors) ? count - 1 + asked : count
			if (!up && action[r] !~ /^look:/ && (!failed || others)) continue
			said = short(line[i])
			if (action[r] == "again" && warned && !up) { print "ended\t\t" said; exit }
			sense = put(put(sentence[named[r]], "{said}", said), "{copy}", ENVIRON["copy"])
			print action[r] "\t" sense "\t" said
			exit
		}
	}
	if (count) print "\t\t" short(first)
}
