package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/resp"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

func (s *server) checkVersion(ctx context.Context) Finding {
	hello, err := s.client.Do(ctx, "hello").Result()
	if err != nil {
		return unchecked("version", "HELLO", err)
	}
	info := resp.Fields(hello)
	saw := info["server"] + " " + info["version"]
	switch {
	case info["server"] != "redis" && info["server"] != "valkey":
		return note("version", saw, "Holdfast is tested on Redis and Valkey; it is not known whether this server does what locks need",
			"check that the trial below succeeds, and test failovers")
	case info["mode"] == "cluster":
		saw += ", Cluster mode"
	}
	return fine("version", saw)
}

// checkNative looks for commands that make compare-and-delete and compare-and-set cheap. Holdfast does not need them.
func (s *server) checkNative(ctx context.Context) Finding {
	var has []string
	for _, c := range []struct{ command, word, name string }{
		{"delex", "delex", "DELEX"}, {"delifeq", "delifeq", "DELIFEQ"}, {"set", "ifeq", "SET IFEQ"},
	} {
		about, err := s.client.Do(ctx, "command", "docs", c.command).Result()
		if err != nil {
			return unchecked("native", "COMMAND DOCS", err)
		}
		if strings.Contains(strings.ToLower(fmt.Sprint(about)), c.word) {
			has = append(has, c.name)
		}
	}
	if has == nil {
		return fine("native", "has none of DELEX, DELIFEQ, SET IFEQ; scripts do the same")
	}
	return fine("native", "has "+strings.Join(has, ", "))
}

func (s *server) checkEviction() Finding {
	policy, err := s.setting("maxmemory-policy", "maxmemory_policy")
	limit, err2 := s.setting("maxmemory", "maxmemory")
	if err := cmp.Or(err, err2); err != nil {
		return unchecked("eviction", "CONFIG GET", err)
	}
	if !strings.HasPrefix(policy, "allkeys-") && !strings.HasPrefix(policy, "volatile-") {
		return fine("eviction", policy)
	}
	const remedy = "CONFIG SET maxmemory-policy noeviction, or use a server only for locks"
	if limit == "0" {
		return note("eviction", policy+", but no maxmemory", "nothing is evicted now; if maxmemory is set, locks can be", remedy)
	}
	saw := policy + " with maxmemory " + limit
	if evicted := s.number("evicted_keys"); evicted > 0 {
		saw += fmt.Sprintf("; %d keys evicted since the start", evicted)
	}
	return problem("eviction", saw, "when memory is full, held locks are deleted and granted to others", remedy)
}

func (s *server) checkPersistence() Finding {
	for _, c := range []struct {
		field, what string
		stopsWrites bool
	}{
		{"rdb_last_bgsave_status", "the last RDB save", true},
		{"aof_last_write_status", "the last write to the AOF", true},
		{"aof_last_bgrewrite_status", "the last rewrite of the AOF", false},
	} {
		const remedy = "see the server's log; look for a full disk, or a folder that it cannot write to"
		switch {
		case s.info[c.field] != "err":
		case c.stopsWrites && s.config["stop-writes-on-bgsave-error"] != "no":
			return problem("persistence", c.what+" failed", "the server refuses writes (MISCONF): no acquire, no renewal, no release", remedy)
		default:
			return warning("persistence", c.what+" failed", "what is on disk is old", remedy)
		}
	}
	aof, err := s.setting("appendonly", "")
	if err != nil {
		if s.info["aof_enabled"] != "0" {
			return unchecked("persistence", "CONFIG GET", err)
		}
		aof = "no"
	}
	save, fsync := s.config["save"], s.config["appendfsync"]
	const (
		forgets = "forgets locks: a second holder can get in while the first is still working"
		remedy  = "CONFIG SET appendonly yes, with appendfsync always or everysec"
	)
	switch {
	case aof == "yes" && fsync == "always":
		return fine("persistence", "AOF, fsync always: a restart loses nothing that was acknowledged")
	case aof == "yes" && fsync == "everysec":
		return note("persistence", "AOF, fsync every second",
			"a crash of the machine, but not of the server alone, can lose the locks of the last 2 s; "+
				"Durability{Fsync: true} prevents that, but each acquire and renewal then takes more than a second",
			"appendfsync always, if that is too much")
	case aof == "yes":
		return warning("persistence", "AOF, fsync left to the system",
			"a crash of the machine can lose the locks of the last half minute; with Durability{Fsync: true}, none is ever granted",
			"CONFIG SET appendfsync everysec, or always")
	case save != "":
		return warning("persistence", "RDB snapshots only, save "+strconv.Quote(save),
			"a crash loses everything since the last snapshot, and "+forgets, remedy)
	case s.configErr != nil:
		return warning("persistence", "no AOF; snapshots unknown ("+because("CONFIG GET", s.configErr)+")", "a crash "+forgets, remedy)
	}
	return warning("persistence", "none: neither AOF nor snapshots", "every restart "+forgets, remedy)
}

