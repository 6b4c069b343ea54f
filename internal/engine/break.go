package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Broken is the record of a lock that was broken, or of a holder that was asked to let go.
type Broken struct {
	ID      string // of the request; of a quorum, of the request to all nodes
	Name    string
	Holder  Holder // who had it, or one of several; of a revocation, only the fence
	By      string
	Reason  string
	Time    time.Time // by the server's clock
	Fence   uint64    // the lock's, since then; 0 of a revocation
	Revoked bool      // the holder was asked to let go
}

// ErrChanged says that the lock's holder has another fence than the one that was to be broken or asked.
var ErrChanged = errors.New("holdfast: the lock's fence is another")

// Break takes the lock from the holder with that fence, from all of them if there are several, and hands it to the next
// waiter. Nothing is done unless somebody holds the lock with that fence.
func (in *Inspector) Break(ctx context.Context, name string, fence uint64, reason string) (Broken, error) {
	return in.BreakPart(ctx, name, fence, reason, "")
}

// BreakPart is Break on one node of a quorum. whole identifies the request to all nodes.
func (in *Inspector) BreakPart(ctx context.Context, name string, fence uint64, reason, whole string) (Broken, error) {
	note, err := in.remark(name, fence, reason, whole)
	if err != nil {
		return Broken{}, err
	}
	l, err := in.held(ctx, name, fence)
	if err != nil {
		return Broken{}, err
	}
	c := in.c
	q := codec.Break{Lock: l.ref(), Journal: c.journal(), Kind: l.set.kind.form, Fence: fence, Note: note}
	reply, err := askOf(ctx, request{op: "break", lock: l}, func(id string, notAfter int64) codec.Request[codec.BreakReply] {
		q.ID, q.NotAfter = id, notAfter
		return &q
	})
	switch {
	case err != nil:
		return Broken{}, err
	case reply.Word == codec.Free:
		return Broken{}, notHeld(name)
	case reply.Word == codec.Changed:
		return Broken{}, changed(l.holderOf(&reply.Holder), fence)
	}
	broken := Broken{
		ID: cmp.Or(whole, q.ID), Name: l.name(), Holder: l.sharer(&reply.Hold), By: in.by, Reason: reason, Time: time.UnixMicro(reply.Now), Fence: reply.Raised,
	}
	if !c.server.InCluster() {
		return broken, nil
	}
	err = c.record(context.WithoutCancel(ctx), "break", codec.Entry{
		What: codec.WasBroken, ID: q.ID, Fence: fence, Raised: reply.Raised, Kind: q.Kind, Key: l.keys.Lock, Note: note, Holder: reply.Text,
	})
	if err != nil {
		err = fmt.Errorf("holdfast: lock %q was broken, but that could not be recorded, and its holder will learn of it only when it renews: %w", l.name(), err)
	}
	return broken, err
}

// Revoke asks the holder with that fence to let go.
func (in *Inspector) Revoke(ctx context.Context, name string, fence uint64, reason string) error {
	return in.RevokePart(ctx, name, fence, reason, "")
}

// RevokePart is Revoke on one node of a quorum. whole identifies the request to all nodes.
func (in *Inspector) RevokePart(ctx context.Context, name string, fence uint64, reason, whole string) error {
	note, err := in.remark(name, fence, reason, whole)
	if err != nil {
		return err
	}
	l, err := in.held(ctx, name, fence)
	if err != nil {
		return err
	}
	return in.c.record(ctx, "revoke", codec.Entry{
		What: codec.WasRevoked, ID: randomText(), Fence: fence, Kind: l.set.kind.form, Key: l.keys.Lock, Note: note,
	})
}

// History calls yield with each break and revocation on record, the latest first, until yield returns false. An error is the last.
func (in *Inspector) History(ctx context.Context, yield func(Broken, error) bool) {
	known := map[string]bool{}
	err := in.c.readJournal(ctx, func(e codec.Entry) bool {
		if e.What != codec.WasBroken && e.What != codec.WasRevoked || known[e.ID] {
			return true
		}
		known[e.ID] = true
		name, _ := in.c.space.NameOf(e.Key)
		l := in.target(Found{name, in.c.space.Of(e.Key)}, e.Kind)
		said := wire.ParseRemark(e.Note)
		b := Broken{
			ID: cmp.Or(said.Whole, e.ID), Name: name, Holder: Holder{Name: name, Form: e.Kind, Fence: e.Fence}, By: said.By, Reason: said.Reason,
			Time: time.UnixMicro(e.Time), Fence: e.Raised, Revoked: e.What == codec.WasRevoked,
		}
		if !b.Revoked {
			b.Holder = l.sharer(&e.Hold)
		}
		return yield(b, nil)
	})
	if err != nil {
		yield(Broken{}, err)
	}
}

