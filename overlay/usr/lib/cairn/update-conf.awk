# What a kept node.conf would make of the present one: prints a line for each kind of it.
#   lacks NAMES  keeps the node private, and the kept file has it not, or otherwise
# Called by update-conf.sh with the records (node-conf.awk) of the present file and of the kept one.
# Variables: wants  names that keep the node private, by earlier boots
# POSIX awk; must run under busybox and mawk.

FNR == 1 { file++ }
$1 == "option" {
	line = $0
	sub(/^option [^ ]* /, "", line)
	name = line
	sub(/=.*/, "", name)
	# no<name>=1, as node-conf-end.awk shows a list that is empty
	if (line ~ /^no[^=]*=1$/) name = substr(name, 3)
	if (!((file, line) in has)) name_of[file, ++count[file]] = name
	line_of[file, count[file]] = line
	has[file, line] = 1
	next
}
{
	name = $1
	line = $0
	sub(/^[^ ]* ?/, "", line)
	record[file, name] = line
}
# differ NAME: has one of the two files a line of that option that the other has not?
function differ(name,    f, i) {
	for (f = 1; f <= 2; f++) for (i = 1; i <= count[f]; i++)
		if (name_of[f, i] == name && !((3 - f, line_of[f, i]) in has)) return 1
	return name == "chain" && record[1, name] != record[2, name]
}
END {
	if (file != 2) exit 1
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
	if (lacks != "") print "lacks" lacks
}
