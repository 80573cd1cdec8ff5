# Sentences of bitcoind.report for the page, which everybody in the local network can read. Reports
# quote Core's words, paths and names of wallets, so that only sentences that are known here pass,
# in their own words; the screen has the whole. Called by cairn-status-warnings.sh.
#
# Input: verdict.tsv, whose sentences are say<tab>NAME<tab>SENTENCE, then the report.
# POSIX awk; must run under busybox and mawk.

# known BEGINNING SENTENCE: what stands for a line that begins so
function known(beginning, sentence) {
	begins[++count] = beginning
	means[count] = sentence
}
BEGIN {
	FS = "\t"
	stays = "it stays stopped, and nothing has been changed. The node's screen says why;" \
		" a reboot tries again."
	known("A database is damaged again (", "A database is damaged again, after it was rebuilt" \
		" already: the card or disk is probably failing; bitcoind stays stopped. " screen())
	known("A database is damaged (", "A database is damaged. The node's screen says what becomes" \
		" of it; wallet and settings are kept.")
	known("bitcoind failed to start ", "bitcoind failed to start several times in a row; " stays)
	known("bitcoind ended with ", "bitcoind ended and is started again; the node's screen has its" \
		" words.")
	known("bitcoind ended ", "bitcoind ended several times within minutes; " stays)
	known("bitcoind ran out of memory and is started again.", "bitcoind ran out of memory and is" \
		" started again. Lower dbcache= or maxmempool= in node.conf if this repeats.")
	known("The list of known peers was damaged ", "The list of known peers was damaged and is set" \
		" aside; bitcoind starts again and looks for peers anew.")
	known("The list of wallets to load was damaged ", "The list of wallets to load was damaged and" \
		" is set aside; the wallets are kept. The node's screen says how to load them.")
}
function screen() { return "The node's screen says how to save the wallets." }
FILENAME != previous { files++; previous = FILENAME }
files == 1 {
	if ($1 != "say" || NF != 3) next
	sentence = $3
	at = index(sentence, "{")
	beginning = at ? substr(sentence, 1, at - 1) : sentence
	gsub(/ \(\{said\}\)/, "", sentence)
	gsub(/\{copy\}/, screen(), sentence)
	if (beginning != "" && sentence !~ /[{}]/) known(beginning, sentence)
	next
}
{
	said = "There is a message about bitcoind; the node's screen and node-status show it."
	for (i = 1; i <= count; i++) if (index($0, begins[i]) == 1) { said = means[i]; break }
	print said
}
