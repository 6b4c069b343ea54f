// Package examples runs the programs in examples/, and the examples of the library's documentation. The library imports no client of
// Redis, so the latter cannot run where they are: go run -overlay combines them here with a program that has one.
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
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/inputs"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
	"github.com/holdfast-go/holdfast/tests/internal/race"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// program calls the examples. Its arguments are the servers' addresses: first that of the locks' server, then
// those of nodes.
const program = `package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/quorum"
)

func open(addr string, cfg *holdfast.Config) *holdfast.Client {
	c, err := holdfastgoredis.New(redis.NewClient(&redis.Options{Addr: addr}), cfg)
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func main() {
	locks = open(os.Args[1], &holdfast.Config{CommandTimeout: 10 * time.Second})
	var err error
	if server, err = holdfastgoredis.NewDriver(redis.NewClient(&redis.Options{Addr: os.Args[1]})); err != nil {
		log.Fatal(err)
	}
	for _, addr := range os.Args[2:] {
		nodes = append(nodes, open(addr, &holdfast.Config{Strict: true, CommandTimeout: 10 * time.Second}))
	}
	majority, err := quorum.New(nodes, nil)
	if err == nil {
		err = inspect.NewQuorum(majority).Admit(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
%s}
`

func TestExamplesRun(t *testing.T) {
	folder := expect.Of(filepath.Abs(".")).OK(t)
	source := expect.Of(os.ReadFile(filepath.Join(folder, "..", "..", "example_test.go"))).OK(t)
	const clause = "package holdfast_test\n"
	expect.Begins(t, "the examples", string(source), clause)
	var names []string
	calls := ""
	for _, match := range regexp.MustCompile(`(?m)^func (Example\w+)\(\)`).FindAllStringSubmatch(string(source), -1) {
		names = append(names, match[1])
		calls += fmt.Sprintf("\t%s()\n\tfmt.Println(\"%[1]s is over\")\n", match[1])
	}
	expect.AtLeast(t, "examples", len(names), 15)

	list := expect.Of(overlay.Replace(t.TempDir(), filepath.Join(folder, "program"), map[string]string{ // only the go command sees them
		"examples.go": strings.Replace(string(source), clause, "package main\n", 1),
		"main.go":     fmt.Sprintf(program, calls),
	})).OK(t)
	args := []string{"run", "-overlay", list}
	if race.Detector { // then everything that the program consists of has been built with it
		args = append(args, "-race")
	}
	args = append(args, "./program")
	for range 4 {
		args = append(args, server.Start(t, server.One(t)).Addr())
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, name := range names {
		expect.Contains(t, name, string(out), name+" is over\n")
	}
	t.Logf("%s", out)
}

// shared says how to remove what the tests share.
var shared struct {
	mu     sync.Mutex
	remove []func() error
}

func removeAtEnd(f func() error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.remove = append(shared.remove, f)
}

func TestMain(m *testing.M) {
	backend.AtOnce(8) // they wait for leases to end
	code := m.Run()
	for _, remove := range shared.remove {
		if err := remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// folder builds the programs in examples/ and returns the folder that they are in.
var folder = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-examples-")
	if err != nil {
		return "", err
	}
	removeAtEnd(func() error { return os.RemoveAll(dir) })
	if err := inputs.In(filepath.Join("..", "..")); err != nil { // READMEs and documents, too
		return "", err
	}
	args := []string{"build", "-o", dir}
	if race.Detector {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./...")...)
	build.Dir = filepath.Join("..", "..", "examples")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return dir, nil
})

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
