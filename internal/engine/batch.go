package engine

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/gather"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// batches have acquires, releases and renewals of many locks go out together, in one call each
// (group commit): those of locks that are free, or ours and wanted by nobody else. A script sees
// with one look at all of them that there is nothing more to do. What it leaves goes by itself, to
// the scripts that can do everything.
type batches struct {
	one  serverGroups // of all, outside a Cluster
	done sync.Pool    // of errands to which nobody refers any more: the client's own, for tests in virtual time

	mu             sync.Mutex
	nodes          map[string]*serverGroups // of each server of a Cluster, by what the driver calls it
	contended      map[string]struct{}      // keys of locks for which others waited, or which they had, when last seen
	olderContended map[string]struct{}      // the same, of those that have not been asked for since contended was begun
}

// maxBatch bounds the locks of a batch, and so for how long it keeps the server from others: about
// a third of a millisecond.
const maxBatch = 128

// gathering is what goes to one server, as it gathers.
type serverGroups struct {
	takes      gather.Group[*batchItem]
	releases   gather.Group[*batchItem]
	renewals   gather.Group[*hold]
	renewers   exec.Limiter // of renewals that are not in a batch
	reclaimers reclaimers
}

// maxContended bounds how many contended locks are remembered.
const maxContended = 10_000

// maxServers bounds how many servers of a Cluster are remembered, of all that it ever had.
const maxServers = 1000

func (b *batches) init(c *Client) {
	b.contended, b.nodes = map[string]struct{}{}, map[string]*serverGroups{}
	b.one.init(c)
}

func (groups *serverGroups) init(c *Client) {
	groups.renewers = exec.Limiter{Tasks: &c.tasks, Most: maxRenewing}
	groups.reclaimers.init(c)
	const patience = 20 * time.Millisecond // many times what a server takes that is well
	groups.takes = gather.Group[*batchItem]{
		Send: c.sendAcquires, Drop: rejectItems, Go: c.tasks.Run, Most: c.cfg.Batch, Patience: patience, Width: c.server.Width,
	}
	groups.releases = gather.Group[*batchItem]{
		Send: c.sendReleases, Drop: rejectItems, Go: c.tasks.Run, Most: c.cfg.Batch, Patience: patience, Width: c.server.Width,
	}
	if c.cfg.Strict { // these are locks on a quorum's node, which is not waited for any longer
		groups.takes.Patience = min(patience, c.defaults.wait()/2)
	}
	groups.renewals = gather.Group[*hold]{
		// Nobody waits for a renewal, so they gather as if the server were near.
		Send: c.sendRenewals, Drop: putOff, Go: c.tasks.Run, Most: c.cfg.Batch, Patience: patience,
	}
}

// gathering returns where what is sent for a lock gathers with others: in a Cluster with those that go to
// the same server. If it is not known which, known is false, and the lock is alone.
func (c *Client) groupsFor(l *Lock) (groups *serverGroups, known bool) {
	b := &c.batches
	if !c.server.InCluster() {
		return &b.one, true
	}
	node := c.server.Node(l.keys.Lock)
	b.mu.Lock()
	defer b.mu.Unlock()
	groups = b.nodes[node]
	if groups == nil || node == "" {
		groups = &serverGroups{}
		groups.init(c)
		if len(b.nodes) >= maxServers {
			clear(b.nodes)
		}
		if node != "" {
			b.nodes[node] = groups
		}
	}
	return groups, node != ""
}

// isContended reports whether a batch would leave the lock, as far as is known.
func (b *batches) isContended(l *Lock) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := l.keys.Lock
	if _, is := b.contended[key]; is {
		return true
	}
	_, was := b.olderContended[key]
	if was {
		b.remember(key)
	}
	return was
}

// note remembers whether the lock is contended.
func (b *batches) note(l *Lock, contended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if contended {
		b.remember(l.keys.Lock)
		return
	}
	delete(b.contended, l.keys.Lock)
	delete(b.olderContended, l.keys.Lock)
}

// remember adds a key. Half of those that are remembered make room when there are too many: those for which nobody
// has asked for the longest time. Guarded by mu.
func (b *batches) remember(key string) {
	if len(b.contended) >= maxContended/2 {
		b.olderContended, b.contended = b.contended, map[string]struct{}{}
	}
	delete(b.olderContended, key)
	b.contended[key] = struct{}{}
}

