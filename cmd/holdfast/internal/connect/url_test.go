package connect

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

func TestTheSourceOfTheURL(t *testing.T) {
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
		{"redis://[::1]:1", "", "", "--redis", "[::1]:1"},
		{"redis://::1", "", "", "--redis", "[::1]:6379"},
	} {
		t.Setenv("HOLDFAST_REDIS", c.holdfastRedis)
		t.Setenv("REDIS_URL", c.redisURL)
		s, err := OpenAll(given(c.flag))
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		e := s.All[0]
		if e.source != c.source || e.Addr != c.addr {
			t.Errorf("%+v: got %s from %s", c, e.Addr, e.source)
		}
		e.Close()
	}
}

// given returns the values of the flag --redis, which is left out if the text is empty.
func given(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func TestAnEmptyURLIsRefused(t *testing.T) {
	t.Setenv("HOLDFAST_REDIS", "redis://d")
	if _, err := OpenAll([]string{""}); err == nil || !strings.Contains(err.Error(), "--redis is empty") {
		t.Errorf("an empty URL: %v", err)
	}
}

// A URL that is nearly right is refused with the form that it should have, and without the password.
func TestNearlyRightURLs(t *testing.T) {
	const sentinel, further = "redis+sentinel://HOST:PORT?master_name=NAME, after a slash only the number of a database", "further addresses are parameters: &addr=HOST:PORT"
	for url, want := range map[string]string{
		"redis+sentinel://:canary@a:1/main":              sentinel,
		"redis-sentinel://:canary@a:1":                   sentinel,
		"sentinel://:canary@a:1?master_name=m":           sentinel,
		"redis+sentinel://:canary@a:1,b:2?master_name=m": further,
		"redis+sentinel://:canary@a,b?master_name=m":     further,
		"redis+cluster://:canary@a:1,b:2":                further,
		"redis://:canary@a:1,b:2":                        "every URL begins with a scheme",
		"redis:127.0.0.1:1":                              "want redis://HOST:PORT",
	} {
		if _, err := Open("--redis", url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

func TestNamed(t *testing.T) {
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
		{[]string{""}, "redis://d", "--redis", ""},
	} {
		t.Setenv("HOLDFAST_REDIS", c.variable)
		source, urls, err := Named(c.flags)
		if got := strings.Join(urls, "|"); err != nil || source != c.source || got != c.addresses {
			t.Errorf("%q, %q: %s from %s, %v, want %s from %s", c.flags, c.variable, got, source, err, c.addresses, c.source)
		}
	}
}

// The job of holdfast run does not get the URL of its own holdfast.
func TestAHoldfastInAJobNeedsAURL(t *testing.T) {
	t.Setenv("HOLDFAST_NAME", "outer")
	t.Setenv("HOLDFAST_REDIS", "")
	for _, url := range []string{"", "redis://c:1"} {
		t.Setenv("REDIS_URL", url)
		if source, urls, err := Named(nil); err == nil || !strings.Contains(err.Error(), `"outer"`) {
			t.Errorf("with REDIS_URL %q: %s names %q, %v", url, source, urls, err)
		}
	}
	if _, urls, err := Named([]string{"a:1"}); err != nil || urls[0] != "a:1" {
		t.Errorf("with --redis: %q, %v", urls, err)
	}
	t.Setenv("HOLDFAST_REDIS", "redis://b:1")
	if source, urls, err := Named(nil); err != nil || source != "HOLDFAST_REDIS" {
		t.Errorf("with HOLDFAST_REDIS: %s names %q, %v", source, urls, err)
	}
}

func TestPasswordsOnTheCommandLineAreExposed(t *testing.T) {
	t.Setenv("HOLDFAST_REDIS", "redis://:secret@a")
	for flag, want := range map[string]bool{"": false, "redis://a": false, "redis://user@a": false, "redis://:secret@a": true, "redis://:abc@a": true,
		"redis+sentinel://a?master_name=m&password=secret": true, "redis+sentinel://a?master_name=m": false} {
		s, err := OpenAll(given(flag))
		if err != nil {
			t.Fatal(err)
		}
		e := s.All[0]
		if e.exposed() != want {
			t.Errorf("--redis %q: exposed is %v, want %v", flag, e.exposed(), want)
		}
		e.Close()
	}
}

// In a URL for Sentinel, the password before the host is for the sentinels. If the server wants one and the URL has no other, the error
// says so.
func TestPasswordsForSentinelsAreNotForTheServer(t *testing.T) {
	for url, explained := range map[string]bool{
		"redis+sentinel://:canary@a:1?master_name=m":                 true,
		"redis+sentinel://:canary@a:1?master_name=m&password=canary": false,
		"redis+sentinel://a:1?master_name=m":                         false,
		"redis://:canary@a:1":                                        false,
	} {
		s, err := OpenAll([]string{url})
		if err != nil {
			t.Fatal(err)
		}
		got := s.Explain(&holdfast.ServerError{Op: "reach", Server: "b:1", Code: "NOAUTH", Err: holdfast.ErrDenied}).Error()
		if strings.Contains(got, "the parameters username and password are for the server") != explained || strings.Contains(got, "canary") {
			t.Errorf("%s: %s", url, got)
		}
		s.Close()
	}
}
