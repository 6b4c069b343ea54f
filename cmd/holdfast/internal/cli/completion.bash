# Completion of holdfast for bash: source it.
_holdfast() {
	local current=${COMP_WORDS[COMP_CWORD]} words= i
	local commands='NAMES'
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			((i == COMP_CWORD - 1)) && COMPREPLY=($(compgen -c -- "$current")) || COMPREPLY=($(compgen -f -- "$current"))
			return
		fi
	done
	((COMP_CWORD == 1)) && words=$commands || case ${COMP_WORDS[1]} in
	help) words=$commands ;;
CASES
	esac
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _holdfast holdfast
