package documents

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// attempt is how a block runs that cannot run as it is printed, because it goes on for ever, or belongs on several machines.
// In shell, $addr is the server's address, $port its port, $checkout a checkout, and $work the folder in which it runs.
type attempt struct {
	page, begins string   // a block's page, and how the block begins
	with         []string // parts of the block, each of which must be there, and what becomes of it
	before       string   // shell to run first
	after        string   // shell that checks what the block did
}

// Others' programs are stubs here, which check what they are told as far as they can.
var stubs = map[string]string{
	"docker":     `case $1 in build) [ "$2" = -f ] && test -f "$3";; push) ;; *) exit 1;; esac`,
	"kubectl":    `for word; do case $word in --from-literal=redis=*) echo "${word#--from-literal=redis=}" >"$work/url";; esac; done`,
	"editor":     `test -d "$(dirname "$1")"`,
	"journalctl": `[ "$1" = -u ]`,
	"systemctl":  `for unit; do :; done; case $unit in *.timer) test -f "$checkout/deploy/systemd/holdfast@.timer";; *.*) exit 1;; holdfast@*) test -f "$checkout/deploy/systemd/holdfast@.service";; *) exit 1;; esac`,
	"redis-cli":  `[ "$1" != -h ] || shift 2; case $1 in -p) exec "$cli" "$@";; *) exec "$cli" -p "$port" "$@";; esac`,
}

var attempts = []attempt{
	{page: "README.md", begins: "holdfast run --try nightly"},
	{
		page: "README.md", begins: "go build", before: `cd "$checkout"`,
		with:  []string{"-o holdfast", `-o "$work/built"`},
		after: `"$work/built" version`,
	},
	{
		page: "docs/guides/clients.md", begins: "go mod edit", before: `mv program app && cd app && go mod init example.com/app && cp "$checkout/holdfastgoredis/go.sum" . && ln -s "$checkout" ../holdfast`,
		after: `go build -o program . && test -x program`,
	},
	{
		page: "docs/guides/cluster-sentinel.md", begins: "export HOLDFAST_REDIS",
		with: []string{
			"s1:26379", "$s1", "s2:26379", "$s2", "s3:26379", "$s3", "master_name=main", "master_name=$master", "sleep 60", "sleep 5",
			"redis-cli -p 26379 SENTINEL FAILOVER main", `until holdfast show failover >held; do sleep 0.2; done; redis-cli -p "${s1#*:}" SENTINEL FAILOVER "$master"`,
			"holdfast show failover", "until holdfast show failover >held; do sleep 0.2; done",
		},
		after: `wait $! && grep -q failover held`,
	},
	{page: "docs/guides/jobs.md", begins: "install", with: []string{"/etc/holdfast", "$work/etc"}, after: `test -x etc/jobs/nightly`},
	{
		page: "docs/guides/jobs.md", begins: "holdfast barrier", with: []string{"3 wait ", "3 wait & a=$!; holdfast barrier v7-loaded 3 wait & b=$!; holdfast barrier v7-loaded 3 wait"},
		after: `wait $a && wait $b`,
	},
	{
		page: "docs/guides/jobs.md", begins: "holdfast elect",
		before: `leads() { until grep -q "$1" said; do kill -0 $! || exit; sleep 0.1; done; }`,
		with: []string{
			"./scheduler ", "sleep 600 & leader=$!; until holdfast show scheduler; do sleep 0.1; done ",
			"holdfast watch scheduler", `holdfast watch scheduler >said & leads '"fence"'; kill $!; wait $! || true`,
			":4040", `:0 2>said & leads campaigning; kill $!; wait $! || true; kill $leader; wait $leader || true`,
		},
	},
	{page: "docs/guides/kubernetes.md", begins: "docker build", before: `cd "$checkout"`},
	{
		page: "docs/guides/kubernetes.md", begins: "password=", before: `cd "$checkout"`,
		after: `url=$(sed "s/redis:6379/$addr/" "$work/url"); [ "$url" != "$(cat "$work/url")" ]; HOLDFAST_REDIS=$url holdfast run nightly -- true`,
	},
	{
		page: "docs/guides/tuning.md", begins: "go run", before: `cd "$checkout"`,
		with: []string{"/bench@latest redis://HOST:6379", `/bench -for 1s "$HOLDFAST_REDIS"`},
	},
	{
		page: "docs/OBSERVABILITY.md", begins: "holdfast ui", with: []string{"holdfast ui", "holdfast ui --http 127.0.0.1:0 >said 2>&1 &"},
		after: `url=; until url=$(grep -o 'http://127[^ ]*' said); do kill -0 $!; sleep 0.1; done; curl -sSf "$url" >page; grep -qi holdfast page; kill $!`,
	},
}

