package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/holdfastgoredis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
)

// checkFacts makes the checks for which the server need only be asked about itself.
func (s *subject) checkFacts(ctx context.Context) []report.Finding {
	return []report.Finding{
		s.checkVersion(ctx), s.checkNative(ctx), s.checkEviction(), s.checkMemory(), s.checkPersistence(), s.checkReplication(),
		s.checkBusyLimit(), s.checkConnections(), s.checkPubSubBuffer(), s.checkTransport(ctx), s.checkPassword(ctx),
	}
}

func (s *subject) checkVersion(ctx context.Context) report.Finding {
	d, err := holdfastgoredis.NewDriver(s.Client)
	if err != nil {
		return report.Version.Unchecked("HELLO", err)
	}
	defer d.Close()
	info, err := d.Probe(ctx)
	if err != nil {
		return report.Version.Unchecked("HELLO", err)
	}
	saw := info.Server + " " + info.Version
	switch {
	case info.Server != "redis" && info.Server != "valkey":
		return report.Version.Note(saw, "Holdfast is tested on Redis and Valkey; it is not known whether this server does what locks need",
			"check that the trial below succeeds, and test failovers")
	case info.Cluster:
		saw += ", Cluster mode"
	}
	return report.Version.OK(saw)
}

// checkNative looks for commands that make compare-and-delete and compare-and-expire cheap. Holdfast works without
// them.
func (s *subject) checkNative(ctx context.Context) report.Finding {
	known, err := s.Client.Do(ctx, "command", "info", "delex", "delifeq").Slice()
	if err != nil {
		return report.Native.Unchecked("COMMAND INFO", err)
	}
	var has []string
	for i, name := range []string{"DELEX", "DELIFEQ"} {
		if about, ok := itemAt(known, i).([]any); ok && strings.EqualFold(fmt.Sprint(itemAt(about, 0)), name) {
			has = append(has, name)
		}
	}
	docs, err := s.Client.Do(ctx, "command", "docs", "set").Result()
	if err != nil {
		return report.Native.Unchecked("COMMAND DOCS", err)
	}
	if strings.Contains(strings.ToLower(fmt.Sprint(docs)), "ifeq") {
		has = append(has, "SET IFEQ")
	}
	s.hasDelifeq = slices.Contains(has, "DELIFEQ")
	if has == nil {
		return report.Native.OK("has none of DELEX, DELIFEQ, SET IFEQ; scripts do the same")
	}
	return report.Native.OK("has " + strings.Join(has, ", "))
}

// itemAt returns an item, or nil if there is none.
func itemAt(items []any, i int) any {
	if i < len(items) {
		return items[i]
	}
	return nil
}

func (s *subject) checkEviction() report.Finding {
	policy, err := s.Setting("maxmemory-policy", "maxmemory_policy")
	if err != nil {
		return report.Eviction.Unchecked("CONFIG GET", err)
	}
	limit, err := s.Setting("maxmemory", "maxmemory")
	if err != nil {
		return report.Eviction.Unchecked("CONFIG GET", err)
	}
	if !strings.HasPrefix(policy, "allkeys-") && !strings.HasPrefix(policy, "volatile-") {
		return report.Eviction.OK(policy)
	}
	const remedy = "CONFIG SET maxmemory-policy noeviction, or use a server only for locks"
	if limit == "0" {
		return report.Eviction.Note(policy+", but no maxmemory", "nothing is evicted now; if maxmemory is set, locks can be", remedy)
	}
	saw := fmt.Sprintf("%s with maxmemory %s", policy, inBytes(limit))
	if evicted := s.Number("evicted_keys"); evicted > 0 {
		saw += fmt.Sprintf("; %d keys evicted since the start", evicted)
	}
	return report.Eviction.Problem(saw, "when memory is full, held locks are deleted and granted to others", remedy)
}

// nearly is the share of a limit, in percent, from which the limit is near.
const nearly = 90

func (s *subject) checkMemory() report.Finding {
	limit, err := s.Setting("maxmemory", "maxmemory")
	if err != nil {
		return report.Memory.Unchecked("CONFIG GET", err)
	}
	used, ok := s.Field("used_memory")
	if !ok {
		return report.Memory.Unchecked("INFO", s.MissingField())
	}
	if limit == "0" {
		return report.Memory.OK(inBytes(used) + " used, no maxmemory")
	}
	saw := fmt.Sprintf("%s of %s used", inBytes(used), inBytes(limit))
	most, _ := strconv.ParseInt(limit, 10, 64)
	if most > 0 && s.Number("used_memory")*100/most >= nearly {
		return report.Memory.Warning(saw, "when memory is full, no lock can be acquired; renewals and releases still work", "raise maxmemory, or find what fills it")
	}
	return report.Memory.OK(saw)
}

