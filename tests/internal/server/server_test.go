package server

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
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
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		_ = self.Kill()
		select {}
	case endDied:
		_, _ = s.Do("SHUTDOWN", "NOSAVE")
		if !s.current().wait(30 * time.Second) {
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
			if !started || !gone(addr) {
				t.Errorf("the server at %s is left over", addr)
			}
			if t.Failed() {
				t.Logf("%v\n%s", err, out)
			}
		})
	}
}
