package command

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
		if err := os.MkdirAll(filepath.Dir(filepath.Join(path...)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path...), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
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
	if said, err := verify(root); err != nil || said != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, said)
	}
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

// systemdUnit is what a unit of deploy/systemd says, for the instance nightly.
type systemdUnit struct{ text string }

func deployedUnit(t *testing.T, name string) systemdUnit {
	t.Helper()
	return systemdUnit{strings.ReplaceAll(string(deployed(t, "systemd/"+name)), "%i", "nightly")}
}

// all returns the values of a key, in order.
func (u systemdUnit) all(key string) (values []string) {
	for _, m := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(u.text, -1) {
		values = append(values, m[1])
	}
	return values
}

// start returns the command line of ExecStart, as systemd makes it: with the values of Environment=, or these flags of a
// file named by EnvironmentFile=.
func (u systemdUnit) start(t *testing.T, flags string) []string {
	t.Helper()
	lines := u.all("ExecStart")
	variable, value, is := strings.Cut(strings.Trim(strings.Join(u.all("Environment"), ""), `"`), "=")
	if len(lines) != 1 || !is {
		t.Fatalf("ExecStart=%q, Environment=%q", lines, u.all("Environment"))
	}
	if flags != "" {
		value = flags
	}
	line := strings.Replace(lines[0], "$"+variable, value, 1)
	program, arguments, _ := strings.Cut(line, " ")
	if program != "/usr/bin/holdfast" || strings.Contains(line, "$") || strings.Contains(line, "%") {
		t.Fatalf("ExecStart=%s", line)
	}
	return strings.Fields(arguments)
}

// Two hosts start the job at its time: one of them runs it.
func TestUnitOfAJob(t *testing.T) {
	t.Parallel()
	uses(t)
	job := filepath.Join(t.TempDir(), "nightly")
	ran := job + ".ran"
	if err := os.WriteFile(job, []byte("#!/bin/sh\necho ran >>"+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	u := deployedUnit(t, "holdfast@.service")
	args := u.start(t, "")
	for i, arg := range args {
		args[i] = strings.Replace(arg, "/etc/holdfast/jobs/nightly", job, 1)
	}
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

// The inspector serves pages until systemd stops it, and what it exits with then is no failure.
func TestUnitOfTheInspector(t *testing.T) {
	t.Parallel()
	uses(t)
	u := deployedUnit(t, "holdfast-ui.service")
	if args := u.start(t, ""); len(args) != 1 || args[0] != "ui" {
		t.Errorf("ExecStart=%q", args)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := command(ctx, []string{"HOLDFAST_REDIS=redis://" + server.Start(t, server.One(t)).Addr()}, u.start(t, "--http 127.0.0.1:0")...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://127.0.0.1:") {
		t.Errorf("it prints %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	code := strconv.Itoa(cmd.ProcessState.ExitCode())
	if all := u.all("SuccessExitStatus"); len(all) != 1 || all[0] != code {
		t.Errorf("it exits with %s, SuccessExitStatus=%q", code, all)
	}
}
