# shellcheck shell=sh
# consoles_say ROOT SENTENCE: a sentence on each console, before there is a status screen.
# Sourced by cairn-emergency, cairn-datadisk and cairn-trial. Printable ASCII only: it may have
# words that are on a disk, which may be anybody's. A console that is gone is passed over.
consoles_say() {
	console_text=$(printf '%s' "$2" | LC_ALL=C tr -c ' -~' '?')
	consoles=""
	read -r consoles <"$1/sys/class/tty/console/active" || :
	for console in $consoles; do
		printf '\r\n! %s\r\n' "$console_text" 2>/dev/null >"$1/dev/$console" || :
	done
}