// remark encodes what the operator says.
func (in *Inspector) remark(name string, fence uint64, reason, whole string) (string, error) {
	if fence == 0 {
		return "", fmt.Errorf("%w: lock %.64q: the fence is 0, which no holder has", ErrInvalid, name)
	}
	note, err := wire.Remark{By: in.by, Reason: reason, Whole: whole}.Encode()
	if err != nil {
		return "", fmt.Errorf("%w: lock %.64q: %w", ErrInvalid, name, err)
	}
	return note, nil
}

// held returns the lock of that name, whatever its kind, if somebody holds it with that fence.
func (in *Inspector) held(ctx context.Context, name string, fence uint64) (*target, error) {
	s, err := in.Get(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case len(s.Holders) == 0:
		return nil, notHeld(name)
	case !slices.ContainsFunc(s.Holders, func(h Holder) bool { return h.Fence == fence }):
		return nil, changed(s.Holders[0], fence)
	}
	return in.target(Found{s.Name, in.c.space.Of(s.Key)}, s.Form), nil
}

func notHeld(name string) error { return fmt.Errorf("%w: nobody holds %.64q", ErrNotHeld, name) }

// changed returns the error of a request that names a fence when h, with another fence, holds the lock.
func changed(h Holder, fence uint64) error {
	if h.Foreign {
		return fmt.Errorf("%w: another program holds %q, without a fence", ErrChanged, h.Name)
	}
	return fmt.Errorf("%w: %s holds %q with fence %d, not %d", ErrChanged, printable.Word(h.Owner, maxShownWord), h.Name, h.Fence, fence)
}

// journal returns the record of what operators did to holders.
func (c *Client) journal() codec.Journal {
	if c.server.InCluster() {
		return codec.Journal{Key: c.space.Journal(), Channel: c.space.Journal()}
	}
	return codec.Journal{Key: c.space.Journal(), Channel: c.space.JournalChannel()}
}

// aboutJournal returns a request about the journal. It is addressed as one about a lock is.
func (c *Client) aboutJournal(op string) request {
	key := c.space.Journal()
	return request{op: op, lock: &target{c: c, keys: keys.Set{Lock: key, Queue: key + ":q"}, set: &c.defaults}, unexplained: true}
}

// record writes an entry of the journal. op is the operation that errors name.
func (c *Client) record(ctx context.Context, op string, e codec.Entry) error {
	rq := c.aboutJournal(op)
	_, _, err := ask(ctx, c, rq, &codec.Note{Flags: rq.lock.flags(), Journal: c.journal(), Entry: e})
	return err
}

const (
	entriesPerReply = 100
	// maxEntries bounds what is read of the journal, which keeps some more than 1,000 entries.
	maxEntries = 2000
)

// TaskBreaks is what errors call reading the journal.
const TaskBreaks = "list breaks"

// readJournal calls f with the entries of the journal, the latest first, until f returns false. If entries are added meanwhile, f
// may see some of the others twice.
func (c *Client) readJournal(ctx context.Context, f func(codec.Entry) bool) error {
	if c.isClosing() {
		return exec.ErrClosed
	}
	rq := c.aboutJournal(TaskBreaks)
	if err := c.server.Connect(ctx, rq.lock.name()); err != nil {
		return exec.InTask(TaskBreaks, err)
	}
	q := codec.Notes{Flags: rq.lock.flags(), Journal: c.journal(), Count: entriesPerReply}
	for q.Skip < maxEntries {
		a, _, err := ask(ctx, c, rq, &q)
		if err != nil {
			return exec.InTask(TaskBreaks, err)
		}
		for _, e := range a.reply.Entries {
			if !f(e) {
				return nil
			}
		}
		if a.reply.Seen < q.Count {
			return nil
		}
		q.Skip += a.reply.Seen
	}
	return nil
}
