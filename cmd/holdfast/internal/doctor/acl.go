package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
)

// need is a command that locks need, with keys and channels as they use them.
type need struct {
	command []any
	purpose purpose
}

// purpose is what a command is needed for.
type purpose int

const (
	locking   purpose = iota // any lock
	batching                 // releases and renewals go one by one without it
	notifying                // waiters poll without it
	sharing                  // read-write locks and semaphores
	native                   // mutexes that are free are acquired by scripts without it
	deleting                 // they are released by scripts without it
)

// needs lists what docs/acl lists.
func (s *subject) needs() []need {
	lock, queue := s.keys.Lock, s.keys.Queue
	lastFence := []any{"xrevrange", s.fence, "+", "-"}
	if s.mode == "cluster" {
		lastFence = []any{"xinfo", "stream", s.fence}
	}
	all := []need{
		{[]any{"eval", "return 1", "1", lock}, locking},
		{[]any{"evalsha", strings.Repeat("0", 40), "3", lock, queue, s.fence}, locking},
		{[]any{"time"}, locking},
		{[]any{"multi"}, native},
		{[]any{"exec"}, native},
		{[]any{"get", lock}, locking},
		{[]any{"mget", lock}, batching},
		{[]any{"set", lock, "x", "px", "1"}, locking},
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
		{[]any{"xadd", s.fence, "*", "g", ""}, locking},
		{lastFence, locking},
		{[]any{"pubsub", s.words.countSubscribers, s.channel}, locking},
		{[]any{s.words.publish, s.channel, "x"}, notifying},
		{[]any{s.words.subscribe, s.channel}, notifying},
		{[]any{"ping"}, notifying},
		{[]any{"hget", lock, "last"}, sharing},
		{[]any{"hmget", lock, "kind"}, sharing},
		{[]any{"hscan", lock, "0"}, sharing},
		{[]any{"hset", lock, "kind", "sem"}, sharing},
		{[]any{"hdel", lock, "fixed"}, sharing},
		{[]any{"persist", lock}, sharing},
	}
	if s.hasDelifeq {
		all = append(all, need{[]any{"delifeq", lock, "x"}, deleting})
	}
	return all
}

// checkACL asks the server whether this user may send what locks need.
func (s *subject) checkACL(ctx context.Context) []report.Finding {
	user, err := s.Client.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		return []report.Finding{report.ACL.Unchecked("ACL WHOAMI", err)}
	}
	denied := map[purpose][]string{}
	for _, need := range s.needs() {
		reply, err := s.Client.Do(ctx, append([]any{"acl", "dryrun", user}, need.command...)...).Text()
		if err != nil {
			f := report.ACL.Unchecked("ACL DRYRUN", err)
			f.Saw += "; the trial shows what fails"
			return []report.Finding{f}
		}
		if reply != "OK" {
			denied[need.purpose] = append(denied[need.purpose], need.name(reply))
		}
	}
	return []report.Finding{judgeACL(user, denied)}
}

// judgeACL says what follows from the commands that a user may not send.
func judgeACL(user string, denied map[purpose][]string) report.Finding {
	if len(denied) == 0 {
		return report.ACL.OK("user " + user + " may send all commands that locks need")
	}
	var consequences []string
	if denied[locking] != nil {
		consequences = append(consequences, "locks cannot be acquired, renewed, released or handed over, depending on the command")
	} else if denied[notifying] != nil {
		consequences = append(consequences, "waiters are not notified: they poll, and get the lock late")
	}
	if denied[batching] != nil {
		consequences = append(consequences, "locks of many goroutines are released and renewed one by one, after being refused together")
	}
	if denied[sharing] != nil {
		consequences = append(consequences, "read-write locks and semaphores cannot be used; mutexes do not need the commands on hashes")
	}
	if denied[native] != nil {
		consequences = append(consequences, "each client is refused once a minute, and else sends scripts for mutexes that are free, too, which cost the server more")
	}
	if denied[deleting] != nil {
		consequences = append(consequences, "each client has one release refused, and then releases by scripts")
	}
	finding := report.ACL.Warning
	switch {
	case denied[locking] != nil:
		finding = report.ACL.Problem
	case len(denied) == 1 && (denied[native] != nil || denied[deleting] != nil):
		finding = report.ACL.Note
	}
	commands := slices.Concat(denied[locking], denied[batching], denied[notifying], denied[sharing], denied[native], denied[deleting])
	return finding("user "+user+" may not: "+strings.Join(commands, ", "), strings.Join(consequences, "; "),
		"ACL SETUSER "+user+" with the list in docs/SECURITY.md")
}

// name names what was denied, given the server's reason.
func (c need) name(reason string) string {
	name := c.command[0].(string)
	if name == "pubsub" || name == "xinfo" {
		name += "|" + c.command[1].(string)
	}
	for _, what := range []string{"key", "channel"} {
		if strings.Contains(reason, " "+what) {
			return name + " on its " + what + "s"
		}
	}
	return name
}
