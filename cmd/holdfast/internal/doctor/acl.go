package doctor

import (
	"context"
	"slices"
	"strings"
)

// need is a command that locks need, with keys and channels as they use them.
type need struct {
	command []any
	purpose purpose
}

// purpose is what a command is needed for.
type purpose int

const (
	locking   purpose = iota // of any kind
	gathering                // releases and renewals go one by one without it
	waiting                  // waiters poll or look without it
	sharing                  // read-write locks and semaphores
	deleting                 // releases that go alone go by a script without it
)

// needs lists them, as docs/acl does.
func (n *node) needs() []need {
	lock, queue, fence := n.probe.Lock, n.probe.Queue, n.x.space.Fence()
	subscribe, publish, numsub := "subscribe", "publish", "numsub"
	if n.x.cluster() != nil {
		fence, subscribe, publish, numsub = n.probe.Fence(), "ssubscribe", "spublish", "shardnumsub"
	}
	all := []need{
		{[]any{"eval", "return 1", "1", lock}, locking},
		{[]any{"evalsha", strings.Repeat("0", 40), "3", lock, queue, fence}, locking},
		{[]any{"time"}, locking},
		{[]any{"get", lock}, locking},
		{[]any{"mget", lock}, gathering},
		{[]any{"set", lock, "x", "px", "1"}, locking},
		{[]any{"set", fence, "1"}, locking},
		{[]any{"del", lock}, locking},
		{[]any{"append", lock, "x"}, locking},
		{[]any{"exists", queue}, locking},
		{[]any{"pttl", lock}, locking},
		{[]any{"pexpire", lock, "1"}, locking},
		{[]any{"zadd", queue, "1", "x"}, locking},
		{[]any{"zcount", queue, "0", "1"}, locking},
		{[]any{"zrange", queue, "0", "0"}, locking},
		{[]any{"zrangebyscore", queue, "0", "1"}, locking},
		{[]any{"zrem", queue, "x"}, locking},
		{[]any{"zremrangebyscore", queue, "0", "1"}, locking},
		{[]any{"zscore", queue, "x"}, locking},
		{[]any{"pubsub", numsub, n.channel}, locking},
		{[]any{publish, n.channel, "x"}, waiting},
		{[]any{subscribe, n.channel}, waiting},
		{[]any{"ping"}, waiting},
		{[]any{"hget", lock, "last"}, sharing},
		{[]any{"hmget", lock, "kind"}, sharing},
		{[]any{"hscan", lock, "0"}, sharing},
		{[]any{"hset", lock, "kind", "sem"}, sharing},
		{[]any{"hdel", lock, "fixed"}, sharing},
		{[]any{"persist", lock}, sharing},
	}
	if n.deletes {
		all = append(all, need{[]any{"delifeq", lock, "x"}, deleting})
	}
	return all
}

// permissions has the server say whether this user may send what locks need.
func (n *node) permissions(ctx context.Context) {
	user, err := n.rdb.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		n.add(unchecked("acl", "ACL WHOAMI", err))
		return
	}
	refused := map[purpose][]string{}
	for _, need := range n.needs() {
		reply, err := n.rdb.Do(ctx, append([]any{"acl", "dryrun", user}, need.command...)...).Text()
		if err != nil {
			f := unchecked("acl", "ACL DRYRUN", err)
			f.Saw += "; the trial shows what fails"
			n.add(f)
			return
		}
		if reply != "OK" {
			refused[need.purpose] = append(refused[need.purpose], need.name(reply))
		}
	}
	f := Finding{ID: "acl", Severity: OK, Saw: "user " + user + " may send all that locks need"}
	f.Remedy = "ACL SETUSER " + user + " with the list in docs/SECURITY.md"
	if len(refused) == 0 {
		f.Remedy = ""
		n.add(f)
		return
	}
	f.Severity, f.Saw = Warning, "user "+user+" may not: "+strings.Join(slices.Concat(refused[locking], refused[gathering], refused[waiting], refused[sharing], refused[deleting]), ", ")
	var consequences []string
	if refused[locking] != nil {
		f.Severity = Problem
		consequences = append(consequences, "locks cannot be acquired, renewed, released or handed over, whichever needs it")
	} else if refused[waiting] != nil {
		consequences = append(consequences, "waiters are not notified: they look, or poll, and get the lock late")
	}
	if refused[gathering] != nil {
		consequences = append(consequences, "locks of many goroutines are released and renewed one by one, after they were refused together")
	}
	if refused[sharing] != nil {
		consequences = append(consequences, "read-write locks and semaphores cannot be used; mutexes need none of the commands on hashes")
	}
	if refused[deleting] != nil {
		if len(refused) == 1 {
			f.Severity = Note
		}
		consequences = append(consequences, "each client has one release refused, and sends the others as scripts, which cost the server more")
	}
	f.Consequence = strings.Join(consequences, "; ")
	n.add(f)
}

// name names what is refused, from the reason that the server gives.
func (c need) name(reason string) string {
	name := c.command[0].(string)
	if name == "pubsub" {
		name += "|" + c.command[1].(string)
	}
	for _, what := range []string{"key", "channel"} {
		if strings.Contains(reason, " "+what) {
			return name + " on its " + what + "s"
		}
	}
	return name
}
