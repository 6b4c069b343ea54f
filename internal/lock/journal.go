package lock

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// Journal returns the record of what operators did to holders.
func (k *Keyspace) Journal() codec.Journal {
	if k.Server.InCluster() {
		return codec.Journal{Key: k.Space.Journal(), Channel: k.Space.Journal()}
	}
	return codec.Journal{Key: k.Space.Journal(), Channel: k.Space.JournalChannel()}
}

// about returns a request about a key that is no lock's, addressed like one about a lock.
func (k *Keyspace) about(op, key string) Request {
	return Request{Op: op, Lock: &Lock{Of: k, Keys: keys.Set{Lock: key, Queue: key + ":q"}, Set: &k.Defaults}, Unexplained: true}
}

// Record writes an entry of the journal. Errors name the operation op.
func (k *Keyspace) Record(ctx context.Context, op string, e codec.Entry) error {
	rq := k.about(op, k.Space.Journal())
	_, _, err := Ask(ctx, rq, codec.Note(rq.Lock.Flags(), k.Journal(), &e))
	return err
}

const (
	entriesPerReply = 100
	// maxEntries bounds how much of the journal is read. The journal keeps slightly more than 1,000 entries.
	maxEntries = 2000
)

// TaskBreaks is the task that errors name if the journal cannot be read.
const TaskBreaks = "list breaks"

// ReadJournal calls f with the entries of the journal, latest first, until f returns false. If entries are added meanwhile, f may see some
// entries twice.
func (k *Keyspace) ReadJournal(ctx context.Context, f func(codec.Entry) bool) error {
	if k.IsClosing() {
		return exec.ErrClosed
	}
	rq := k.about(TaskBreaks, k.Space.Journal())
	if err := k.Server.Connect(ctx, rq.Lock.Name()); err != nil {
		return exec.InTask(TaskBreaks, err)
	}
	q := codec.Notes{Flags: rq.Lock.Flags(), Journal: k.Journal(), Count: entriesPerReply}
	for q.Skip < maxEntries {
		a, _, err := Ask(ctx, rq, &q)
		if err != nil {
			return exec.InTask(TaskBreaks, err)
		}
		for _, e := range a.Reply.Entries {
			if !f(e) {
				return nil
			}
		}
		if a.Reply.Seen < q.Count {
			return nil
		}
		q.Skip += a.Reply.Seen
	}
	return nil
}
