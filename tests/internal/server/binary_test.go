package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pretend writes a program that answers --version as a server does.
func pretend(t *testing.T, dir, name, version string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	pretend(t, dir, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
	pretend(t, dir, "valkey-server", "Valkey server v=8.1.4 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
	other := pretend(t, t.TempDir(), "other", "Valkey server v=9.0.0 sha=00000000:0")

	all, err := find(" valkey-8.1=" + other + ", new=" + other + ",")
	if err != nil {
		t.Fatal(err)
	}
	want := []Binary{
		{Name: "redis-7.0", Path: filepath.Join(dir, "redis-server"), Major: 7},
		{Name: "valkey-8.1", Path: filepath.Join(dir, "valkey-server"), Valkey: true, Major: 8, Minor: 1},
		{Name: "new", Path: other, Valkey: true, Major: 9},
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", all, want)
	}
}

func TestFindFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	stranger := pretend(t, dir, "stranger", "Stranger v=1.0")
	for extra, want := range map[string]string{
		"":                      "install redis-server or valkey-server",
		"redis-8.0":             "is not NAME=PATH",
		"gone=" + dir + "/gone": "no such file",
		"odd=" + stranger:       "is no Redis server",
	} {
		all, err := find(extra)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("HOLDFAST_TEST_SERVERS=%q: got %v, %v; want an error with %q", extra, all, err, want)
		}
	}
}

func TestAtLeast(t *testing.T) {
	redis := Binary{Major: 7, Minor: 0}
	valkey := Binary{Valkey: true, Major: 9}
	for _, c := range []struct {
		bin          Binary
		major, minor int
		want         bool
	}{
		{redis, 6, 2, true}, {redis, 7, 0, true}, {redis, 7, 2, false}, {redis, 8, 0, false},
		{valkey, 7, 2, true}, {valkey, 7, 4, false}, {valkey, 8, 0, false},
	} {
		if got := c.bin.AtLeast(c.major, c.minor); got != c.want {
			t.Errorf("%+v at least %d.%d: got %v", c.bin, c.major, c.minor, got)
		}
	}
}
