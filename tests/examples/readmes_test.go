//go:build unix

package examples

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// What the examples' READMEs say to type works, typed line after line, on ports that are free here.
func TestReadmesOfExamples(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, printed string, programs []*process){
		"cache": func(t *testing.T, printed string, _ []*process) {
			if lines := strings.Split(strings.TrimSpace(printed), "\n"); len(lines) < 2 {
				t.Errorf("the pages are %q", printed)
			}
		},
		"invoices": func(t *testing.T, _ string, programs []*process) { programs[0].says("written") },
		"lottery": func(t *testing.T, printed string, _ []*process) {
			if drawn, busy := strings.Count(printed, " 200 OK"), strings.Count(printed, " 409 Conflict"); drawn != 2 || busy != 1 {
				t.Errorf("%d draws are answered 200, and %d 409:\n%s", drawn, busy, printed)
			}
		},
		"ratelimit": func(t *testing.T, _ string, programs []*process) {
			programs[0].says("3 of 3 calls")
			if strings.Contains(programs[0].String(), "too many") {
				t.Error("the API had to refuse a call")
			}
		},
		"scheduler": func(_ *testing.T, _ string, programs []*process) {
			programs[0].says("running")
			programs[0].says("running")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed, programs := typed(t, name)
			check(t, printed, programs)
			for _, p := range programs {
				expect.Equal(t, p.Cmd.String()+" has ended", p.HasEnded(), false)
			}
		})
	}
}

var (
	shell = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	ports = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)
)

// typed does what a README has in its blocks of shell. It returns what the commands have printed, and the example's processes.
func typed(t *testing.T, name string) (printed string, programs []*process) {
	t.Helper()
	root := filepath.Join("..", "..")
	text := expect.Of(os.ReadFile(filepath.Join(root, "examples", name, "README.md"))).OK(t)
	s := server.Start(t, server.One(t))
	addrs := map[string]string{}
	here := func(line string) string {
		return ports.ReplaceAllStringFunc(line, func(addr string) string {
			if addrs[addr] == "" {
				port := expect.Of(server.ReservePort()).OK(t)
				addrs[addr] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			}
			return addrs[addr]
		})
	}
	env, database := os.Environ(), ""
	if name == "invoices" {
		dsn, _ := orders(t, "unused") // skips the test where there is no PostgreSQL
		u := expect.Of(url.Parse(dsn)).OK(t)
		env = append(env, "PGHOST="+u.Query().Get("host"), "PGUSER="+u.Query().Get("user"))
		u.Path = "/invoices"
		database = u.String()
	}
	var blocks strings.Builder
	for _, m := range shell.FindAllStringSubmatch(string(text), -1) {
		blocks.WriteString(m[1])
	}
	behind := ""
	for line := range strings.Lines(blocks.String()) {
		line, comment, _ := strings.Cut(strings.TrimSpace(here(line)), "  #")
		if args := strings.Fields(line); strings.HasPrefix(line, "go run ./examples/") {
			args = append(args[3:], "-addr", s.Addr())
			switch {
			case database != "":
				args = append(args, "-db", database)
			case addrs["127.0.0.1:8080"] == "", strings.Contains(line, "-serve"):
			case name == "ratelimit":
				args = append(args, "-api", "http://"+addrs["127.0.0.1:8080"])
			default:
				args = append(args, "-worker", "http://"+addrs["127.0.0.1:8080"])
			}
			for range 1 + strings.Count(comment, "in two terminals") {
				p := start(t, name, args...)
				if strings.Contains(line, "-serve") || strings.Contains(line, "-http") {
					p.url()
				}
				programs = append(programs, p)
			}
			continue
		}
		if behind += line + "\n"; strings.HasSuffix(strings.TrimSpace(line), "&") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "--norc", "-ec", behind+"wait")
		cmd.Dir, cmd.Env = root, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		printed, behind = printed+string(out), ""
	}
	return printed, programs
}