func (s *server) checkReplication() Finding {
	role, ok := s.info["role"]
	switch {
	case !ok:
		return unchecked("replication", "INFO", cmp.Or(s.infoErr, errNotTold))
	case role == "slave":
		return s.checkReplica()
	case s.infoErr != nil:
		return unchecked("replication", "INFO", s.infoErr)
	}
	replicas, good := s.number("connected_slaves"), s.number("min_slaves_good_slaves")
	_, countsGood := s.info["min_slaves_good_slaves"]
	setting, err := s.setting("min-replicas-to-write", "")
	need, _ := strconv.Atoi(setting)
	saw := fmt.Sprintf("master with %s", console.Count(replicas, "replica"))
	switch {
	case err == nil && need > good && countsGood, err == nil && need > replicas:
		return problem("replication", saw+fmt.Sprintf(", %d of them in time; min-replicas-to-write %d", good, need),
			"the server refuses writes (NOREPLICAS): no acquire, no renewal, no release",
			"bring the replicas back, or CONFIG SET min-replicas-to-write to fewer")
	case replicas == 0 && s.e.Mode != connect.Single:
		return warning("replication", saw, "if it fails, nothing takes over: its locks can be neither acquired nor renewed",
			"give it a replica")
	case replicas == 0:
		return fine("replication", "master without replicas")
	case err != nil:
		f := unchecked("replication", "CONFIG GET", err)
		f.Saw = saw + "; min-replicas-to-write: " + f.Saw
		return f
	case need == 0:
		remedy := "CONFIG SET min-replicas-to-write 1, and min-replicas-max-lag below the TTL"
		if replicas == 1 {
			remedy = "check fences; or " + remedy + ", and then add a replica, because with a single one locks stop when either server fails"
		}
		return warning("replication", saw+", min-replicas-to-write 0",
			"if it is cut off from its replicas, it continues to grant locks while one of them is promoted: two holders", remedy)
	}
	saw += fmt.Sprintf(", min-replicas-to-write %d", need)
	if lag, _ := strconv.Atoi(s.config["min-replicas-max-lag"]); time.Duration(lag)*time.Second > s.e.TTL {
		return note("replication", saw+fmt.Sprintf(", min-replicas-max-lag %d", lag),
			fmt.Sprintf("a master that is cut off grants locks for %d s, longer than a TTL of %s", lag, s.e.TTL),
			"CONFIG SET min-replicas-max-lag to less than the TTL")
	}
	if need < replicas {
		return note("replication", saw, "a master that is replaced continues to grant locks while it keeps a replica, even in Strict mode",
			fmt.Sprintf("Durability{Replicas: %d} for locks that must not overlap, or CONFIG SET min-replicas-to-write %d", replicas, replicas))
	}
	return fine("replication", saw)
}

func (s *server) checkReplica() Finding {
	saw := "replica of " + s.info["master_host"] + ":" + s.info["master_port"]
	link := s.info["master_link_status"]
	switch {
	case !s.replica:
		return problem("replication", saw, "it refuses writes, so no lock can be acquired",
			"connect to the master, or through Sentinel or Cluster")
	case link != "up":
		return warning("replication", saw+", link "+link, "it falls behind: if it is promoted, all locks since then are lost",
			"see its log, and check that it can reach its master")
	}
	return fine("replication", saw)
}

