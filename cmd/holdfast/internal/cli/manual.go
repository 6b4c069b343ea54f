package cli

import (
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/pflag"
)

// A manual is the help of a command, taken apart. Manual pages and completions are made of it, so that they say what the
// help says.
type manual struct {
	*command
	usage    []string // lines, which begin with "holdfast"
	sections []section
	flags    []flagText
}

// section is a part of a help text below a title. The first has no title; that of the flags has no lines.
type section struct {
	title string
	lines []string
}

// flagsTitle is the title of the section with the flags.
const flagsTitle = "Flags"

// flagText is a flag as the help shows it.
type flagText struct {
	short    string // one letter, or ""
	long     string
	value    string // what stands for its value; "" if it has none
	optional bool   // the flag can be given without a value
	text     string // in one line
}

var (
	usageLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:Usage:| {6}) (holdfast .*)$`) })
	titleLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Z][^:.]*):$`) })
)

// manualOf returns the manual of a command.
func manualOf(c *command) *manual {
	m := &manual{command: c, sections: []section{{}}}
	f, _ := c.flags()
	f.VisitAll(func(f *pflag.Flag) { m.flags = append(m.flags, newFlagText(f)) })
	for i, line := range strings.Split(strings.TrimRight(c.help, "\n"), "\n") {
		here := &m.sections[len(m.sections)-1]
		title := titleLine().FindStringSubmatch(line)
		switch {
		case i == len(m.usage) && usageLine().MatchString(line):
			m.usage = append(m.usage, usageLine().FindStringSubmatch(line)[1])
		case title != nil:
			m.sections = append(m.sections, section{title: title[1]})
		case line == "{flags}":
			m.sections = append(m.sections, section{})
		default:
			here.lines = append(here.lines, line)
		}
	}
	return m
}

func newFlagText(f *pflag.Flag) flagText {
	value, text := pflag.UnquoteUsage(f)
	if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" && f.DefValue != "[]" {
		text += " (default " + f.DefValue + ")"
	}
	return flagText{f.Shorthand, f.Name, value, value != "" && f.NoOptDefVal != "", strings.ReplaceAll(text, "\n", " ")}
}

// isFile reports whether the flag's value is the name of a file.
func (f flagText) isFile() bool { return f.value == "FILE" || f.value == "DIR" }

// words are the arguments that are written as they stand in command.args, such as wait, or bash.
func (c *command) words() (words []string) {
	for _, arg := range strings.Fields(c.args) {
		if arg != anyArgs && arg == strings.ToLower(arg) {
			words = append(words, strings.Split(arg, "|")...)
		}
	}
	return words
}

// runsCommand reports whether a command follows after --.
func (c *command) runsCommand() bool { return strings.Contains(c.help, " -- CMD") }

// takesCommandName reports whether the argument is the name of one of holdfast's commands.
func (c *command) takesCommandName() bool { return c.args == "[COMMAND]" }

// manuals returns the manuals of all commands.
func manuals() (all []*manual) {
	for _, c := range commands() {
		all = append(all, manualOf(&c))
	}
	return all
}
