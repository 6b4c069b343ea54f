package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// units are those of deploy/systemd. Instances have names.
var units = []string{"holdfast@.service", "holdfast@.timer", "holdfast-ui.service"}

// systemd accepts the units, including the one that the guide prints, and finds the inspector well confined.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skipf("SKIPPED, THE UNITS OF SYSTEMD ARE NOT CHECKED: %v", err)
	}
	root := t.TempDir()
	put := func(mode os.FileMode, text string, path ...string) {
		t.Helper()
		path = append([]string{root}, path...)
		expect.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(path...)), 0o755))
		expect.OK(t, os.WriteFile(filepath.Join(path...), []byte(text), mode))
	}
	folder := filepath.Join("usr", "lib", "systemd", "system")
	for _, name := range units {
		put(0o644, string(deployed(t, "systemd/"+name)), folder, name)
	}
	for _, name := range []string{"sysinit", "basic", "shutdown", "timers", "multi-user", "network-online"} {
		put(0o644, "[Unit]\nDescription=stub\n", folder, name+".target")
	}
	put(0o755, "#!/bin/sh\n", "usr", "bin", "holdfast")
	printed := regexp.MustCompile("(?s)```ini\n(.*?)```").FindSubmatch(deployed(t, "../docs/guides/jobs.md"))
	if printed == nil {
		t.Fatal("the guide prints no unit")
	}
	put(0o644, string(printed[1]), folder, "own.service")
	verify := func(root string) (string, error) {
		args := []string{"verify", "--man=no", "--root=" + root, "own.service"}
		for _, name := range units {
			args = append(args, strings.Replace(name, "@", "@nightly", 1))
		}
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		return string(out), err
	}
	expect.Of(verify(root)).Is(t, "systemd-analyze verify", "")
	// 0 is best, 10 worst. What is left: it reaches the network, and with it any address.
	security := exec.CommandContext(t.Context(), analyze, "security", "--no-pager", "--offline=true", "--root="+root, "--threshold=15", "holdfast-ui.service")
	if said, err := security.CombinedOutput(); err != nil || !strings.Contains(string(said), "Overall exposure level for holdfast-ui.service: ") {
		t.Errorf("systemd-analyze security: %v\n%s", err, said)
	}

	put(0o644, strings.Replace(string(deployed(t, "systemd/holdfast-ui.service")), "\nDynamicUser=", "\nDynamicUsers=", 1), folder, "holdfast-ui.service")
	if said, _ := verify(root); !strings.Contains(said, "DynamicUsers") {
		t.Errorf("a wrong key is not found: %s", said)
	}
}

// values returns the values of a unit's key, in order, for the instance nightly.
func values(t *testing.T, unit, key string) (values []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllSubmatch(deployed(t, "systemd/"+unit), -1) {
		values = append(values, strings.ReplaceAll(string(m[1]), "%i", "nightly"))
	}
	return values
}

// Two hosts start the job at its time: one of them runs it.
func TestUnitOfAJob(t *testing.T) {
	t.Parallel()
	uses(t)
	job := filepath.Join(t.TempDir(), "nightly")
	ran := job + ".ran"
	expect.OK(t, os.WriteFile(job, []byte("#!/bin/sh\necho ran >>"+ran+"\n"), 0o700))
	lines, variables := values(t, "holdfast@.service", "ExecStart"), values(t, "holdfast@.service", "Environment")
	variable, flags, is := strings.Cut(strings.Trim(strings.Join(variables, ""), `"`), "=")
	line, found := strings.CutPrefix(strings.Replace(strings.Join(lines, " "), "$"+variable, flags, 1), "/usr/bin/holdfast ")
	if !is || !found || strings.ContainsAny(line, "$%") {
		t.Fatalf("ExecStart=%q, Environment=%q", lines, variables)
	}
	args := strings.Fields(strings.Replace(line, "/etc/holdfast/jobs/nightly", job, 1))
	url := "redis://" + server.Start(t, server.One(t)).Addr()
	for range 2 {
		if code, _, said := runWith(t, url, args...); code != 0 {
			t.Errorf("%q: exit code %d: %s", args, code, said)
		}
	}
	if text, err := os.ReadFile(ran); err != nil || string(text) != "ran\n" {
		t.Errorf("the job has left %q, %v", text, err)
	}
	if code, said, _ := runWith(t, url, "once", "--once", "20h", "nightly"); code != 0 {
		t.Errorf("holdfast once: exit code %d: %s", code, said)
	}
}

// What the inspector exits with when systemd stops it, as testdata/ui.txtar has it, is no failure.
func TestUnitOfTheInspector(t *testing.T) {
	t.Parallel()
	start, success := values(t, "holdfast-ui.service", "ExecStart"), values(t, "holdfast-ui.service", "SuccessExitStatus")
	flags := values(t, "holdfast-ui.service", "Environment")
	if fmt.Sprint(start, success, flags) != "[/usr/bin/holdfast ui $HOLDFAST_FLAGS] [143] [HOLDFAST_FLAGS=]" {
		t.Errorf("ExecStart=%q, SuccessExitStatus=%q, Environment=%q", start, success, flags)
	}
}
