package server

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// gone waits up to 30 s until nobody listens at addr any more, and reports whether that happened.
func gone(addr string) bool {
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return true
		}
		c.Close()
	}
	return false
}

// The test binary starts itself with one of these, to show how a test with a server ends.
const (
	endingVar = "HOLDFAST_SERVER_TEST_ENDING"
	endFail   = "fail"
	endKill   = "kill"
	endDied   = "died"
)

// TestEnding does nothing unless TestServerEndsWithTheTest runs it.
func TestEnding(t *testing.T) {
	ending := os.Getenv(endingVar)
	if ending == "" {
		return
	}
	s := Start(t, One(t))
	os.Stdout.WriteString("addr=" + s.Addr() + "\n")
	switch ending {
	case endFail:
		t.Fatal("as asked")
	case endKill:
		self := expect.Of(os.FindProcess(os.Getpid())).OK(t)
		_ = self.Kill()
		select {}
	case endDied:
		_, _ = s.Do("SHUTDOWN", "NOSAVE")
		if !s.current().EndsWithin(30 * time.Second) {
			t.Fatal("the server did not shut down")
		}
	}
}

func TestServerEndsWithTheTest(t *testing.T) {
	const log = "Server initialized"
	for ending, want := range map[string][]string{
		endFail: {"as asked", log},
		endKill: nil,
		endDied: {"ended by itself", log},
	} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestEnding$", "-test.v")
			// Its temporary files go to a folder of this test: a killed process leaves them behind.
			cmd.Env = append(os.Environ(), endingVar+"="+ending, "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			expect.Fails(t, "the test", err)
			for _, part := range want {
				expect.Contains(t, "its output", string(out), part)
			}
			_, rest, started := strings.Cut(string(out), "addr=")
			addr, _, _ := strings.Cut(rest, "\n")
			if !started || !gone(addr) {
				t.Errorf("the server at %s is left over", addr)
			}
			if t.Failed() {
				t.Logf("%v\n%s", err, out)
			}
		})
	}
}

// Servers come from PATH and from HOLDFAST_TEST_SERVERS. One that is named and does not run is an error: tests would skip it.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	pretend := func(name, version string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\necho '%s'\n", version), 0o700))
		return path
	}
	redis := pretend("redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
	other := pretend("other", "Valkey server v=9.0.0 sha=00000000:0")
	for _, c := range []struct{ path, extra, want string }{
		{dir, " redis-7.0=" + other + ", new=" + other + ",", fmt.Sprint([]Binary{
			{Name: "redis-7.0", Path: redis, Major: 7}, {Name: "new", Path: other, Valkey: true, Major: 9},
		}, nil)},
		{"", "", "install redis-server or valkey-server"},
		{dir, "redis-8.0", "is not NAME=PATH"},
		{dir, "gone=" + dir + "/gone", "no such file"},
		{dir, "odd=" + pretend("stranger", "Stranger v=1.0"), "is no Redis server"},
	} {
		t.Setenv("PATH", c.path)
		all, err := find(c.extra)
		expect.Contains(t, "HOLDFAST_TEST_SERVERS="+c.extra, fmt.Sprint(all, err), c.want)
	}
}
