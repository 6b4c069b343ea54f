package main

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Etcd has its turns, and its server's figures are taken.
func TestEtcd(t *testing.T) {
	if _, missing := buildEtcd(t.Context(), t.TempDir()); missing != "" {
		t.Skipf("SKIPPED, ETCD NOT TESTED: %s", missing)
	}
	r, tables, said := medians(t, "-quick", "-for", "300ms", "-leases", "50", "-cells", "free,contended,held", "-only", "etcd")
	for cell, f := range r {
		f := f["etcd"]
		if f["client_us"] == 0 || f["overlaps"]+f["errors"]+f["lost"] > 0 {
			t.Errorf("%s: %v; %s", cell, f, said)
		}
	}
	if f := r["held"]["etcd"]; f["rate"] == 0 || f["commands"] < 2 || f["redis_us"] == 0 {
		t.Errorf("held: %v; want a lock and an unlock for each lease, and processor time", f)
	}
	if len(r) != len(levels)+2 || !strings.Contains(tables, "go.etcd.io/etcd/client/v3 v3.") {
		t.Errorf("%d cells; %s", len(r), tables)
	}
}

// Without etcd's server the bench says so, twice, and goes on.
func TestAMissingEtcdIsLeftOutLoudly(t *testing.T) {
	server.One(t)        // before PATH changes
	t.Setenv("PATH", "") // there is no go command
	r, tables, said := medians(t, "-quick", "-for", "50ms", "-leases", "10", "-cells", "held", "-only", "holdfast-goredis,etcd")
	if !strings.Contains(said, "!!! etcd is NOT MEASURED: ") || !strings.Contains(tables, "**etcd was not measured: ") {
		t.Errorf("nothing is said of etcd in %s or in %s", said, tables)
	}
	if f := r["held"]["holdfast-goredis"]; f["rate"] == 0 || len(r["held"]) != 1 {
		t.Errorf("got %v", r["held"])
	}
}
