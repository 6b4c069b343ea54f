package cli

import (
	"os/exec"
	"testing"
)

// A shell reads each word as the original text. Nothing in a word can affect the terminal or the shell.
func TestShellWord(t *testing.T) {
	bash, err := exec.LookPath("bash")
	for text, want := range map[string]string{
		"orders/42":       "orders/42",
		"":                "''",
		"a b":             "'a b'",
		"it's $(x)":       `'it'\''s $(x)'`,
		"-n":              "'-n'",
		"日本":              "'日本'",
		"a\u202eb'\\":     `$'a\u202eb\'\\'`,
		"\u009b31m$(x)\"": `$'\u009b31m$(x)"'`,
	} {
		word := shellWord(text)
		if word != want {
			t.Errorf("%q becomes %s, want %s", text, word, want)
		}
		if err != nil {
			continue
		}
		cmd := exec.Command(bash, "-c", "printf %s "+word)
		if text == "-n" {
			cmd = exec.Command(bash, "-c", "printf %s -- "+word)
			text = "---n"
		}
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		if said, err := cmd.Output(); err != nil || string(said) != text {
			t.Errorf("bash reads %s as %q, %v; want %q", word, said, err, text)
		}
	}
}