// of reports whether the attempt is one of that block.
func (a attempt) of(p page, b block) bool {
	return p.path == a.page && (b.kind == "sh" || b.kind == "console") && strings.HasPrefix(b.body, a.begins)
}

// Blocks of shell that cannot run as they are printed run with as little changed as possible.
func TestBlocksRunWithChanges(t *testing.T) {
	programs := withHoldfast(t)
	for _, name := range []string{"redis-cli", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("SKIPPED, BLOCKS OF THE GUIDES ARE NOT TESTED: %v", err)
		}
	}
	cli, _ := exec.LookPath("redis-cli") // before there is a stub
	for name, text := range stubs {
		write(t, filepath.Join(programs, name), "#!/bin/sh\n"+text+"\n")
	}
	checkout := expect.Of(filepath.Abs(root)).OK(t)
	all, program := pages(t), readmesProgram(t)
	for _, a := range attempts {
		t.Run(a.page+"/"+a.begins, func(t *testing.T) {
			t.Parallel()
			body := ""
			for _, p := range all {
				for _, b := range p.blocks {
					if a.of(p, b) {
						body += b.body
					}
				}
			}
			if body == "" {
				t.Fatal("there is no such block")
			}
			for i := 0; i < len(a.with); i += 2 {
				expect.Contains(t, "the block", body, a.with[i])
			}
			s := server.Start(t, server.One(t))
			_, port, _ := net.SplitHostPort(s.Addr())
			work := t.TempDir()
			write(t, filepath.Join(work, "draw.sh"), "#!/bin/sh\n")
			write(t, filepath.Join(work, "program", "main.go"), program)
			env := []string{"HOLDFAST_REDIS=redis://" + s.Addr(), "addr=" + s.Addr(), "port=" + port, "checkout=" + checkout, "work=" + work, "cli=" + cli}
			if a.page == "docs/guides/clients.md" {
				env = append(env, "GOWORK=off", "GOFLAGS=-mod=mod", "GONOSUMDB=*")
			}
			if a.page == "docs/guides/cluster-sentinel.md" {
				g := server.StartSentinels(t, server.One(t), 2, 3)
				env = append(env, "master="+g.Name)
				for i, addr := range g.Addrs() {
					env = append(env, fmt.Sprintf("s%d=%s", i+1, addr))
				}
			}
			paste(t, programs, work, "set -e\n"+a.before+"\n"+strings.NewReplacer(a.with...).Replace(body)+"\n"+a.after, env...)
		})
	}
}

// Commands that take minutes or load the machine do not run here. Their targets, scripts, flags, tests and variables exist.
func TestLongCommandsExist(t *testing.T) {
	expect.OK(t, uses())
	all := sources(t, `\.go(\.txt)?$`, true)
	target := regexp.MustCompile(`(?m)^([a-z-]+):.*## `)
	makefile := expect.Of(os.ReadFile(filepath.Join(root, "Makefile"))).OK(t)
	targets := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	n := 0
	for _, p := range documents(t) {
		for _, b := range p.blocks {
			if b.runBy(p) != "TestLongCommandsExist" {
				continue
			}
			for line := range strings.Lines(b.body) {
				command, _, _ := strings.Cut(line, "  #")
				n++
				words := strings.Fields(command)
				for _, m := range regexp.MustCompile(`\bHOLDFAST_[A-Z_]+`).FindAllString(command, -1) {
					expect.Contains(t, p.path, all, m)
				}
				for i, word := range words {
					next := ""
					if i+1 < len(words) {
						next = strings.TrimPrefix(strings.Trim(words[i+1], "'$"), "Test")
					}
					switch {
					case word == "make" && !targets[next]:
						t.Errorf("%s: there is no target %q", p.path, next)
					case word == "-run" && !regexp.MustCompile(`func Test\w*`+next).MatchString(all):
						t.Errorf("%s: there is no test %s", p.path, next)
					case strings.HasSuffix(word, ".sh"):
						expect.Err(t, p.path, expect.ErrOf(os.Stat(filepath.Join(root, word))), nil)
					case word == "-cells" || strings.HasSuffix(word, "'-cells"):
						for cell := range strings.SplitSeq(next, ",") {
							expect.Contains(t, p.path, all, `"`+cell+`"`)
						}
					}
				}
			}
		}
	}
	expect.AtLeast(t, "commands", n, 15)
}
