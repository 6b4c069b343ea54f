package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// settings examines what the node says of itself.
func (n *node) settings(ctx context.Context) {
	n.add(n.version(ctx), n.native(ctx), n.eviction(), n.memory(), n.persistence(), n.replication(),
		n.busyLimit(), n.connections(), n.pubsubBuffer(), n.transport(ctx), n.password(ctx))
}

// value returns a setting from CONFIG GET, or from the field of INFO that has it too.
func (n *node) value(setting, field string) (string, error) {
	if v, ok := n.conf[setting]; ok {
		return v, nil
	}
	if v, ok := n.info[field]; ok && field != "" {
		return v, nil
	}
	if n.confErr != nil {
		return "", n.confErr
	}
	return "", errSilent
}

// number returns a number from INFO; 0 where there is none.
func (n *node) number(field string) int64 {
	v, _ := strconv.ParseInt(n.info[field], 10, 64)
	return v
}

func (n *node) version(ctx context.Context) Finding {
	d, err := holdfastgoredis.NewDriver(n.rdb)
	if err != nil {
		return unchecked("version", "HELLO", err)
	}
	info, err := d.Probe(ctx)
	if err != nil {
		return unchecked("version", "HELLO", err)
	}
	f := Finding{ID: "version", Severity: OK, Saw: info.Server + " " + info.Version}
	switch {
	case info.Server != "redis" && info.Server != "valkey":
		f.Severity = Note
		f.Consequence = "Holdfast is tested on Redis and Valkey; whether this server keeps to what locks need is not known"
		f.Remedy = "see that the trial below succeeds, and test failovers"
	case info.Cluster:
		f.Saw += ", Cluster mode"
	}
	return f
}

// native looks for commands that make compare-and-delete and compare-and-expire cheap.
// Holdfast works without them.
func (n *node) native(ctx context.Context) Finding {
	known, err := n.rdb.Do(ctx, "command", "info", "delex", "delifeq").Slice()
	if err != nil {
		return unchecked("native", "COMMAND INFO", err)
	}
	var has []string
	for i, name := range []string{"DELEX", "DELIFEQ"} {
		if about, ok := at(known, i).([]any); ok && strings.EqualFold(fmt.Sprint(at(about, 0)), name) {
			has = append(has, name)
		}
	}
	docs, err := n.rdb.Do(ctx, "command", "docs", "set").Result()
	if err != nil {
		return unchecked("native", "COMMAND DOCS", err)
	}
	if strings.Contains(strings.ToLower(fmt.Sprint(docs)), "ifeq") {
		has = append(has, "SET IFEQ")
	}
	n.deletes = slices.Contains(has, "DELIFEQ")
	f := Finding{ID: "native", Severity: OK, Saw: "has " + strings.Join(has, ", ")}
	if has == nil {
		f.Saw = "has none of DELEX, DELIFEQ, SET IFEQ; scripts do the same"
	}
	return f
}

// at returns an item, or nil if there is none.
func at(items []any, i int) any {
	if i < len(items) {
		return items[i]
	}
	return nil
}

func (n *node) eviction() Finding {
	policy, err := n.value("maxmemory-policy", "maxmemory_policy")
	if err != nil {
		return unchecked("eviction", "CONFIG GET", err)
	}
	limit, err := n.value("maxmemory", "maxmemory")
	if err != nil {
		return unchecked("eviction", "CONFIG GET", err)
	}
	f := Finding{ID: "eviction", Severity: OK, Saw: policy}
	if !strings.HasPrefix(policy, "allkeys-") && !strings.HasPrefix(policy, "volatile-") {
		return f
	}
	f.Remedy = "CONFIG SET maxmemory-policy noeviction, or a server of their own for locks"
	if limit == "0" {
		f.Severity, f.Saw = Note, policy+", but no maxmemory"
		f.Consequence = "nothing is evicted now; with a maxmemory, locks would be"
		return f
	}
	f.Severity, f.Saw = Problem, fmt.Sprintf("%s with maxmemory %s", policy, inBytes(limit))
	f.Consequence = "when memory is full, locks are deleted under their holders and granted to others"
	if gone := n.number("evicted_keys"); gone > 0 {
		f.Saw += fmt.Sprintf("; %d keys evicted since the start", gone)
	}
	return f
}

// almost is the share, in percent, from which something is said to be nearly used up.
const almost = 90

func (n *node) memory() Finding {
	limit, err := n.value("maxmemory", "maxmemory")
	if err != nil {
		return unchecked("memory", "CONFIG GET", err)
	}
	used, ok := n.info["used_memory"]
	if !ok {
		return unchecked("memory", "INFO", n.silence())
	}
	f := Finding{ID: "memory", Severity: OK, Saw: inBytes(used) + " used, no maxmemory"}
	if limit == "0" {
		return f
	}
	most, _ := strconv.ParseInt(limit, 10, 64)
	f.Saw = fmt.Sprintf("%s of %s used", inBytes(used), inBytes(limit))
	if most > 0 && n.number("used_memory")*100/most >= almost {
		f.Severity = Warning
		f.Consequence = "when it is full, no lock can be acquired; renewals and releases go on"
		f.Remedy = "raise maxmemory, or find what fills it"
	}
	return f
}