// needed are the commands without which no lock works; words in capitals stand for keys and channels. Without the optional ones, some
// kinds of locks do not work, or waiters get locks late. Without the sparing ones, locks cost the server more. docs/acl has the same lists.
var (
	needed = []string{
		"eval return 1 LOCK", "evalsha 0000000000000000000000000000000000000000 3 LOCK QUEUE FENCE", "time", "get LOCK", "set LOCK x px 1",
		"del LOCK", "append LOCK x", "exists QUEUE", "pttl LOCK", "pexpire LOCK 1", "zadd QUEUE 1 x", "zcount QUEUE 0 1", "zrange QUEUE 0 0",
		"zrangebyscore QUEUE 0 1", "zrem QUEUE x", "zremrangebyscore QUEUE 0 1", "zscore QUEUE x", "xadd FENCE * g x",
	}
	optional = []string{
		"mget LOCK", "ping", "hget LOCK last", "hmget LOCK kind", "hscan LOCK 0", "hset LOCK kind sem", "hdel LOCK fixed", "persist LOCK",
	}
	sparing     = []string{"multi", "exec", "delifeq LOCK x"}
	onlyServer  = [2][]string{{"xrevrange FENCE + -", "pubsub numsub CHANNEL"}, {"publish CHANNEL x", "subscribe CHANNEL"}}
	onlyCluster = [2][]string{{"xinfo stream FENCE", "pubsub shardnumsub CHANNEL"}, {"spublish CHANNEL x", "ssubscribe CHANNEL"}}
)

func rights(cluster bool) [3][]string {
	own := onlyServer
	if cluster {
		own = onlyCluster
	}
	return [3][]string{slices.Concat(needed, own[0]), slices.Concat(own[1], optional), sparing}
}

// checkACL asks the server whether this user may send the commands that locks need.
func (s *server) checkACL(ctx context.Context) Finding {
	user, err := s.client.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		return unchecked("acl", "ACL WHOAMI", err)
	}
	word := map[string]string{"LOCK": s.keys.Lock, "QUEUE": s.keys.Queue, "FENCE": s.fence, "CHANNEL": s.channel}
	var denied [3][]string
	for i, commands := range rights(s.e.Mode == connect.Cluster) {
		for _, command := range commands {
			words := []any{"acl", "dryrun", user}
			for _, w := range strings.Fields(command) {
				words = append(words, cmp.Or(word[w], w))
			}
			reply, err := s.client.Do(ctx, words...).Text()
			switch {
			case err != nil && strings.HasPrefix(err.Error(), "ERR Command"): // not found, because the server is older than the command
			case err != nil:
				f := unchecked("acl", "ACL DRYRUN", err)
				f.Saw += "; the trial shows what fails"
				return f
			case reply != "OK":
				denied[i] = append(denied[i], nameOf(command, reply))
			}
		}
	}
	saw := "user " + user + " may not: " + strings.Join(slices.Concat(denied[:]...), ", ")
	remedy := "ACL SETUSER " + user + " with the list in docs/SECURITY.md"
	switch {
	case denied[0] != nil:
		return problem("acl", saw, "locks cannot be acquired, renewed, released or handed over, depending on the command", remedy)
	case denied[1] != nil:
		return warning("acl", saw, "mutexes work, but with more requests, or waiters get them late; read-write locks and semaphores need the "+
			"commands on hashes: docs/SECURITY.md says what each is for", remedy)
	case denied[2] != nil:
		return note("acl", saw, "locks work, but cost the server more: clients are refused once, or once a minute, and then send scripts", remedy)
	}
	return fine("acl", "user "+user+" may send all commands that locks need")
}

// nameOf returns the name of a command that was denied, for people. reason is the server's reply.
func nameOf(command, reason string) string {
	words := strings.Fields(command)
	name := words[0]
	if name == "pubsub" || name == "xinfo" {
		name += "|" + words[1]
	}
	for _, what := range []string{"key", "channel"} {
		if strings.Contains(reason, " "+what) {
			return name + " on its " + what + "s"
		}
	}
	return name
}
