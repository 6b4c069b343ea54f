package script

import (
	"fmt"
	"io/fs"
	"strings"
)

// Assemble returns the source of the script in a file of a tree of Lua files. A file includes the fragment fragments/NAME.lua by a line
//
//	-- requires NAME, ANOTHER
//
// A script begins with its fragments in the order of these names, each once, and after the fragments that it requires itself. Comments are
// left out, because a server that has lost its script cache is sent the whole source. A script that has a function main ends by calling it
// through answer, of answer.lua.
func Assemble(tree fs.FS, file string) (string, error) {
	source, err := assemble(tree, file, map[string]bool{})
	if err == nil && strings.Contains(source, "\nlocal function main()\n") {
		source += "return answer(main)\n"
	}
	return source, err
}

// assemble is Assemble without the fragments in done, to which it adds those that it includes.
func assemble(tree fs.FS, file string, done map[string]bool) (string, error) {
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return "", err
	}
	var fragments, code strings.Builder
	for line := range strings.Lines(string(text)) {
		bare := strings.TrimSpace(line)
		names, requires := strings.CutPrefix(bare, "-- requires ")
		switch {
		case requires:
			for name := range strings.SplitSeq(names, ", ") {
				if done[name] {
					continue
				}
				done[name] = true
				fragment, err := assemble(tree, "fragments/"+name+".lua", done)
				if err != nil {
					return "", fmt.Errorf("%s requires %q: %w", file, name, err)
				}
				fragments.WriteString(fragment)
			}
		case bare != "" && !strings.HasPrefix(bare, "--"):
			code.WriteString(line)
		}
	}
	return fragments.String() + code.String(), nil
}
