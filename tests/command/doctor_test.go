package command

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// On a server with good settings, the doctor finds nothing, checks everything, and leaves nothing.
func TestDoctorOfAHealthyServer(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		bin, addr := b.Server.Binary(), b.Server.Addr()
		url := "redis://default:" + canary + "@" + addr
		doctor(t, url, func(d *diagnosis) {
			if d.Worst != isOK || d.Mode != "server" || d.Server != addr || !slices.Equal(d.Servers, []string{addr}) {
				d.complain("%s, %s, %s, %q", d.Worst, d.Mode, d.Server, d.Servers)
			}
			ids, _ := checks()
			for _, id := range ids {
				if id != "topology" && id != "failover" && id != "quorum" {
					d.expect(id, isOK, "")
				}
			}
			d.expect("version", isOK, map[bool]string{true: "valkey ", false: "redis "}[bin.Valkey])
			native := "has none"
			switch {
			case bin.Valkey && bin.Major >= 9:
				native = "has DELIFEQ, SET IFEQ"
			case bin.Valkey:
				native = "has SET IFEQ"
			}
			d.expect("native", isOK, native)
			if all := left(t, b.Server); len(all) != 1 || !strings.HasPrefix(all[0], "holdfast:fences for ") {
				d.complain("left behind: %q", all)
			}
		})
	}, server.Conf("requirepass", canary), server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"),
		server.Conf("maxmemory", "100mb"))
}

// The doctor finds each setting that endangers locks, on every server.
func TestDoctorFindsSettings(t *testing.T) {
	type setting struct {
		set               []any // CONFIG SET
		id, severity, saw string
	}
	// The settings of a round do not affect each other's findings. They stay for the next round.
	rounds := [][]setting{
		{
			{[]any{"maxmemory", "100mb", "maxmemory-policy", "volatile-lru"}, "eviction", isProblem, "volatile-lru with maxmemory 104857600"},
			{[]any{"save", "3600 1"}, "persistence", isWarning, `RDB snapshots only, save "3600 1"`},
			{[]any{"min-replicas-to-write", "1"}, "replication", isProblem, "master with 0 replicas, 0 of them in time"},
		},
		{
			{[]any{"maxmemory-policy", "allkeys-random"}, "eviction", isProblem, "allkeys-random"},
			{[]any{"save", ""}, "persistence", isWarning, "neither AOF nor snapshots"},
			{[]any{"min-replicas-to-write", "0"}, "replication", isOK, "master without replicas"},
		},
		{
			{[]any{"maxmemory", "0", "maxmemory-policy", "allkeys-lru"}, "eviction", isNote, "allkeys-lru, but no maxmemory"},
			{[]any{"appendonly", "yes", "appendfsync", "no"}, "persistence", isWarning, "left to the system"},
		},
		{
			{[]any{"maxmemory", "100kb", "maxmemory-policy", "noeviction"}, "eviction", isOK, "noeviction"},
			{[]any{"appendfsync", "everysec"}, "persistence", isNote, "every second"},
		},
		{
			{[]any{"maxmemory", "0"}, "eviction", isOK, "noeviction"},
			{[]any{"appendfsync", "always"}, "persistence", isOK, "fsync always"},
		},
	}
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		for _, round := range rounds {
			for _, c := range round {
				order(t, b.Server, append([]any{"CONFIG", "SET"}, c.set...)...)
			}
			doctor(t, "redis://"+b.Server.Addr(), func(d *diagnosis) {
				for _, c := range round {
					d.expect(c.id, c.severity, c.saw)
				}
			}, "--ttl", "15s")
		}
	})
}

// The doctor reports how many keys a server has evicted.
func TestDoctorTellsEvictions(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("maxmemory", "3mb"), server.Conf("maxmemory-policy", "allkeys-lru"))
	for range 400 {
		order(t, s, "EVAL", "for n = 1, 10 do redis.call('SET', 'k' .. redis.call('INCR', 'n'), string.rep('x', 1000)) end", 0)
	}
	doctor(t, "redis://"+s.Addr(), func(d *diagnosis) { d.expect("eviction", isProblem, "keys evicted since the start") })
}

func TestDoctorFindsAFailedSave(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		s := b.Server
		expect.OK(t, os.Mkdir(filepath.Join(s.Dir(), "dump.rdb"), 0o700))
		t.Cleanup(func() { _ = os.Remove(filepath.Join(s.Dir(), "dump.rdb")) })
		order(t, s, "BGSAVE")
		backend.Eventually(t, "saving has failed", func() bool { return s.Info("persistence")["rdb_last_bgsave_status"] == "err" })
		doctor(t, "redis://"+s.Addr(), func(d *diagnosis) {
			d.expect("persistence", isProblem, "the last RDB save failed")
			d.expect("trial", isProblem, "MISCONF")
		})
		order(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
		doctor(t, "redis://"+s.Addr(), func(d *diagnosis) { d.expect("persistence", isWarning, "the last RDB save failed") })
	}, server.Conf("save", "3600 1"))
}

func TestDoctorOfAFullServer(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t), server.Conf("maxmemory", "1"))
	doctor(t, "redis://"+s.Addr(), func(d *diagnosis) { d.expect("trial", isProblem, "out of memory") })
}

// An interrupted examination ends without a report.
func TestDoctorInterrupted(t *testing.T) {
	t.Parallel()
	l := expect.Of(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := command(ctx, []string{"HOLDFAST_REDIS=redis://" + l.Addr().String()}, "doctor")
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	expect.OK(t, cmd.Start())
	conn, err := l.Accept() // from a doctor under way, which gets no answer
	expect.OK(t, err)
	defer conn.Close()
	expect.OK(t, expect.ErrOf(bufio.NewReader(conn).ReadByte()))
	expect.OK(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || out.Len() > 0 || !strings.Contains(said.String(), "stopped by a signal: interrupt") {
		t.Errorf("exit code %d: %s%s", code, &out, &said)
	}
}
