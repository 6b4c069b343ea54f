package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/tty"
)

// patience is how long a wait on a terminal lasts before it says for whom.
const patience = time.Second

// obtain gets the lock for its full time, or returns how to exit without it. A lock
// that was handed over has a short time at first, perhaps too short to end a command
// in.
func (r *runner) obtain(ctx context.Context) (*holdfast.Lease, *exitError) {
	defer func() { r.report.Waited = time.Since(r.begun).Milliseconds() }()
	for {
		lease, exit := r.acquire(ctx)
		if exit != nil || time.Until(lease.Deadline()) >= r.ttl/2 {
			return lease, exit
		}
		err := lease.Extend(ctx, r.ttl)
		if err == nil {
			return lease, nil
		}
		r.release(lease)
		if !errors.Is(err, holdfast.ErrLost) {
			return nil, r.failure(err)
		}
		r.voice.tell("%v, before the command could begin; trying again", err)
	}
}

// acquire gets the lock, or returns how to exit without it.
func (r *runner) acquire(ctx context.Context) (*holdfast.Lease, *exitError) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		lease *holdfast.Lease
		err   error
	}
	got := make(chan result, 1)
	go func() {
		lease, err := r.take(ctx)
		got <- result{lease, err}
	}()
	tell := time.NewTimer(patience)
	defer tell.Stop()
	var interrupt os.Signal
	for {
		select {
		case g := <-got:
			if interrupt == nil {
				return g.lease, r.refusal(ctx, g.err)
			}
			if g.lease != nil {
				r.release(g.lease)
			}
			r.report.Outcome = outcomeInterrupted
			return nil, &exitError{exitSignal + number(interrupt), fmt.Errorf("%s while %s", interrupt, r.wish())}
		case sig := <-r.signals:
			switch {
			case suspends(sig):
				stopGroup()
			case interrupts(sig) && interrupt == nil:
				interrupt = sig
				cancel()
			}
		case <-tell.C:
			if f, ok := r.stderr.(*os.File); r.verbose || ok && tty.Is(f) {
				go r.tellWhy(ctx)
			}
		}
	}
}

// wish is what an interrupt ends.
func (r *runner) wish() string {
	if r.office != nil {
		return fmt.Sprintf("campaigning for %q; no command runs", r.name)
	}
	return fmt.Sprintf("waiting for %s; the command was not run", r.title())
}

// title names what is waited for.
func (r *runner) title() string {
	if len(r.also) == 0 {
		return fmt.Sprintf("lock %q", r.name)
	}
	text := fmt.Sprintf("locks %q", r.name)
	for _, name := range r.also {
		text += fmt.Sprintf(", %q", name)
	}
	return text
}

// tellWhy says for whom it waits.
func (r *runner) tellWhy(ctx context.Context) {
	if r.office != nil {
		r.tellLeaders(ctx)
		return
	}
	status, err := r.lock().Status(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.voice.note("waiting for %s: %v", r.title(), err)
	case !status.Held():
		r.voice.note("waiting for %s, which is being handed on", r.title())
	case r.quorum:
		r.voice.note("waiting for %s, held by %s", r.title(), r.describe(status.Holders))
	default:
		r.voice.note("waiting for %s, held by %s; %d waiting", r.title(), r.describe(status.Holders), len(status.Waiters))
	}
}

// refusal says how to exit after an acquire that failed; nil, if it did not.
func (r *runner) refusal(ctx context.Context, err error) *exitError {
	r.silent = errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrQuarantine) && !errors.Is(err, holdfast.ErrReplicas)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // for another question
	defer cancel()
	var held *holdfast.HeldError
	switch exit := r.notBegun(err); {
	case err == nil:
		return nil
	case exit != nil:
		return exit
	case !errors.As(err, &held):
		return r.failure(err)
	}
	holders, waiting := r.holders(ctx, held)
	if r.wait > 0 {
		return r.busy(holders, waiting, fmt.Sprintf("after --wait %s, %s on %s", r.wait, r.title(), r.report.Server))
	}
	return r.busy(holders, waiting, fmt.Sprintf("lock %q on %s%s", held.Name, r.report.Server, r.queue(waiting)))
}

