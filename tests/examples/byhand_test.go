package examples

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// step is a block of shell commands, with the output that the document shows.
type step struct{ shell, prints string }

// byHand returns the blocks of that section of docs/scripts/README.md.
func byHand(t *testing.T, docs string) (steps []step) {
	t.Helper()
	text := expect.Of(os.ReadFile(filepath.Join(docs, "scripts", "README.md"))).OK(t)
	_, section, _ := strings.Cut(string(text), "\n## By hand\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)\n```(\\w+)\n(.*?)```\n").FindAllStringSubmatch(section, -1) {
		switch kind, body := block[1], block[2]; {
		case kind == "sh":
			steps = append(steps, step{shell: body})
		case kind == "text" && len(steps) > 0 && steps[len(steps)-1].prints == "":
			steps[len(steps)-1].prints = body
		default:
			t.Fatalf("a block of %q that follows no shell:\n%s", kind, body)
		}
	}
	expect.AtLeast(t, "blocks of shell", len(steps), 8)
	return steps
}

// The commands in docs/scripts/README.md under "By hand" work if they are pasted into bash, and print what the
// document shows.
func TestByHandWorksAsItIsPasted(t *testing.T) {
	docs := expect.Of(filepath.Abs(filepath.Join("..", "..", "docs"))).OK(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("SKIPPED, BY HAND IS NOT TESTED: %v", err)
	}
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		if cli, err = exec.LookPath("valkey-cli"); err != nil {
			t.Skipf("SKIPPED, BY HAND IS NOT TESTED: no redis-cli and no valkey-cli")
		}
	}
	steps := byHand(t, docs)
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			s := server.Start(t, bin)
			checkout := t.TempDir()
			expect.OK(t, os.Symlink(docs, filepath.Join(checkout, "docs")))
			_, port, _ := net.SplitHostPort(s.Addr())
			programs := t.TempDir() // redis-cli in this folder has this server as its default
			command := fmt.Sprintf("#!/bin/sh\nexec %s -p %s \"$@\"\n", cli, port)
			expect.OK(t, os.WriteFile(filepath.Join(programs, "redis-cli"), []byte(command), 0o700))

			const end = "---- the end of a block ----\n"
			var pasted strings.Builder
			for _, step := range steps {
				fmt.Fprintf(&pasted, "%secho '%s'\n", step.shell, strings.TrimSuffix(end, "\n"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // it waits for messages
			defer cancel()
			shell := exec.CommandContext(ctx, bash, "--norc")
			shell.Dir, shell.Stdin = checkout, strings.NewReader(pasted.String())
			shell.Env = append(os.Environ(), "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
			shell.WaitDelay = 10 * time.Second
			var complaints bytes.Buffer
			shell.Stderr = &complaints
			out, err := shell.Output()
			if err != nil || complaints.Len() > 0 {
				t.Errorf("%v: %s", err, complaints.String())
			}
			printed := strings.SplitAfter(string(out), end)
			known := map[string]string{}
			for i, step := range steps {
				got := ""
				if i < len(printed) {
					got = strings.TrimSuffix(printed[i], end)
				}
				if err := alike(step.prints, got, known); err != nil {
					t.Errorf("%v\n%sprints\n%swhich docs/scripts/README.md shows as\n%s", err, step.shell, got, step.prints)
				}
			}
		})
	}
}

var digits = regexp.MustCompile(`\d+`)

// alike compares printed output with what the document shows. Times and fences differ each time, but equal
// numbers there are equal here; known has them. The rest of a lease may be anything up to its full length.
func alike(want, got string, known map[string]string) error {
	if w, g := digits.ReplaceAllString(want, "0"), digits.ReplaceAllString(got, "0"); w != g {
		return fmt.Errorf("not the same words")
	}
	numbers := digits.FindAllString(got, -1)
	for i, number := range digits.FindAllString(want, -1) {
		other := numbers[i]
		n, _ := strconv.Atoi(number)
		m, err := strconv.Atoi(other)
		switch {
		case err != nil:
			return err
		case len(number) >= len("1795225854057"): // a time in ms, or in µs
			if known[number] == "" {
				known[number] = other
			}
			if known[number] != other || len(other) != len(number) {
				return fmt.Errorf("%s where %s stands for %s", other, number, known[number])
			}
		case len(number) == 5 && n%1000 != 0:
			if most := (n/30_000 + 1) * 30_000; m <= 0 || m > most {
				return fmt.Errorf("%s where %s is left of %d", other, number, most)
			}
		case number != other:
			return fmt.Errorf("%s instead of %s", other, number)
		}
	}
	return nil
}
