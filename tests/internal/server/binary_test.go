package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Servers come from PATH and from HOLDFAST_TEST_SERVERS. One that is named and does not run is an error: tests would skip it.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	pretend := func(name, version string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\necho '%s'\n", version), 0o700); err != nil {
			t.Fatal(err)
		}
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
		if got := fmt.Sprint(all, err); !strings.Contains(got, c.want) {
			t.Errorf("HOLDFAST_TEST_SERVERS=%q: %s; want %s", c.extra, got, c.want)
		}
	}
}