// holders are all who hold a lock that was refused, and how many wait for it. The refusal has named one of them, if the
// lock was held.
func (r *runner) holders(ctx context.Context, refused *holdfast.HeldError) (all []holdfast.Holder, waiting int) {
	lock := r.lock()
	if len(r.also) > 0 {
		lock = r.locks.clients[0].Mutex(refused.Name)
	}
	status, err := lock.Status(ctx)
	unnamed := refused.Holder.Owner == "" && !refused.Holder.Foreign
	if err == nil && (r.isShared() || unnamed) {
		return status.Holders, len(status.Waiters)
	}
	if unnamed {
		return nil, 0
	}
	return []holdfast.Holder{refused.Holder}, len(status.Waiters)
}

// queue tells of those who wait for a lock that several may hold: they may be why it was
// not to be had.
func (r *runner) queue(waiting int) string {
	if !r.isShared() || waiting == 0 {
		return ""
	}
	return fmt.Sprintf(", with %d waiting,", waiting)
}

// busy says how to exit when others have the lock.
func (r *runner) busy(holders []holdfast.Holder, waiting int, what string) *exitError {
	if len(holders) > 0 {
		r.report.Holder = newOccupant(longest(holders), waiting)
	}
	if r.ifBusy == "skip" {
		r.report.Outcome = outcomeSkipped
		r.voice.tell("%s is held by %s; skipped", what, r.describe(holders))
		return &exitError{0, nil}
	}
	r.report.Outcome = outcomeBusy
	if r.quiet {
		return &exitError{r.conflictCode, nil}
	}
	return &exitError{r.conflictCode, fmt.Errorf("%s is held by %s; the command was not run", what, r.describe(holders))}
}

// maxShown bounds each of the texts, in bytes, that a holder has written about itself.
const maxShown = 512

// longest returns the one who has held the lock longest.
func longest(holders []holdfast.Holder) holdfast.Holder {
	return slices.MinFunc(holders, func(a, b holdfast.Holder) int { return a.Since.Compare(b.Since) })
}

// describe says who holds the lock.
func (r *runner) describe(holders []holdfast.Holder) string {
	if len(holders) == 0 {
		return "one who is giving it to the next in line"
	}
	text := r.describeOne(longest(holders))
	switch others := len(holders) - 1; others {
	case 0:
	case 1:
		text += " and 1 other"
	default:
		text += fmt.Sprintf(" and %d others", others)
	}
	return text
}

// describeOne says who a holder is.
func (r *runner) describeOne(h holdfast.Holder) string {
	if h.Foreign {
		key := h.Name // of a lock that other programs know by its key
		if h.Name != r.key && h.Name != r.redisson {
			key = r.keyOf(h.Name)
		}
		return fmt.Sprintf("another program (key %s)", printable.Line(key, maxShown))
	}
	text := "somebody"
	if h.Owner != "" {
		text = printable.Word(h.Owner, maxShown)
	}
	var about []string
	switch {
	case h.Mode == holdfast.ModeReader:
		about = append(about, "shared")
	case h.Mode == holdfast.ModeWriter:
		about = append(about, "exclusive")
	}
	switch {
	case h.PID != 0 && h.Host != "":
		about = append(about, fmt.Sprintf("pid %d on %s", h.PID, printable.Word(h.Host, maxShown)))
	case h.PID != 0:
		about = append(about, fmt.Sprintf("pid %d", h.PID))
	case h.Host != "":
		about = append(about, "on "+printable.Word(h.Host, maxShown))
	}
	if !h.Since.IsZero() {
		about = append(about, "since "+h.Since.Local().Format(time.DateTime))
	}
	for k, v := range h.Meta {
		about = append(about, printable.Word(k, maxShown)+"="+printable.Word(v, maxShown))
	}
	if len(about) > 0 {
		slices.Sort(about[len(about)-len(h.Meta):])
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}
