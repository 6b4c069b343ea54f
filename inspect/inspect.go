// Package inspect shows who holds which locks, since when and for how long, and who waits, and breaks a lock whose holder
// hangs. It also admits servers to Strict mode. It is for programs that look after locks; programs that use locks need only
// package holdfast.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/inspector"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/voting"
	"github.com/holdfast-go/holdfast/quorum"
)

// Inspector looks at the locks of one prefix, of every kind. It is safe for concurrent use.
//
// It needs the rights of the role "inspector" in docs/SECURITY.md; Break and Revoke need those of "breaker".
type Inspector struct{ of source }

// source is where an Inspector looks.
type source interface {
	Lookup(ctx context.Context, name string, yield func(lock.Status, error) bool)
	List(ctx context.Context, p inspector.Pattern, yield func(lock.Status, error) bool)
	Break(ctx context.Context, name, grant, reason, whole string) (inspector.Broken, error)
	Revoke(ctx context.Context, name, grant, reason, whole string) error
	History(ctx context.Context, yield func(inspector.Broken, error) bool)
	Deadlocks(ctx context.Context, p inspector.Pattern) ([]*lock.DeadlockError, error)
	Init(ctx context.Context, force bool) error
}

// New returns the inspector of a client's server, or Cluster, and prefix. Nothing is sent.
func New(c *holdfast.Client) *Inspector {
	k := &access.Client(c).Engine.Keyspace
	return &Inspector{inspector.New(k, k.Config.Owner)}
}

// NewQuorum returns the inspector of a quorum: it reports what a majority of nodes says. Nothing is sent.
func NewQuorum(q *quorum.Quorum) *Inspector { return &Inspector{access.Quorum(q).NewInspector()} }

// Get returns one lock's status, whatever its kind. A free lock has no holders; its Kind is "" if the server knows nothing of
// it. Get looks at the lock of that name first and, if there is none, at the one with that exact key (MutexKey,
// RedissonMutex), if it may. A name that cannot be a lock's is [holdfast.ErrInvalid], before anything is sent; what the server, or the way
// to it, does not allow is a [*holdfast.ServerError], of a quorum a [*quorum.Error].
func (i *Inspector) Get(ctx context.Context, name string) (holdfast.Status, error) {
	s, err := i.get(ctx, name)
	if err != nil {
		return holdfast.Status{}, access.Error(err)
	}
	return statusOf(&s), nil
}

func (i *Inspector) get(ctx context.Context, name string) (found lock.Status, err error) {
	i.of.Lookup(ctx, name, func(s lock.Status, failed error) bool {
		if err = failed; err == nil && (found.Name == "" || s.Form != "") {
			found = s
		}
		return err == nil && s.Form == ""
	})
	return found, err
}

// List yields the locks whose names match a pattern of [path.Match], "" for all, in no order. It lists each lock that
// somebody holds or waits for, each latch that is not open, and each semaphore whose permits were set by Resize. Of the
// waiters it names the first 100; Status.Waiting says how many there are.
//
// The server goes on serving others meanwhile: it is asked for some keys, and for some locks, at a time. Of a Cluster all
// masters are asked; if one is unavailable, its error comes after the locks of the others. Locks that come or go meanwhile
// may or may not be listed. A lock is listed twice only if there are more than 1,000,000 others, and one is left out if it had
// to be in use all the time and a slot of a Cluster was moved.
//
// A pattern without wildcards is one name. List then searches nothing: it asks for the lock of that name, and for the one with
// that exact key (MutexKey, RedissonMutex) if it may, and lists those of the two that are in use.
//
// With wildcards, a lock with an exact key is listed while somebody waits for it. Otherwise it has no key of the prefix, and
// nothing tells its own, a string or a hash, from the application's, which List does not read.
//
// An error that comes with a name in the status is about that lock: the server does not let this user see it, say, and the
// list goes on. Any other is the last: [holdfast.ErrInvalid] for a pattern that is none, or a name that cannot be
// a lock's, before anything is sent; a [*holdfast.ServerError]; of a quorum a [*quorum.Error], if too few nodes answer;
// ctx's own; or [holdfast.ErrClosed]. What was listed until then is true.
func (i *Inspector) List(ctx context.Context, pattern string) iter.Seq2[holdfast.Status, error] {
	return func(yield func(holdfast.Status, error) bool) {
		p, err := compile("list", pattern)
		if err != nil {
			yield(holdfast.Status{}, err)
			return
		}
		i.list(ctx, p, yield)
	}
}

