#compdef holdfast
# Completion of holdfast for zsh: _holdfast in a folder of fpath.
_holdfast() {
	local -a commands
	commands=(
NAMES
		'help:describe a command'
	)
	if ((CURRENT == 2)); then
		_describe command commands
		return
	fi
	local command=$words[2]
	shift words
	((CURRENT--))
	case $command in
	help)
		_describe command commands
		;;
CASES
	esac
}
_holdfast "$@"
