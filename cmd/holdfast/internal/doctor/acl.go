package doctor

import (
	"context"
	"strings"
)

// need is a command that locks need, with keys and channels as they use them.
type need struct {
	command  []any
	waitOnly bool // without it, waiters poll or look
}

// needs lists them, as docs/acl does.
func (n *node) needs() []need {
	lock, queue, fence := n.probe.Lock, n.probe.Queue, n.x.space.Fence()
	subscribe, publish, numsub := "subscribe", "publish", "numsub"
	if n.x.cluster() != nil {
		fence, subscribe, publish, numsub = n.probe.Fence, "ssubscribe", "spublish", "shardnumsub"
	}
	return []need{
		{[]any{"eval", "return 1", "1", lock}, false},
		{[]any{"evalsha", strings.Repeat("0", 40), "3", lock, queue, fence}, false},
		{[]any{"time"}, false},
		{[]any{"get", lock}, false},
		{[]any{"set", lock, "x", "px", "1"}, false},
		{[]any{"set", fence, "1"}, false},
		{[]any{"del", lock}, false},
		{[]any{"append", lock, "x"}, false},
		{[]any{"exists", queue}, false},
		{[]any{"pttl", lock}, false},
		{[]any{"pexpire", lock, "1"}, false},
		{[]any{"zadd", queue, "1", "x"}, false},
		{[]any{"zcount", queue, "0", "1"}, false},
		{[]any{"zrange", queue, "0", "0"}, false},
		{[]any{"zrangebyscore", queue, "0", "1"}, false},
		{[]any{"zrem", queue, "x"}, false},
		{[]any{"zremrangebyscore", queue, "0", "1"}, false},
		{[]any{"zscore", queue, "x"}, false},
		{[]any{"pubsub", numsub, n.channel}, false},
		{[]any{publish, n.channel, "x"}, true},
		{[]any{subscribe, n.channel}, true},
		{[]any{"ping"}, true},
	}
}

// permissions has the server say whether this user may send what locks need.
func (n *node) permissions(ctx context.Context) {
	user, err := n.rdb.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		n.add(unchecked("acl", "ACL WHOAMI", err))
		return
	}
	var broken, slow []string
	for _, need := range n.needs() {
		reply, err := n.rdb.Do(ctx, append([]any{"acl", "dryrun", user}, need.command...)...).Text()
		switch {
		case err != nil:
			f := unchecked("acl", "ACL DRYRUN", err)
			f.Saw += "; the trial shows what fails"
			n.add(f)
			return
		case reply == "OK":
		case need.waitOnly:
			slow = append(slow, need.name(reply))
		default:
			broken = append(broken, need.name(reply))
		}
	}
	f := Finding{ID: "acl", Severity: OK, Saw: "user " + user + " may send all that locks need"}
	f.Remedy = "ACL SETUSER " + user + " with the list in docs/SECURITY.md"
	switch {
	case broken != nil:
		f.Severity, f.Saw = Problem, "user "+user+" may not: "+strings.Join(append(broken, slow...), ", ")
		f.Consequence = "locks cannot be acquired, renewed, released or handed over, whichever needs it"
	case slow != nil:
		f.Severity, f.Saw = Warning, "user "+user+" may not: "+strings.Join(slow, ", ")
		f.Consequence = "waiters are not notified: they look, or poll, and get the lock late"
	default:
		f.Remedy = ""
	}
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
