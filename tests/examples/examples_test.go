// Package examples runs the programs in examples/, and the examples of the library's documentation. The library imports no client of
// Redis, so the latter cannot run where they are: go run -overlay combines them here with a program that has one.
package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
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
