package lock

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/codec"
)

func TestUnsafeSettings(t *testing.T) {
	for reply, want := range map[string]string{
		"0 noeviction master":        "",
		"0 allkeys-lru master":       "", // nothing is evicted without a limit
		"1000 noeviction master":     "",
		"1000 allkeys-random master": "maxmemory-policy allkeys-random with maxmemory 1000",
		"1000 volatile-ttl master":   "maxmemory-policy volatile-ttl with maxmemory 1000",
		"1000 volatile-lfu slave":    "maxmemory-policy volatile-lfu with maxmemory 1000, role slave",
		"0 noeviction slave":         "role slave",
		"- - slave":                  "role slave",
		"- - -":                      "",
		"- volatile-lru master":      "",
		"-5 volatile-lru master":     "",
	} {
		settings, err := (&codec.Survey{}).Parse("settings 1 " + reply + " -")
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, w := range unsafeSettings(&settings) {
			seen = append(seen, w.Seen)
		}
		if got := strings.Join(seen, ", "); got != want {
			t.Errorf("%q: saw %q, want %q", reply, got, want)
		}
	}
}
