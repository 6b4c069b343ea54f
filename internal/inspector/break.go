package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Broken records that a lock was broken, or that a holder was asked to let go.
type Broken struct {
	ID      string // of the request; in a quorum, of the request to all nodes
	Name    string
	Holder  lock.Holder // that had the lock; for a revocation only its grant id and fence
	By      string
	Reason  string
	Time    time.Time // by the server's clock
	Fence   uint64    // the lock's after the break; 0 for a revocation
	Revoked bool      // the holder was asked to let go
}

// ErrChanged says that the lock is held, but not by the grant that was to be broken or revoked.
var ErrChanged = errors.New("holdfast: another holder has the lock")

// Break takes the lock from the holder with that grant id, and hands it to the next waiter. It does nothing unless that grant still holds
// the lock. On a node of a quorum, whole identifies the request to all nodes; otherwise it is "".
func (in *Inspector) Break(ctx context.Context, name, grant, reason, whole string) (Broken, error) {
	note, err := in.remark(name, grant, reason, whole)
	if err != nil {
		return Broken{}, err
	}
	l, _, err := in.held(ctx, name, grant, whole == "")
	if err != nil {
		return Broken{}, err
	}
	k := in.of
	q := codec.Break{Lock: l.Ref(), Journal: k.Journal(), Kind: l.Set.Kind.Form, Grant: grant, Note: note}
	reply, err := lock.Change(ctx, lock.Request{Op: "break", Lock: l}, func(id string, notAfter int64) codec.Request[codec.Reply] {
		q.ID, q.NotAfter = id, notAfter
		return &q
	})
	switch {
	case err != nil:
		return Broken{}, err
	case reply.Word == codec.Free:
		return Broken{}, notHeld(name)
	case reply.Word == codec.Changed:
		return Broken{}, changed(l.HolderOf(reply.Holder), grant)
	}
	broken := Broken{
		ID: cmp.Or(whole, q.ID), Name: l.Name(), Holder: l.HolderOf(reply.Holder), By: in.by, Reason: reason, Time: time.UnixMicro(reply.Now), Fence: reply.Fence,
	}
	if !k.Server.InCluster() {
		return broken, nil
	}
	err = k.Record(context.WithoutCancel(ctx), "break", codec.Entry{
		What: codec.WasBroken, ID: q.ID, Grant: grant, Fence: broken.Holder.Fence, Raised: reply.Fence, Kind: q.Kind, Key: l.Keys.Lock, Note: note, Holder: reply.Text,
	})
	if err != nil {
		err = fmt.Errorf("holdfast: lock %q was broken, but that could not be recorded, and its holder will learn of it only when it renews: %w", l.Name(), err)
	}
	return broken, err
}

// Revoke asks the holder with that grant id to let go of the lock. whole is as in Break.
func (in *Inspector) Revoke(ctx context.Context, name, grant, reason, whole string) error {
	note, err := in.remark(name, grant, reason, whole)
	if err != nil {
		return err
	}
	l, fence, err := in.held(ctx, name, grant, whole == "")
	if err != nil {
		return err
	}
	return in.of.Record(ctx, "revoke", codec.Entry{
		What: codec.WasRevoked, ID: lock.RandomText(), Grant: grant, Fence: fence, Kind: l.Set.Kind.Form, Key: l.Keys.Lock, Note: note,
	})
}

// History calls yield with each break and revocation on record, latest first, until yield returns false. An error comes last.
func (in *Inspector) History(ctx context.Context, yield func(Broken, error) bool) {
	known := map[string]bool{}
	err := in.of.ReadJournal(ctx, func(e codec.Entry) bool {
		if e.What != codec.WasBroken && e.What != codec.WasRevoked || known[e.ID] {
			return true
		}
		known[e.ID] = true
		name, _ := in.of.Space.NameOf(e.Key)
		l := in.target(Found{name, in.of.Space.Of(e.Key)}, e.Kind)
		said := wire.ParseRemark(e.Note)
		b := Broken{
			ID: cmp.Or(said.Whole, e.ID), Name: name, Holder: lock.Holder{Name: name, Form: e.Kind, Grant: e.Grant, Fence: e.Fence}, By: said.By, Reason: said.Reason,
			Time: time.UnixMicro(e.Time), Fence: e.Raised, Revoked: e.What == codec.WasRevoked,
		}
		if !b.Revoked {
			b.Holder = l.HolderOf(&e.Hold)
		}
		return yield(b, nil)
	})
	if err != nil {
		yield(Broken{}, err)
	}
}

// remark checks the grant id, and encodes who acts and why.
func (in *Inspector) remark(name, grant, reason, whole string) (string, error) {
	if !wire.IsGrant(grant) {
		return "", fmt.Errorf("%w: lock %.64q: want the holder's grant id, 8 characters, not %.64q", lock.ErrInvalid, name, grant)
	}
	note, err := wire.Remark{By: in.by, Reason: reason, Whole: whole}.Encode()
	if err != nil {
		return "", fmt.Errorf("%w: lock %.64q: %w", lock.ErrInvalid, name, err)
	}
	return note, nil
}

// held returns the lock of that name, whatever its kind, and the fence of the holder with that grant id, or 0 if the fence is not known. If
// orKey is set and no lock has that name, held returns the lock with that exact key.
func (in *Inspector) held(ctx context.Context, name, grant string, orKey bool) (l *lock.Lock, fence uint64, err error) {
	var s lock.Status
	in.Lookup(ctx, name, func(found lock.Status, failed error) bool {
		s, err = found, failed
		return err == nil && orKey && s.Form == ""
	})
	if err != nil {
		return nil, 0, err
	}
	i := slices.IndexFunc(s.Holders, func(h lock.Holder) bool { return h.Grant == grant })
	switch {
	case len(s.Holders) == 0:
		return nil, 0, notHeld(name)
	case i < 0:
		return nil, 0, changed(s.Holders[0], grant)
	}
	return in.target(Found{s.Name, in.of.Space.Of(s.Key)}, s.Form), s.Holders[i].Fence, nil
}

func notHeld(name string) error { return fmt.Errorf("%w: nobody holds %.64q", lock.ErrNotHeld, name) }

// changed returns the error of a request about a grant if h holds the lock by another one.
func changed(h lock.Holder, grant string) error {
	if h.Foreign {
		return fmt.Errorf("%w: another program holds %q, without a grant id", ErrChanged, h.Name)
	}
	return fmt.Errorf("%w: %s holds %q by grant %s, not %s", ErrChanged, printable.Word(h.Owner, lock.MaxShownWord), h.Name, h.Grant, grant)
}
