package cli

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"testing"
)

// refusing starts a server that answers every command with WRONGPASS.
func refusing(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 4096)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					for range bytes.Count(buf[:n], []byte("*")) {
						_, _ = conn.Write([]byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n"))
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestNoOutputShowsAPassword makes mistakes in URLs that contain a password, and sends it to a server that refuses it.
func TestNoOutputShowsAPassword(t *testing.T) {
	addr := refusing(t)
	const canary = "kanarie"
	t.Setenv("HOLDFAST_REDIS", "")
	for _, url := range []string{
		"redis://:" + canary + "@127.0.0.1:1",
		"redis://user:" + canary + "@127.0.0.1:1/0",
		"redis://user:" + canary + "%2F" + canary + "@127.0.0.1:1/0",
		"user:" + canary + "@127.0.0.1:1",
		"redis://user:" + canary + "/x@127.0.0.1:1/0",
		"redis://user:x/" + canary + "@127.0.0.1:1/0",
		"redis://user:12?" + canary + "@127.0.0.1:1/0",
		"redis://user:12#" + canary + "@127.0.0.1:1/0",
		"redis://user:x%zz" + canary + "@127.0.0.1:1/0",
		"redis://user:" + canary + " x@127.0.0.1:1/0",
		"redis://127.0.0.1:1/" + canary,
		"redis://127.0.0.1:1?password=" + canary,
		"redis://127.0.0.1:1?7" + canary + "=1",
		"redis://127.0.0.1:1?db=" + canary,
		"redis://127.0.0.1:" + canary,
		"rediss://127.0.0.1:1?tls_ca=" + canary,
		"http://user:" + canary + "@127.0.0.1:1",
		canary + "://127.0.0.1:1",
		"redis+" + canary + "://127.0.0.1:1",
		"redis+sentinel://:" + canary + "@127.0.0.1:1",
		"redis+cluster://:" + canary + "@127.0.0.1:1?x=" + canary,
		"redis:" + canary + "@127.0.0.1:1",
		"redis://:" + canary + "@127.0.0.1:1 redis://:" + canary + "@127.0.0.1:2,redis://user:" + canary + "@127.0.0.1:3",
		"redis://:" + canary + "@127.0.0.1:1 redis://:" + canary + "@127.0.0.1:1",
		"redis://:" + canary + "@127.0.0.1:1 redis://:" + canary + " x@127.0.0.1:2",
		"redis://:" + canary + " ,x@127.0.0.1:1, redis+sentinel://:" + canary + "@127.0.0.1:2",
	} {
		for _, place := range []string{"flag", "joined flag", "short flag", "variable"} {
			url := strings.ReplaceAll(url, "127.0.0.1:1", addr)
			args := []string{"run", "-w", "50ms", "--json", "name", "--", "true"}
			t.Setenv("REDIS_URL", "")
			switch place {
			case "flag":
				args = slices.Insert(args, 1, "--redis", url)
			case "joined flag":
				args = slices.Insert(args, 1, "--redis="+url)
			case "short flag":
				args = slices.Insert(args, 1, "-r"+url)
			case "variable":
				t.Setenv("REDIS_URL", url)
			}
			var stdout, stderr bytes.Buffer
			code := Main(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
			if code == 0 || stderr.Len() == 0 {
				t.Errorf("%s %s: exit code %d, said %q", place, url, code, &stderr)
			}
			if strings.Contains(stdout.String()+stderr.String(), canary) {
				t.Errorf("%s %s: %s%s", place, url, &stdout, &stderr)
			}
		}
	}
}
