package cli

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"testing"
)

func TestOpenRedis(t *testing.T) {
	for _, c := range []struct {
		flag, holdfastRedis, redisURL string
		source, addr                  string
	}{
		{"", "", "", "the default", "127.0.0.1:6379"},
		{"", "", "redis://c:1", "REDIS_URL", "c:1"},
		{"", "redis://b:1", "redis://c:1", "HOLDFAST_REDIS", "b:1"},
		{"redis://a:1", "redis://b:1", "redis://c:1", "--redis", "a:1"},
		{"a:1", "", "", "--redis", "a:1"},
		{"a", "", "", "--redis", "a:6379"},
		{":pass@a", "", "", "--redis", "a:6379"},
		{"rediss://a:1/3", "", "", "--redis", "a:1"},
		{"unix:///run/redis.sock", "", "", "--redis", "/run/redis.sock"},
		{"redis+cluster://a:1?addr=b:2", "", "", "--redis", "a:1,b:2"},
		{"redis+sentinel://a:1?master_name=m&addr=b:2", "", "", "--redis", "a:1,b:2"},
	} {
		t.Setenv("HOLDFAST_REDIS", c.holdfastRedis)
		t.Setenv("REDIS_URL", c.redisURL)
		e, err := openRedis([]string{c.flag})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if e.source != c.source || e.addr != c.addr {
			t.Errorf("%+v: got %s from %s", c, e.addr, e.source)
		}
		e.client.Close()
	}
}

func TestServersNamed(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://c:1")
	for _, c := range []struct {
		flags     []string
		variable  string
		source    string
		addresses string
	}{
		{nil, "", "REDIS_URL", "redis://c:1"},
		{nil, " \t", "REDIS_URL", "redis://c:1"},
		{nil, "redis://a:1 redis://b:1\n rediss+cluster://c ", "HOLDFAST_REDIS", "redis://a:1|redis://b:1|rediss+cluster://c"},
		{nil, "redis://a:1,redis://:x,y@b:1, unix:///s", "HOLDFAST_REDIS", "redis://a:1|redis://:x,y@b:1|unix:///s"},
		{nil, "a:1", "HOLDFAST_REDIS", "a:1"},
		{nil, "a:1,b:1", "HOLDFAST_REDIS", "a:1,b:1"}, // no list
		{nil, "redis://:pass word@a", "HOLDFAST_REDIS", "redis://:pass word@a"},
		{[]string{"a:1", "b:1 redis://c:1", ""}, "redis://d", "--redis", "a:1|b:1|redis://c:1"},
		{[]string{""}, "redis://d", "HOLDFAST_REDIS", "redis://d"},
	} {
		t.Setenv("HOLDFAST_REDIS", c.variable)
		source, urls := serversNamed(c.flags)
		if got := strings.Join(urls, "|"); source != c.source || got != c.addresses {
			t.Errorf("%q, %q: %s from %s, want %s from %s", c.flags, c.variable, got, source, c.addresses, c.source)
		}
	}
}

func TestWarnsOfPasswordsThatAreExposed(t *testing.T) {
	t.Setenv("HOLDFAST_REDIS", "redis://:secret@a")
	for flag, want := range map[string]bool{"": false, "redis://a": false, "redis://user@a": false, "redis://:secret@a": true, "redis://:abc@a": true,
		"redis+sentinel://a?master_name=m&password=secret": true, "redis+sentinel://a?master_name=m": false} {
		e, err := openRedis([]string{flag})
		if err != nil {
			t.Fatal(err)
		}
		if e.exposed() != want {
			t.Errorf("--redis %q: exposed is %v, want %v", flag, e.exposed(), want)
		}
		e.client.Close()
	}
}

// refusing starts a server that answers every command with WRONGPASS.
func refusing(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

// TestNoOutputShowsAPassword gives a password in all the ways in which people get
// a URL wrong, and to a server that refuses it.
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

func TestRedact(t *testing.T) {
	v := &voice{secrets: []string{"hunter2", "abc"}}
	for text, want := range map[string]string{
		"nothing":                               "nothing",
		"WRONGPASS hunter2":                     "WRONGPASS [redacted]",
		"PING abc":                              "PING [redacted]",
		"'abc' in abcde is abc.":                "'[redacted]' in abcde is [redacted].",
		"redis://a?master_name=m&password=xyz1": "redis://a?master_name=m&password=[redacted]",
		"?sentinel_password=x&db=1":             "?sentinel_password=[redacted]&db=1",
		`parse "redis://user:p@ss@host": x`:     `parse "redis://host": x`,
		"redis://u:p@a:1 and rediss://u:p@b:1,": "redis://a:1 and rediss://b:1,",
	} {
		if got := v.redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
