package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// diagnosis is the report of holdfast doctor --json.
type diagnosis struct {
	Server   string
	Mode     string
	Servers  []string
	Worst    string
	ExitCode int `json:"exit_code"`
	Findings []finding
	// Unchecked are the checks for which the exit code is 3.
	Unchecked []string

	wrong []error // differences from what is expected
}

type finding struct {
	ID, Severity, Saw, Consequence, Remedy string
	Servers                                []string
}

// The severities, mildest first.
const (
	isOK        = "ok"
	isUnchecked = "not checked"
	isNote      = "note"
	isWarning   = "warning"
	isProblem   = "problem"
)

var severities = []string{isOK, isUnchecked, isNote, isWarning, isProblem}

// canary is the password in these tests. No output shows it.
const canary = "canary-7531"

// doctor runs holdfast doctor for the server of url, and lets judge compare its report with what is expected.
// The program's own timeouts may run out while the machine stands still; only then is it run again.
func doctor(t *testing.T, url string, judge func(d *diagnosis), flags ...string) {
	t.Helper()
	machine.Undisturbed(t, func() error {
		code, stdout, stderr := runDoctor(t, url, append([]string{"--json"}, flags...)...)
		d := &diagnosis{}
		if err := json.Unmarshal([]byte(stdout), d); err != nil || stderr != "" {
			return fmt.Errorf("exit code %d, %v: it printed %q, and said %q", code, err, stdout, stderr)
		}
		d.check(code)
		judge(d)
		if d.wrong == nil {
			return nil
		}
		return fmt.Errorf("%w\nthe report: %s", errors.Join(d.wrong...), stdout)
	})
}

// runDoctor runs holdfast doctor to its end. It checks the clock only briefly, and has a lease time so long
// that no latency of a busy machine matters.
func runDoctor(t *testing.T, url string, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runWith(t, url, append([]string{"doctor", "--clock", "20ms", "--ttl", "24h"}, flags...)...)
}

// runWith is invoke with the way to a server. It fails the test if the output shows the password, or shows that one was removed: the
// command must not rely on that.
func runWith(t *testing.T, url string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	began := time.Now()
	code, stdout, stderr = invoke(t, []string{"HOLDFAST_REDIS=" + url}, args...)
	for _, secret := range []string{"canary", "[redacted]"} {
		expect.Lacks(t, fmt.Sprintf("the output of %q", args), stdout+stderr, secret)
	}
	if code < 0 {
		t.Fatalf("%q: killed after %v: %s%s\n%s", args, time.Since(began), stdout, stderr, machine.Report(began))
	}
	return code, stdout, stderr
}

// check checks what holds for every report.
func (d *diagnosis) check(code int) {
	if code != d.ExitCode {
		d.complain("exit code %d, and the report says %d", code, d.ExitCode)
	}
	want := map[string]int{isWarning: 1, isProblem: 2}[d.Worst]
	if want == 0 && len(d.Unchecked) > 0 {
		want = 3
	}
	if code != want {
		d.complain("the worst is a %s, not checked are %v, and the exit code %d", d.Worst, d.Unchecked, code)
	}
	listed, err := checks()
	if err != nil {
		d.complain("%v", err)
	}
	for _, f := range d.Findings {
		if !slices.Contains(listed, f.ID) {
			d.complain("%s is not among the checks that the help lists", f.ID)
		}
		rank := slices.Index(severities, f.Severity)
		if f.Servers == nil || f.Saw == "" || rank < 0 {
			d.complain("%+v says too little", f)
		}
		if rank >= slices.Index(severities, isNote) && (f.Consequence == "" || f.Remedy == "") {
			d.complain("%+v lacks its consequence or remedy", f)
		}
	}
}

// checks returns the ids that holdfast doctor --help lists.
var checks = sync.OnceValues(func() (ids []string, err error) {
	help, err := exec.Command("holdfast", "doctor", "--help").Output()
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(string(help), "\nChecks, by their ids in --json:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		ids = append(ids, strings.Fields(line)[0])
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("the help lists no checks: %s", help)
	}
	return ids, nil
})

func (d *diagnosis) complain(format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Errorf(format, args...))
}

// expect returns the finding of a check, which must have this severity and contain saw.
func (d *diagnosis) expect(id, severity, saw string) finding {
	var all []string
	for _, f := range d.Findings {
		if f.ID != id {
			continue
		}
		if f.Severity == severity && strings.Contains(f.Saw, saw) {
			return f
		}
		all = append(all, f.Severity+": "+f.Saw)
	}
	d.complain("%s: found %q, want %s: %s", id, all, severity, saw)
	return finding{}
}

// on requires that these are the finding's servers.
func (d *diagnosis) on(f finding, servers ...string) {
	if !slices.Equal(f.Servers, servers) {
		d.complain("%s: found on %q, want %q", f.ID, f.Servers, servers)
	}
}

// order runs commands on a server.
func order(t testing.TB, s *server.Server, words ...any) {
	t.Helper()
	if _, err := s.Do(words...); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

// left returns all keys of servers, with how long they will still exist, and deletes them.
func left(t *testing.T, servers ...*server.Server) (keys []string) {
	t.Helper()
	for _, s := range servers {
		reply := expect.Of(s.Do("KEYS", "*")).OK(t)
		for _, key := range reply.([]any) {
			ttl := expect.Of(s.Do("PTTL", key)).OK(t)
			keys = append(keys, fmt.Sprintf("%s for %d ms", key, ttl))
		}
		order(t, s, "FLUSHALL")
	}
	return keys
}
