package server

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/resp"
)

// expect runs a command and compares its reply.
func expect(t *testing.T, s *Server, want any, args ...any) {
	t.Helper()
	if got, err := s.Do(args...); err != nil || got != want {
		t.Errorf("%v: got %#v, %v; want %#v", args, got, err, want)
	}
}

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

func TestEveryServer(t *testing.T) {
	for _, bin := range Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, bin, Conf("maxmemory", "50mb"))
			expect(t, s, "OK", "SET", "key", 12)
			expect(t, s, "12", "GET", "key")
			expect(t, s, nil, "GET", "other")
			expect(t, s, int64(1), "DEL", "key")
			if _, err := s.Do("NONSENSE"); !errors.As(err, new(resp.Error)) {
				t.Errorf("an unknown command: %v; want a resp.Error", err)
			}
			if got := s.CommandStats(); got["set"] != 1 || got["get"] != 2 || got["del"] != 1 {
				t.Errorf("set, get and del ran 1, 2 and 1 times; the server says %v", got)
			}
			if got := s.Info("memory")["maxmemory"]; got != "52428800" {
				t.Errorf("maxmemory is %q", got)
			}
			if cpu := s.CPU(); cpu <= 0 || cpu > time.Minute {
				t.Errorf("used %v of CPU", cpu)
			}
			if got := s.Info("persistence")["aof_enabled"]; got != "0" {
				t.Errorf("aof_enabled is %q", got)
			}
		})
	}
}

func TestKillAndRestart(t *testing.T) {
	s := Start(t, One(t))
	addr, pid := s.Addr(), s.Pid()
	expect(t, s, "OK", "SET", "key", "value")
	s.Kill()
	if _, err := s.Do("PING"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart()
	if s.Addr() != addr || s.Pid() == pid {
		t.Errorf("restarted at %s as process %d; was %s, %d", s.Addr(), s.Pid(), addr, pid)
	}
	expect(t, s, nil, "GET", "key")
}

func TestStopKeepsTheAOF(t *testing.T) {
	s := Start(t, One(t), Conf("appendonly", "yes"), Conf("appendfsync", "everysec"))
	expect(t, s, "OK", "SET", "key", "value")
	s.Stop()
	if !gone(s.Addr()) {
		t.Error("a stopped server still listens")
	}
	s.Restart()
	expect(t, s, "value", "GET", "key")
}

func TestPause(t *testing.T) {
	s := Start(t, One(t))
	c, err := resp.Dial(s.Addr(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Pause()
	c.SetTimeout(200 * time.Millisecond)
	if reply, err := c.Do("PING"); err == nil {
		t.Errorf("a paused server answers %v", reply)
	}
	s.Resume()
	expect(t, s, "PONG", "PING")
	s.Pause()
	s.Stop() // must not wait for a process that cannot react
}

func TestPassword(t *testing.T) {
	s := Start(t, One(t), Conf("requirepass", "secret"))
	expect(t, s, "PONG", "PING")
	c, err := resp.Dial(s.Addr(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do("PING"); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v; want NOAUTH", err)
	}
}

// The test binary starts itself with one of these, to show how a test with a server ends.
const (
	endingVar = "HOLDFAST_SERVER_TEST_ENDING"
	endFail   = "fail"
	endPanic  = "panic"
	endKill   = "kill"
	endDied   = "died"
	endBad    = "bad configuration"
)

// TestEnding does nothing unless TestServerEndsWithTheTest runs it.
func TestEnding(t *testing.T) {
	ending := os.Getenv(endingVar)
	if ending == "" {
		return
	}
	if ending == endBad {
		Start(t, One(t), Conf("no-such-setting", "1"))
	}
	s := Start(t, One(t))
	os.Stdout.WriteString("addr=" + s.Addr() + "\n")
	switch ending {
	case endFail:
		t.Fatal("as asked")
	case endPanic:
		panic("as asked")
	case endKill:
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		_ = self.Kill()
		select {}
	case endDied:
		_, _ = s.Do("SHUTDOWN", "NOSAVE")
		if !gone(s.Addr()) {
			t.Fatal("the server did not shut down")
		}
		if !s.current().wait(30 * time.Second) {
			t.Fatal("the process did not end")
		}
	}
}

func TestServerEndsWithTheTest(t *testing.T) {
	const log = "Server initialized"
	for ending, want := range map[string][]string{
		endFail:  {"as asked", log},
		endPanic: {"as asked"},
		endKill:  nil,
		endDied:  {"ended by itself", log},
		endBad:   {"ended at once", "no-such-setting"},
	} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestEnding$", "-test.v")
			// Its temporary files go to a folder of this test: a killed process leaves them behind.
			cmd.Env = append(os.Environ(), endingVar+"="+ending, "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the test passed")
			}
			for _, part := range want {
				if !bytes.Contains(out, []byte(part)) {
					t.Errorf("its output does not say %q", part)
				}
			}
			_, rest, started := strings.Cut(string(out), "addr=")
			addr, _, _ := strings.Cut(rest, "\n")
			if started != (ending != endBad) {
				t.Errorf("the server started: %v", started)
			} else if started && !gone(addr) {
				t.Errorf("the server at %s is left over", addr)
			}
			if t.Failed() {
				t.Logf("%v\n%s", err, out)
			}
		})
	}
}