// silence is why INFO does not tell.
func (n *node) silence() error {
	if n.infoErr != nil {
		return n.infoErr
	}
	return errSilent
}

func (n *node) persistence() Finding {
	f := Finding{ID: "persistence"}
	if n.infoErr == nil {
		for field, what := range map[string]string{
			"rdb_last_bgsave_status": "the last RDB save", "aof_last_write_status": "the last write to the AOF",
			"aof_last_bgrewrite_status": "the last rewrite of the AOF",
		} {
			if n.info[field] != "err" {
				continue
			}
			f.Severity, f.Saw = Warning, what+" failed"
			f.Consequence = "what is on disk is old"
			if field != "aof_last_bgrewrite_status" && n.conf["stop-writes-on-bgsave-error"] != "no" {
				f.Severity = Problem
				f.Consequence = "the server refuses writes (MISCONF): no acquire, no renewal, no release"
			}
			f.Remedy = "see the server's log; look for a full disk, or a folder that it cannot write to"
			return f
		}
	}
	aof, err := n.value("appendonly", "")
	if err != nil {
		if n.info["aof_enabled"] != "0" {
			return unchecked("persistence", "CONFIG GET", err)
		}
		aof = "no"
	}
	save, fsync := n.conf["save"], n.conf["appendfsync"]
	f.Remedy = "CONFIG SET appendonly yes, with appendfsync always or everysec"
	const forgets = "forgets locks: a second holder can be let in while the first still works"
	switch {
	case aof == "yes" && fsync == "always":
		f.Severity, f.Saw, f.Remedy = OK, "AOF, fsync always: a restart loses nothing that was answered", ""
	case aof == "yes" && fsync == "everysec":
		f.Severity, f.Saw = Note, "AOF, fsync every second"
		f.Consequence = "a crash of the machine, not of the server alone, can lose the locks of the last 2 s; with the option Fsync none, but each acquire and renewal takes a second and more"
		f.Remedy = "appendfsync always, where that is too much"
	case aof == "yes":
		f.Severity, f.Saw = Warning, "AOF, fsync left to the system"
		f.Consequence = "a crash of the machine can lose the locks of the last half minute; with the option Fsync none is ever granted"
		f.Remedy = "CONFIG SET appendfsync everysec, or always"
	case save != "":
		f.Severity, f.Saw = Warning, "RDB snapshots only, save "+strconv.Quote(save)
		f.Consequence = "a crash loses everything since the last snapshot and " + forgets
	case n.confErr != nil:
		f.Severity, f.Saw = Warning, "no AOF; snapshots not known ("+because("CONFIG GET", n.confErr)+")"
		f.Consequence = "a crash " + forgets
	default:
		f.Severity, f.Saw = Warning, "none: neither AOF nor snapshots"
		f.Consequence = "every restart " + forgets
	}
	return f
}

func (n *node) replication() Finding {
	role, ok := n.info["role"]
	if !ok {
		return unchecked("replication", "INFO", n.silence())
	}
	f := Finding{ID: "replication", Severity: OK}
	if role == "slave" {
		f.Saw = "replica of " + n.info["master_host"] + ":" + n.info["master_port"]
		switch {
		case !n.replica:
			f.Severity = Problem
			f.Consequence = "it refuses writes, and with them every lock"
			f.Remedy = "connect to the master, or through Sentinel or Cluster"
		case n.info["master_link_status"] != "up":
			f.Severity, f.Saw = Warning, f.Saw+", link "+n.info["master_link_status"]
			f.Consequence = "it falls behind: if it is promoted, the locks of since then are lost"
			f.Remedy = "see its log, and whether it can reach its master"
		}
		return f
	}
	if n.infoErr != nil {
		return unchecked("replication", "INFO", n.infoErr)
	}
	replicas := n.number("connected_slaves")
	least, err := n.value("min-replicas-to-write", "")
	good := n.number("min_slaves_good_slaves")
	f.Saw = fmt.Sprintf("master with %s", count(replicas, "replica"))
	switch most, _ := strconv.ParseInt(least, 10, 64); {
	case err == nil && most > good && n.info["min_slaves_good_slaves"] != "", err == nil && most > replicas:
		f.Severity = Problem
		f.Saw += fmt.Sprintf(", of which %d in time; min-replicas-to-write %d", good, most)
		f.Consequence = "the server refuses writes (NOREPLICAS): no acquire, no renewal, no release"
		f.Remedy = "bring the replicas back, or CONFIG SET min-replicas-to-write to fewer"
	case replicas == 0 && n.x.mode() != "server":
		f.Severity = Warning
		f.Consequence = "when it fails there is nobody to take over: its locks can neither be had nor renewed"
		f.Remedy = "give it a replica, and CONFIG SET min-replicas-to-write 1"
	case replicas == 0:
		f.Saw = "master without replicas"
	case err != nil:
		f.Severity = Unchecked
		f.Saw += "; min-replicas-to-write: " + because("CONFIG GET", err)
	case most == 0:
		f.Severity = Warning
		f.Saw += ", min-replicas-to-write 0"
		f.Consequence = "cut off from its replicas, it goes on granting locks while one of them is promoted: two holders"
		f.Remedy = "CONFIG SET min-replicas-to-write 1, and min-replicas-max-lag below the TTL"
	default:
		f.Saw += fmt.Sprintf(", min-replicas-to-write %d", most)
		if lag, _ := strconv.ParseInt(n.conf["min-replicas-max-lag"], 10, 64); time.Duration(lag)*time.Second > n.x.TTL {
			f.Severity = Note
			f.Saw += fmt.Sprintf(", min-replicas-max-lag %d", lag)
			f.Consequence = fmt.Sprintf("a master that is cut off grants locks for %d s, longer than a TTL of %s", lag, n.x.TTL)
			f.Remedy = "CONFIG SET min-replicas-max-lag to less than the TTL"
		} else if most < replicas {
			f.Severity = Note
			f.Consequence = "a master that is replaced goes on granting locks while it keeps a replica, also in Strict mode"
			f.Remedy = fmt.Sprintf("for locks that must not overlap MinReplicas(%d); or CONFIG SET min-replicas-to-write %d", replicas, replicas)
		}
	}
	return f
}

