package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

const manHelp = `Usage: holdfast man [COMMAND]
       holdfast man --dir DIR

Prints the manual page of holdfast, or of one of its commands, for man(1), or writes all of
them, with the names that man looks for.

  holdfast man run | man -l -
  holdfast man --dir /usr/local/share/man/man1 && man holdfast-run

Flags:
{flags}

Exit codes: 0 done, 64 wrong usage, 73 a page cannot be written.
`

func man(f *pflag.FlagSet) action {
	dir := f.String("dir", "", "write all pages into `DIR`, which must exist, in place of older ones")
	return func(_ context.Context, _ io.Reader, stdout, _ io.Writer) error {
		switch {
		case f.NArg() == 1 && f.Changed("dir"):
			return exitcode.Usagef("want one COMMAND, or --dir DIR; see holdfast help man")
		case f.Changed("dir"):
			return writePages(*dir)
		case f.NArg() == 0:
			return printText(stdout, string(mainPage()))
		}
		c, err := find(f.Arg(0))
		if err != nil {
			return err
		}
		return printText(stdout, string(manualOf(c).page()))
	}
}

// writePages writes all pages into a folder.
func writePages(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return &exitcode.Error{Code: exitcode.CannotCreate, Err: fmt.Errorf("%s is not a folder: make it first", dir)}
	}
	pages := map[string][]byte{"holdfast.1": mainPage()}
	for _, m := range manuals() {
		pages["holdfast-"+m.name+".1"] = m.page()
	}
	for name, page := range pages {
		if err := output.ReplaceFile(filepath.Join(dir, name), page); err != nil {
			return &exitcode.Error{Code: exitcode.CannotCreate, Err: err}
		}
	}
	return nil
}

// mainPage is the manual page of holdfast.
func mainPage() []byte {
	p := newPage("holdfast", "distributed locks on Redis and Valkey")
	p.section("Synopsis")
	p.printf(".B holdfast\n.I command\n.RI [ flags ]\n.RI [ arguments ]\n")
	p.section("Commands")
	all := manuals()
	for _, m := range all {
		p.printf(".TP\n.BR holdfast\\-%s (1)\n%s\n", troff(m.name), troff(m.summary))
	}
	p.section("Environment")
	p.printf(".TP\n.BR HOLDFAST_REDIS \", \" REDIS_URL\nURL of the server, if there is no\n.BR \\-\\-redis :\nthe first of them counts; otherwise it is %s.\nIn a job of holdfast itself, only HOLDFAST_REDIS counts, and there is no default.\n", troff(connect.Default))
	p.printf(".TP\n.B HOLDFAST_PREFIX\nwhat keys begin with, if there is no\n.BR \\-\\-prefix .\n")
	p.printf(".TP\n.B NO_COLOR\nIf it is set, terminals are written to without colors and bold type.\n")
	p.section("Exit status")
	p.printf("The commands that holdfast runs have codes of their own, which it exits with.\n")
	for _, code := range exitcode.All {
		p.printf(".TP\n.B %s\n%s\n", troff(code.Text()), troff(code.Meaning))
	}
	p.section("See also")
	var see []string
	for _, m := range all {
		see = append(see, ".BR holdfast\\-"+troff(m.name)+" (1)")
	}
	p.printf("%s\n", strings.Join(see, ",\n"))
	return p.Bytes()
}

// page is the manual page of a command.
func (m *manual) page() []byte {
	p := newPage("holdfast-"+m.name, m.summary)
	p.section("Synopsis")
	p.verbatim(m.usage)
	p.section("Description")
	for i, s := range m.sections {
		switch {
		case s.title == flagsTitle:
			p.section("Options")
			p.options(m.flags)
			continue
		case s.title != "":
			p.section(s.title)
		case i > 0:
			p.section("Notes")
		}
		p.body(s)
	}
	p.section("See also")
	p.printf(".BR holdfast (1)\n")
	return p.Bytes()
}

// manPage is a page for man(1), in the language of troff.
type manPage struct{ bytes.Buffer }

func newPage(name, summary string) *manPage {
	p := &manPage{}
	p.printf(".TH %s 1 \"\" \"holdfast %s\" \"Holdfast\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(troff(name)), thisBuild().Version, troff(name), troff(summary))
	return p
}

func (p *manPage) printf(format string, args ...any) { fmt.Fprintf(&p.Buffer, format, args...) }

func (p *manPage) section(title string) { p.printf(".SH \"%s\"\n", troff(strings.ToUpper(title))) }

// verbatim writes lines as they are.
func (p *manPage) verbatim(lines []string) {
	p.printf(".nf\n")
	for _, line := range lines {
		p.printf("%s\n", troff(line))
	}
	p.printf(".fi\n")
}

func (p *manPage) options(flags []flagText) {
	for _, f := range flags {
		p.printf(".TP\n.B ")
		if f.short != "" {
			p.printf("\\-%s, ", f.short)
		}
		p.printf("\\-\\-%s", troff(f.long))
		switch {
		case f.optional:
			p.printf("[=\\fI%s\\fP]", troff(f.value))
		case f.value != "":
			p.printf(" \\fI%s\\fP", troff(f.value))
		}
		p.printf("\n%s\n", troff(f.text))
	}
}

// columns matches lines that are parts of a table, or examples.
var columns = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ {4,}|\S {2,}\S`) })

// body writes paragraphs, and what is a table or an example as it is.
func (p *manPage) body(s section) {
	var group []string
	first := true
	end := func() {
		if len(group) == 0 {
			return
		}
		if !first {
			p.printf(".PP\n")
		}
		first = false
		asIs := s.title == "" && strings.HasPrefix(group[0], " ") // an example
		for _, line := range group {
			asIs = asIs || columns().MatchString(line)
		}
		if asIs {
			p.verbatim(group)
		} else {
			for _, line := range group {
				p.printf("%s\n", troff(strings.TrimSpace(line)))
			}
		}
		group = nil
	}
	for _, line := range s.lines {
		// An example begins where the indentation changes.
		if line == "" || len(group) > 0 && isExample(line) != isExample(group[len(group)-1]) && !columns().MatchString(strings.TrimSpace(line)) {
			end()
		}
		if line != "" {
			group = append(group, line)
		}
	}
	end()
}

func isExample(line string) bool { return strings.HasPrefix(line, "    ") }

var troffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

// troff escapes a text.
func troff(text string) string {
	text = troffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