func (s *subject) checkPersistence() report.Finding {
	if f, failed := s.failedSave(); failed {
		return f
	}
	aof, err := s.Setting("appendonly", "")
	if err != nil {
		if s.Text("aof_enabled") != "0" {
			return report.Persistence.Unchecked("CONFIG GET", err)
		}
		aof = "no"
	}
	save, fsync := s.Config("save"), s.Config("appendfsync")
	const (
		forgets = "forgets locks: a second holder can get in while the first is still working"
		remedy  = "CONFIG SET appendonly yes, with appendfsync always or everysec"
	)
	switch {
	case aof == "yes" && fsync == "always":
		return report.Persistence.OK("AOF, fsync always: a restart loses nothing that was acknowledged")
	case aof == "yes" && fsync == "everysec":
		return report.Persistence.Note("AOF, fsync every second",
			"a crash of the machine, but not of the server alone, can lose the locks of the last 2 s; Durability{Fsync: true} prevents that, but each acquire and renewal then takes more than a second",
			"appendfsync always, if that is too much")
	case aof == "yes":
		return report.Persistence.Warning("AOF, fsync left to the system",
			"a crash of the machine can lose the locks of the last half minute; with Durability{Fsync: true}, none is ever granted",
			"CONFIG SET appendfsync everysec, or always")
	case save != "":
		return report.Persistence.Warning("RDB snapshots only, save "+strconv.Quote(save), "a crash loses everything since the last snapshot, and "+forgets, remedy)
	case s.ConfigErr() != nil:
		return report.Persistence.Warning("no AOF; snapshots unknown ("+report.Because("CONFIG GET", s.ConfigErr())+")", "a crash "+forgets, remedy)
	}
	return report.Persistence.Warning("none: neither AOF nor snapshots", "every restart "+forgets, remedy)
}

// failedSave reports whether the server could not save its data.
func (s *subject) failedSave() (f report.Finding, failed bool) {
	if s.InfoErr() != nil {
		return f, false
	}
	const remedy = "see the server's log; look for a full disk, or a folder that it cannot write to"
	for _, c := range []struct {
		field, what string
		stopsWrites bool
	}{
		{"rdb_last_bgsave_status", "the last RDB save", true},
		{"aof_last_write_status", "the last write to the AOF", true},
		{"aof_last_bgrewrite_status", "the last rewrite of the AOF", false},
	} {
		switch {
		case s.Text(c.field) != "err":
		case c.stopsWrites && s.Config("stop-writes-on-bgsave-error") != "no":
			return report.Persistence.Problem(c.what+" failed", "the server refuses writes (MISCONF): no acquire, no renewal, no release", remedy), true
		default:
			return report.Persistence.Warning(c.what+" failed", "what is on disk is old", remedy), true
		}
	}
	return f, false
}

func (s *subject) checkReplication() report.Finding {
	role, ok := s.Field("role")
	switch {
	case !ok:
		return report.Replication.Unchecked("INFO", s.MissingField())
	case role == "slave":
		return s.checkReplica()
	case s.InfoErr() != nil:
		return report.Replication.Unchecked("INFO", s.InfoErr())
	}
	replicas, good := s.Number("connected_slaves"), s.Number("min_slaves_good_slaves")
	_, countsGood := s.Field("min_slaves_good_slaves")
	setting, err := s.Setting("min-replicas-to-write", "")
	need, _ := strconv.ParseInt(setting, 10, 64)
	saw := fmt.Sprintf("master with %s", report.Count(replicas, "replica"))
	switch {
	case err == nil && need > good && countsGood, err == nil && need > replicas:
		return report.Replication.Problem(saw+fmt.Sprintf(", %d of them in time; min-replicas-to-write %d", good, need),
			"the server refuses writes (NOREPLICAS): no acquire, no renewal, no release",
			"bring the replicas back, or CONFIG SET min-replicas-to-write to fewer")
	case replicas == 0 && s.mode != "server":
		return report.Replication.Warning(saw, "if it fails, nothing takes over: its locks can be neither acquired nor renewed",
			"give it a replica")
	case replicas == 0:
		return report.Replication.OK("master without replicas")
	case err != nil:
		f := report.Replication.Unchecked("CONFIG GET", err)
		f.Saw = saw + "; min-replicas-to-write: " + f.Saw
		return f
	case need == 0:
		remedy := "CONFIG SET min-replicas-to-write 1, and min-replicas-max-lag below the TTL"
		if replicas == 1 {
			remedy = "check fences; or " + remedy + ", and then add a replica, because with a single one locks stop when either server fails"
		}
		return report.Replication.Warning(saw+", min-replicas-to-write 0",
			"if it is cut off from its replicas, it continues to grant locks while one of them is promoted: two holders", remedy)
	}
	saw += fmt.Sprintf(", min-replicas-to-write %d", need)
	if lag, _ := strconv.ParseInt(s.Config("min-replicas-max-lag"), 10, 64); time.Duration(lag)*time.Second > s.ttl {
		return report.Replication.Note(saw+fmt.Sprintf(", min-replicas-max-lag %d", lag),
			fmt.Sprintf("a master that is cut off grants locks for %d s, longer than a TTL of %s", lag, s.ttl),
			"CONFIG SET min-replicas-max-lag to less than the TTL")
	}
	if need < replicas {
		return report.Replication.Note(saw, "a master that is replaced continues to grant locks while it keeps a replica, even in Strict mode",
			fmt.Sprintf("Durability{Replicas: %d} for locks that must not overlap, or CONFIG SET min-replicas-to-write %d", replicas, replicas))
	}
	return report.Replication.OK(saw)
}