func (n *node) busyLimit() Finding {
	text, err := n.value("busy-reply-threshold", "")
	if err != nil {
		return unchecked("busy-limit", "CONFIG GET", err)
	}
	ms, _ := strconv.ParseInt(text, 10, 64)
	limit := time.Duration(ms) * time.Millisecond
	f := Finding{ID: "busy-limit", Severity: OK, Saw: "a script that hangs is reported after " + limit.String()}
	if limit <= 0 || limit > n.x.TTL {
		f.Severity = Note
		if limit <= 0 {
			f.Saw = "a script that hangs is never reported"
		}
		f.Consequence = "it blocks renewals for longer than a lease lasts before anybody can end it (SCRIPT KILL)"
		f.Remedy = "CONFIG SET busy-reply-threshold 5000"
	}
	return f
}

func (n *node) connections() Finding {
	most, err := strconv.ParseInt(n.info["maxclients"], 10, 64)
	if err != nil {
		return unchecked("connections", "INFO", n.silence())
	}
	now := n.number("connected_clients")
	f := Finding{ID: "connections", Severity: OK, Saw: fmt.Sprintf("%d of maxclients %d", now, most)}
	const consequence = "connections over the limit are refused: those of renewals too"
	switch {
	case most > 0 && now*100/most >= almost:
		f.Severity, f.Consequence = Warning, consequence
		f.Remedy = "CONFIG SET maxclients higher, or find who leaks connections (CLIENT LIST)"
	case n.number("rejected_connections") > 0:
		f.Severity, f.Consequence = Note, consequence
		f.Saw += fmt.Sprintf("; %d refused since the start", n.number("rejected_connections"))
		f.Remedy = "CONFIG SET maxclients higher, if they were refused for that"
	}
	return f
}

// enoughBuffer holds some thousand notifications.
const enoughBuffer = 1 << 20

func (n *node) pubsubBuffer() Finding {
	text, err := n.value("client-output-buffer-limit", "")
	if err != nil {
		return unchecked("pubsub-buffer", "CONFIG GET", err)
	}
	_, rest, _ := strings.Cut(text, "pubsub ")
	limit := strings.Fields(rest)
	if len(limit) < 3 {
		return unchecked("pubsub-buffer", "CONFIG GET", errSilent)
	}
	f := Finding{ID: "pubsub-buffer", Severity: OK, Saw: fmt.Sprintf("subscribers are cut off at %s, or %s for %ss", inBytes(limit[0]), inBytes(limit[1]), limit[2])}
	for _, size := range limit[:2] {
		if size, _ := strconv.ParseInt(size, 10, 64); size > 0 && size < enoughBuffer {
			f.Severity = Note
			f.Consequence = "a busy waiter's subscription is cut: it gets the lock late"
			f.Remedy = `CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60"`
		}
	}
	if limit[0] == "0" && limit[1] == "0" {
		f.Saw = "subscribers are never cut off"
	}
	return f
}

// inBytes writes a size for people.
func inBytes(text string) string {
	size, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	for _, unit := range []string{"B", "kB", "MB"} {
		if size < 1024 {
			return trim(size) + " " + unit
		}
		size /= 1024
	}
	return trim(size) + " GB"
}

func trim(x float64) string { return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0") }

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// unsent reports whether an error is no answer of the server.
func unsent(err error) bool {
	var answer redis.Error
	var reply driver.ReplyError
	return !errors.As(err, &answer) && !errors.As(err, &reply)
}
