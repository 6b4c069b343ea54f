package cli

import (
	"regexp"
	"strings"
	"sync"
)

// A manual is the help of a command, taken apart. Manual pages and completions are made of it, so that they say what the
// help says.
type manual struct {
	name, summary string
	usage         []string // lines, which begin with "holdfast"
	sections      []section
	flags         []flagText
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
	text     string // with line feeds as in the help
}

var (
	usageLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:Usage:| {6}) (holdfast .*)$`) })
	titleLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Z][^:.]*):$`) })
	flagLine  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^  (?:-(\w), |    )--([a-z][a-z0-9-]*)(?: ([^\s\[]+))?(\[=[^\]]*\])?\s+(.*)$`)
	})
)

// manualOf returns the manual of a command.
func manualOf(c *command) *manual {
	m := &manual{name: c.name, summary: c.summary, sections: []section{{}}}
	lines := strings.Split(strings.TrimRight(c.text(), "\n"), "\n")
	for i, line := range lines {
		here := &m.sections[len(m.sections)-1]
		title := titleLine().FindStringSubmatch(line)
		switch {
		case i == len(m.usage) && usageLine().MatchString(line):
			m.usage = append(m.usage, usageLine().FindStringSubmatch(line)[1])
		case title != nil:
			m.sections = append(m.sections, section{title: title[1]})
		case here.title == flagsTitle && line != "" && m.addFlag(line):
		case here.title == flagsTitle && line != "":
			m.sections = append(m.sections, section{lines: []string{line}})
		default:
			here.lines = append(here.lines, line)
		}
	}
	for i := range m.sections {
		if m.sections[i].title == flagsTitle {
			m.sections[i].lines = nil
		}
	}
	return m
}

// addFlag reads a line about a flag, or one that goes on about it.
func (m *manual) addFlag(line string) bool {
	if f := flagLine().FindStringSubmatch(line); f != nil {
		m.flags = append(m.flags, flagText{short: f[1], long: f[2], value: f[3], optional: f[4] != "", text: f[5]})
		return true
	}
	if len(m.flags) == 0 || !strings.HasPrefix(line, "        ") {
		return false
	}
	last := &m.flags[len(m.flags)-1]
	last.text += "\n" + strings.TrimSpace(line)
	return true
}

// isFile reports whether the flag's value is the name of a file.
func (f flagText) isFile() bool { return f.value == "FILE" || f.value == "DIR" }

// summary is the flag's text in one line.
func (f flagText) summary() string { return strings.ReplaceAll(f.text, "\n", " ") }

// words are the arguments that are written as they stand in the usage, such as wait, or bash.
func (m *manual) words() (words []string) {
	for _, line := range m.usage {
		for i, word := range strings.Fields(line) {
			if i < 2 {
				continue
			}
			if word == "--" {
				break
			}
			if plainWord().MatchString(word) {
				words = append(words, word)
			}
		}
	}
	return words
}

var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z-]*$`) })

// runsCommand reports whether a command follows after --.
func (m *manual) runsCommand() bool {
	for _, line := range m.usage {
		if strings.Contains(line, " -- CMD") {
			return true
		}
	}
	return false
}

// takesCommandName reports whether the argument is the name of one of holdfast's commands.
func (m *manual) takesCommandName() bool { return m.usage[0] == "holdfast "+m.name+" [COMMAND]" }

// manuals returns the manuals of all commands.
func manuals() (all []*manual) {
	for _, c := range commands() {
		all = append(all, manualOf(&c))
	}
	return all
}