func (s *subject) checkReplica() report.Finding {
	saw := "replica of " + s.Text("master_host") + ":" + s.Text("master_port")
	link := s.Text("master_link_status")
	switch {
	case !s.Replica:
		return report.Replication.Problem(saw, "it refuses writes, so no lock can be acquired", "connect to the master, or through Sentinel or Cluster")
	case link != "up":
		return report.Replication.Warning(saw+", link "+link, "it falls behind: if it is promoted, all locks since then are lost",
			"see its log, and check that it can reach its master")
	}
	return report.Replication.OK(saw)
}

func (s *subject) checkBusyLimit() report.Finding {
	text, err := s.Setting("busy-reply-threshold", "")
	if err != nil {
		return report.BusyLimit.Unchecked("CONFIG GET", err)
	}
	ms, _ := strconv.ParseInt(text, 10, 64)
	limit := time.Duration(ms) * time.Millisecond
	saw := "a script that hangs is reported after " + limit.String()
	if limit <= 0 {
		saw = "a script that hangs is never reported"
	}
	if limit <= 0 || limit > s.ttl {
		return report.BusyLimit.Note(saw, "it blocks renewals for longer than a lease lasts before anybody can end it (SCRIPT KILL)", "CONFIG SET busy-reply-threshold 5000")
	}
	return report.BusyLimit.OK(saw)
}

func (s *subject) checkConnections() report.Finding {
	most, err := strconv.ParseInt(s.Text("maxclients"), 10, 64)
	if err != nil {
		return report.Connections.Unchecked("INFO", s.MissingField())
	}
	now, refused := s.Number("connected_clients"), s.Number("rejected_connections")
	saw := fmt.Sprintf("%d of maxclients %d", now, most)
	const consequence = "connections over the limit are refused, including those that renew locks"
	switch {
	case most > 0 && now*100/most >= nearly:
		return report.Connections.Warning(saw, consequence, "CONFIG SET maxclients higher, or find who leaks connections (CLIENT LIST)")
	case refused > 0:
		return report.Connections.Note(saw+fmt.Sprintf("; %d refused since the start", refused), consequence, "CONFIG SET maxclients higher, if that is why they were refused")
	}
	return report.Connections.OK(saw)
}

// enoughBuffer holds some thousand notifications.
const enoughBuffer = 1 << 20

func (s *subject) checkPubSubBuffer() report.Finding {
	text, err := s.Setting("client-output-buffer-limit", "")
	if err != nil {
		return report.PubSubBuffer.Unchecked("CONFIG GET", err)
	}
	_, rest, _ := strings.Cut(text, "pubsub ")
	limit := strings.Fields(rest)
	if len(limit) < 3 {
		return report.PubSubBuffer.Unchecked("CONFIG GET", report.ErrNotTold)
	}
	if limit[0] == "0" && limit[1] == "0" {
		return report.PubSubBuffer.OK("slow subscribers are never disconnected")
	}
	saw := fmt.Sprintf("slow subscribers are disconnected at %s, or %s for %ss", inBytes(limit[0]), inBytes(limit[1]), limit[2])
	for _, size := range limit[:2] {
		if size, _ := strconv.ParseInt(size, 10, 64); size > 0 && size < enoughBuffer {
			return report.PubSubBuffer.Note(saw, "a busy waiter is disconnected, and gets the lock late", `CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60"`)
		}
	}
	return report.PubSubBuffer.OK(saw)
}

// inBytes writes a size for people.
func inBytes(text string) string {
	size, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	for _, unit := range []string{"B", "kB", "MB"} {
		if size < 1024 {
			return withoutZero(size) + " " + unit
		}
		size /= 1024
	}
	return withoutZero(size) + " GB"
}

func withoutZero(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}