// errand is what a goroutine wants done for one lock.
type batchItem struct {
	l        *Lock
	head     string // with which the lock's value begins
	notAfter int64  // server time, µs
	since    int64  // with fence, what stands in the lock's value, server time in ms; 0 if that is not known

	// tell is called once it is done, by who does others then: it does not block. Without it, done
	// has an item.
	tell func(*batchItem)

	// The outcome, once done has an item.
	done    chan struct{}
	sent    clock.Instant
	heard   clock.Instant
	now     int64 // server time, µs
	fence   uint64
	ok      bool
	refusal wire.Reply // of a quorum's node that grants nothing now; or its zero value
	err     error
}

func newBatchItem(l *Lock, head string) *batchItem {
	item, known := l.c.batches.done.Get().(*batchItem)
	if !known {
		item = &batchItem{done: make(chan struct{}, 1)}
	}
	item.l, item.head = l, head
	return item
}

// await waits until the errand is done, or ctx ends: it is not to be touched again then.
func (item *batchItem) await(ctx context.Context) error {
	select {
	case <-item.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end says that the errand is done.
func (item *batchItem) finish() {
	if item.tell != nil {
		item.tell(item)
		return
	}
	item.done <- struct{}{}
}

// drop tells errands that they go by themselves.
func rejectItems(all []*batchItem) {
	for _, item := range all {
		item.err = driver.ErrNotSent
		item.finish()
	}
}

// over makes the errand another's.
func (item *batchItem) recycle() {
	done := &item.l.c.batches.done
	*item = batchItem{done: item.done}
	done.Put(item)
}

// plain reports whether the lock is as scripts for batches know them: a string, which no other
// program has.
func (l *Lock) plain() bool {
	return l.set.kind.batch != nil && l.c.cfg.Batch > 0
}

// begin is ask of an attempt that is new, which takes the lock together with others if it
// looks free.
func (a *attempt) begin(ctx context.Context, mode string, fences int) (any, error) {
	c := a.l.c
	var began time.Time
	if fences == 1 && a.l.plain() && !c.cfg.Strict && !a.l.set.isDurable() && !c.batches.isContended(a.l) {
		began = time.Now()
		h, err := a.acquireInBatch(ctx)
		if h != nil {
			return h, nil
		}
		if err != nil {
			return nil, err
		}
	}
	got, err := a.askSince(began, ctx, mode, fences)
	var se *exec.Failure
	if a.unanswered != 0 && errors.As(err, &se) {
		se.Ambiguous = true
	}
	if _, granted := got.(*hold); granted && a.l.plain() {
		c.batches.note(a.l, false)
	}
	return got, err
}

// take asks for a lock that may be free, with others that are asked for at the same time. It
// returns neither grant nor error when the lock is to be asked for by itself.
func (a *attempt) acquireInBatch(ctx context.Context) (*hold, error) {
	c := a.l.c
	item := newBatchItem(a.l, a.head)
	began, notAfter := time.Now(), c.notAfter(a.l)
	item.notAfter = notAfter
	groups, _ := c.groupsFor(a.l)
	if ctx.Done() == nil {
		groups.takes.Do(item)
	} else {
		groups.takes.Add(item)
	}
	if err := item.await(ctx); err != nil {
		// mutants: batch-unanswered
		a.sent(true, notAfter)
		return nil, c.server.Unheard(ctx, "acquire", a.l.name, began)
	}
	defer item.recycle()
	if item.err != nil {
		// mutants: batch-failed
		a.sent(exec.MayBeDone(item.err), notAfter)
		return nil, nil
	}
	if !item.ok {
		c.batches.note(a.l, true)
		return nil, nil
	}
	a.owed = true
	a.recordLead(item.fence, item.now)
	return a.granted(item.sent, item.heard, item.now, -1, item.fence, 1)
}

// takeAll sends acquires.
func (c *Client) sendAcquires(all []*batchItem) bool {
	return exec.SendAll(c.server, all, c.acquireBatch, deliver)
}

// taking is the batch that takes those locks.
func (c *Client) acquireBatch(all []*batchItem) exec.Batch {
	n, l := len(all), all[0].l
	words := make([]string, 3*n+7)
	keys, args := words[:2*n:2*n+3], append(words[2*n+3:2*n+3], l.flags(""), "")
	notAfter, same, patience := all[0].notAfter, true, time.Duration(0)
	for i, item := range all {
		keys[i], keys[n+i] = item.l.keys.Lock, item.l.keys.Queue
		args = append(args, item.head)
		notAfter, patience = min(notAfter, item.notAfter), max(patience, item.l.set.wait())
		same = same && item.l.set.term() == l.set.term() && item.l.set.info == l.set.info
	}
	args[1] = strconv.FormatInt(notAfter, 10)
	form := l.set.kind.batch // all of a client have the same: mutexes in Strict mode go by themselves
	keys = append(keys, form.keys(l)...)
	differing := all
	if same {
		differing = all[:1]
	}
	for _, item := range differing {
		args = append(args, milliseconds(item.l.set.term()))
	}
	for _, item := range differing {
		args = append(args, item.l.set.info)
	}
	return exec.Batch{
		N: n, Slot: c.slot(l), Script: form.script, Keys: keys, Args: args,
		Word: "taken", Numbers: 1, Refusals: form.refusals, Patience: patience,
	}
}

// giveBack gives up a lock that was granted with that fence, as Client.release does, whether ctx has ended or not.
func (a *attempt) giveBack(ctx context.Context, fence uint64, tombstone int64) (got exec.Answer, unanswered bool, err error) {
	c := a.l.c
	began := time.Now()
	if tombstone == 0 && a.freeable() {
		var done bool
		if done, unanswered = a.free(fence); done {
			return exec.Answer{Reply: wire.Reply{Word: "released"}}, false, nil
		}
	}
	got, again, err := c.releaseSince(began, context.WithoutCancel(ctx), a.l, a.token(), a.member, tombstone, a.ending)
	return got, unanswered || again, err
}

// freeable reports whether a batch can give up the lock, as far as is known.
func (a *attempt) freeable() bool { return a.l.plain() && !a.l.c.batches.isContended(a.l) }

// free gives up the lock if nobody waits for it, together with others that are given up at the same
// time. If it is not done it is to be given up by itself; unanswered says that it may be done.
func (a *attempt) free(fence uint64) (done, unanswered bool) {
	item := newBatchItem(a.l, a.head)
	item.fence, item.since = fence, a.valueTime(fence)
	groups, _ := a.l.c.groupsFor(a.l)
	groups.releases.Do(item)
	<-item.done
	return item.freed()
}

// freeThen is free that returns at once, and tells when it would have returned; who is told does not
// block.
func (a *attempt) freeThen(fence uint64, tell func(done, unanswered bool)) {
	item := newBatchItem(a.l, a.head)
	item.fence, item.since = fence, a.valueTime(fence)
	item.tell = func(item *batchItem) { tell(item.freed()) }
	groups, _ := a.l.c.groupsFor(a.l)
	groups.releases.Add(item)
}

// freed is what became of an errand of free.
func (item *batchItem) freed() (done, unanswered bool) {
	defer item.recycle()
	if item.err != nil {
		return false, exec.MayBeDone(item.err)
	}
	if !item.ok {
		item.l.c.batches.note(item.l, true)
	}
	return item.ok, false
}

// freeAll sends releases.
func (c *Client) sendReleases(all []*batchItem) bool {
	return exec.SendAll(c.server, all, c.releaseBatch, deliver)
}

// freeing is the batch that gives those locks up.
func (c *Client) releaseBatch(all []*batchItem) exec.Batch {
	n := len(all)
	words := make([]string, 2*n)
	keys, args := words[:n:n], words[n:]
	for i, item := range all {
		keys[i], args[i] = item.l.keys.Lock, item.head
	}
	b := exec.Batch{N: n, Slot: c.slot(all[0].l), Script: script.BatchRelease, Keys: keys, Args: args, Urgent: true, Word: "freed", Timeless: true}
	// mutants: native-release
	if n == 1 && c.server.HasDeleteIfEqual() {
		b.Value = all[0].value()
	}
	return b
}

// tell tells errands what became of the batch that they are.
func deliver(all []*batchItem, r exec.Outcomes) {
	for i, item := range all {
		item.sent, item.heard, item.now, item.err, item.refusal, item.ok = r.Sent, r.Heard, r.Now, r.Err, r.Refusal, r.Done(i)
		// mutants: fence-of-item
		item.fence = uint64(r.Number) + uint64(i)
		item.finish()
	}
}

// value is that of the lock that the errand gives up, if nobody waits for it; "" if it is not known.
func (item *batchItem) value() string {
	if item.since == 0 {
		return ""
	}
	text := make([]byte, 0, len(item.head)+40+len(item.l.set.info))
	text = append(text, item.head...)
	text = strconv.AppendUint(text, item.fence, 10)
	text = append(text, ':')
	text = strconv.AppendInt(text, item.since, 10)
	text = append(text, ":0:"...)
	return string(append(text, item.l.set.info...))
}
