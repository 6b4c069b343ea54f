package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// needed are commands without which locks do not work, with words for keys and channels. Without the optional ones some locks do not, or
// waiters get them late; without the sparing ones locks only cost the server more. These are the commands in docs/acl.
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

// rights returns the commands that this server needs, the optional ones, and the sparing ones.
func rights(cluster bool) [3][]string {
	own := onlyServer
	if cluster {
		own = onlyCluster
	}
	return [3][]string{slices.Concat(needed, own[0]), slices.Concat(own[1], optional), sparing}
}

// checkACL asks the server whether this user may send what locks need.
func (s *server) checkACL(ctx context.Context) Finding {
	user, err := s.client.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		return unchecked("acl", "ACL WHOAMI", err)
	}
	word := map[string]string{"LOCK": s.keys.Lock, "QUEUE": s.keys.Queue, "FENCE": s.fence, "CHANNEL": s.channel}
	var denied [3][]string
	for i, commands := range rights(s.e.mode == "cluster") {
		for _, command := range commands {
			words := []any{"acl", "dryrun", user}
			for _, w := range strings.Fields(command) {
				words = append(words, cmp.Or(word[w], w))
			}
			reply, err := s.client.Do(ctx, words...).Text()
			switch {
			case err != nil && strings.HasPrefix(err.Error(), "ERR Command"): // not found: an older server does not have the command
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

// nameOf names the command that was denied, given the server's reason.
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