func (i *Inspector) list(ctx context.Context, p inspector.Pattern, yield func(holdfast.Status, error) bool) {
	name, is := literal(p.Text)
	if !is {
		i.of.List(ctx, p, func(s lock.Status, err error) bool { return yield(statusOf(&s), access.Error(err)) })
		return
	}
	i.of.Lookup(ctx, name, func(found lock.Status, err error) bool {
		if err != nil {
			return yield(holdfast.Status{}, access.Error(err))
		}
		s := statusOf(&found)
		s.Waiters = s.Waiters[:min(len(s.Waiters), maxWaiters)]
		inUse := s.Held() || s.Waiting > 0 || s.Kind == holdfast.KindLatch && s.Count > 0 || s.Kind == holdfast.KindSemaphore && s.Limit > 0
		return !inUse || yield(s, nil)
	})
}

// maxWaiters is how many waiters of a lock List names.
const maxWaiters = 100

// Deadlocks returns the circles of callers that hold locks and wait for each other's: see [holdfast.Lock.Acquire], which tells one of the
// callers by itself, unless all have IgnoreDeadlocks. It scans the server's keys, as List does, and looks at a circle for up to 3 s until
// it is certain that the processes are alive and wait. The errors are those of List; of a quorum, whose waiters are not known, it is
// [holdfast.ErrInvalid].
func (i *Inspector) Deadlocks(ctx context.Context) (all []*holdfast.DeadlockError, err error) {
	p, err := compile("look for deadlocks among", "")
	if err != nil {
		return nil, err
	}
	found, err := i.of.Deadlocks(ctx, p)
	for _, one := range found {
		all = append(all, access.Error(one).(*holdfast.DeadlockError))
	}
	return all, access.Error(err)
}

// Admit admits a new server to Strict mode, so that it grants locks at once. Run it before the first acquire,
// which puts a new server in quarantine. Run it once for a server, by hand: a server that lost its data looks like a new one, so
// do not run it whenever a server starts. A server in quarantine makes it return [holdfast.ErrQuarantine], which says for how
// long. A client whose [holdfast.Config.Strict] is false gets [holdfast.ErrInvalid].
//
// Of a quorum it admits new nodes: all of them have to be there. Run it once for a new quorum, and again after a majority has
// restarted and lost its data, for which the others cannot vouch. A node that is replaced, or comes back empty, while a
// majority goes on, needs a quarantine, but no Admit. If another node was admitted earlier, a node that looks new may have lost its
// locks. Admit leaves it in quarantine, does not wait for the end of that, and returns a [*quorum.Error] that matches ErrQuarantine
// and names the node: call it again then.
func (i *Inspector) Admit(ctx context.Context) error { return access.Error(i.of.Init(ctx, false)) }

// ForceAdmit is Admit, and ends a quarantine: use it only if no holder can still rely on an earlier lease.
func (i *Inspector) ForceAdmit(ctx context.Context) error { return access.Error(i.of.Init(ctx, true)) }

func init() {
	access.Reach = func(ctx context.Context, inspector any, verb, pattern string) error {
		p, err := compile(verb, pattern)
		if err != nil {
			return err
		}
		_, err = inspector.(*Inspector).get(ctx, "any")
		return access.Error(voting.InTask(p.Task, err))
	}
	access.Absent = func(inspector any) (errs []error, isQuorum bool) {
		q, isQuorum := inspector.(*Inspector).of.(*voting.Inspector)
		if isQuorum {
			for _, err := range q.Absent() {
				errs = append(errs, access.Error(err))
			}
		}
		return errs, isQuorum
	}
}

func statusOf(s *lock.Status) holdfast.Status { return access.Status(s).(holdfast.Status) }

// compile reads a pattern. verb is what is to be done with the locks that match, for errors.
func compile(verb, pattern string) (inspector.Pattern, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return inspector.Pattern{}, fmt.Errorf("%w: pattern %.64q: %w", holdfast.ErrInvalid, pattern, err)
	}
	p := inspector.Pattern{Text: cmp.Or(pattern, "*"), Task: verb + " all locks", Begin: pattern, Matches: func(string) bool { return true }}
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		p.Begin = pattern[:i]
	}
	if pattern != "" {
		p.Task = fmt.Sprintf("%s locks that match %q", verb, pattern)
		p.Matches = func(name string) bool {
			matches, _ := path.Match(pattern, name)
			return matches
		}
	}
	return p, nil
}

// literal returns the name that alone matches a pattern, which has no wildcard then.
func literal(pattern string) (name string, is bool) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?', '[':
			return "", false
		case '\\':
			i++ // what follows stands for itself
		}
		b.WriteByte(pattern[i])
	}
	return b.String(), pattern != ""
}
