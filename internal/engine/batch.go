package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/gather"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// batches gather acquires, releases and renewals of many locks, which then go out together, in one
// call each (group commit). A batch serves locks that are free, or held by us and wanted by nobody
// else: its script sees at one glance that nothing more is to be done. Items that a batch leaves
// undone are sent by themselves, to the scripts that handle every case.
type batches struct {
	one  serverGroups // of the only server, outside Cluster mode
	pool sync.Pool    // of batch items; each client has its own, since items must not leave a test's virtual time

	mu             sync.Mutex
	nodes          map[string]*serverGroups // of the servers of a Cluster, by the driver's names for them
	contended      map[string]struct{}      // keys of locks that others held or were waiting for when last seen
	olderContended map[string]struct{}      // older such keys, not looked up since contended was begun
}

// maxBatch bounds the locks in a batch, and with that how long a batch keeps the server from other
// work: about a third of a millisecond.
const maxBatch = 128

// serverGroups gather what goes to one server.
type serverGroups struct {
	takes      gather.Group[*batchItem]
	releases   gather.Group[*batchItem]
	renewals   gather.Group[*hold]
	renewers   exec.Limiter // of renewals outside batches
	reclaimers reclaimers
	apartUntil atomic.Int64 // time (clock.Reading) before which no batch has locks in several slots
}

// maxContended bounds how many contended locks are remembered.
const maxContended = 10_000

// maxServers bounds how many servers of a Cluster are remembered, among them those that have left
// it.
const maxServers = 1000

func (b *batches) init(c *Client) {
	b.contended, b.nodes = map[string]struct{}{}, map[string]*serverGroups{}
	b.one.init(c)
}

func (groups *serverGroups) init(c *Client) {
	groups.renewers = exec.Limiter{Tasks: &c.tasks, Most: maxRenewing}
	groups.reclaimers.init(c)
	const hungAfter = 20 * time.Millisecond // since then a batch may hang: many times what a healthy server takes
	groups.takes = gather.Group[*batchItem]{
		Send:   func(items []*batchItem) bool { return c.sendAcquires(groups, items) },
		Prompt: func(item *batchItem) (answered, sent bool) { return c.acquirePromptly(groups, item) },
		Drop:   rejectItems, Go: c.tasks.Run, Most: c.cfg.Batch, Patience: hungAfter, Width: c.server.Width,
	}
	groups.releases = gather.Group[*batchItem]{
		Send:   func(items []*batchItem) bool { return c.sendReleases(groups, items) },
		Prompt: func(item *batchItem) (answered, sent bool) { return c.releasePromptly(groups, item) },
		Drop:   rejectItems, Go: c.tasks.Run, Most: c.cfg.Batch, Patience: hungAfter, Width: c.server.Width,
	}
	if c.cfg.Strict { // the locks are a quorum's, which waits for its nodes no longer than this
		groups.takes.Patience = min(hungAfter, c.defaults.wait()/2)
	}
	groups.renewals = gather.Group[*hold]{
		// Nobody waits for a renewal, so they gather as for a nearby server.
		Send: func(holds []*hold) bool { return c.sendRenewals(groups, holds) },
		Drop: putOff, Go: c.tasks.Run, Most: c.cfg.Batch, Patience: hungAfter,
	}
}

// groupsFor returns the groups that a request for l joins: in Cluster mode, those of the server
// that has l. If it is not known which server that is, known is false, and groups serve l alone.
func (c *Client) groupsFor(l *target) (groups *serverGroups, known bool) {
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

// isContended reports whether a batch would leave the lock undone, as far as is known.
func (b *batches) isContended(l *target) bool {
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
func (b *batches) note(l *target, contended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if contended {
		b.remember(l.keys.Lock)
		return
	}
	delete(b.contended, l.keys.Lock)
	delete(b.olderContended, l.keys.Lock)
}

// remember adds a key to contended. If there are too many, it first forgets about half of all keys:
// those that have not been looked up for longest. The caller holds b.mu.
func (b *batches) remember(key string) {
	if len(b.contended) >= maxContended/2 {
		b.olderContended, b.contended = b.contended, map[string]struct{}{}
	}
	delete(b.olderContended, key)
	b.contended[key] = struct{}{}
}

// batchItem is a request for one lock that can be part of a batch.
type batchItem struct {
	l        *target
	ctx      context.Context // of an acquire's caller
	head     wire.Head       // how the lock's value begins
	notAfter int64           // server time, µs
	since    int64           // for releases, like fence: time in the lock's value, ms of server time; 0 if not known

	// tell is called when the item is done, and must not block: its caller has other items to
	// finish. If tell is nil, done receives a value.
	tell func(*batchItem)

	// The outcome, set before tell is called or done receives a value.
	done    chan struct{}
	sent    clock.Instant
	heard   clock.Instant
	now     int64 // server time, µs
	fence   uint64
	ok      bool // the batch did it
	refused bool // by a quorum's node that grants nothing now
	refusal codec.Refusal
	err     error
}

// newBatchItem returns an item for l, from the client's pool if possible.
func newBatchItem(l *target, head wire.Head) *batchItem {
	item, known := l.c.batches.pool.Get().(*batchItem)
	if !known {
		item = &batchItem{done: make(chan struct{}, 1)}
	}
	item.l, item.head = l, head
	return item
}

// await waits until the item is done or ctx ends. If ctx ends, the caller must not touch the item
// again.
func (item *batchItem) await(ctx context.Context) error {
	select {
	case <-item.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish marks the item as done.
func (item *batchItem) finish() {
	if item.tell != nil {
		item.tell(item)
		return
	}
	item.done <- struct{}{}
}

// rejectItems finishes items that no batch will send: each is to be sent by itself.
func rejectItems(items []*batchItem) {
	for _, item := range items {
		item.err = driver.ErrNotSent
		item.finish()
	}
}

// recycle returns the item to the pool. The caller must not touch it again.
func (item *batchItem) recycle() {
	pool := &item.l.c.batches.pool
	*item = batchItem{done: item.done}
	pool.Put(item)
}

// plain reports whether scripts for batches can handle the lock: it is a string, and no other
// program uses it.
func (l *target) plain() bool {
	return l.set.kind.batch != nil && l.c.cfg.Batch > 0
}

// start is ask for a new attempt. If the lock looks free, start asks for it in a batch first.
func (a *attempt) start(ctx context.Context, mode codec.Mode, fences int) (grantOrReply, error) {
	c := a.l.c
	var began time.Time
	if fences == 1 && a.l.plain() && !c.cfg.Strict && !a.l.set.isDurable() && !c.batches.isContended(a.l) {
		began = time.Now()
		h, err := a.acquireInBatch(ctx)
		if h != nil || err != nil {
			return grantOrReply{hold: h}, err
		}
	}
	got, err := a.askSince(began, ctx, mode, fences)
	var se *exec.Failure
	if a.unanswered != 0 && errors.As(err, &se) {
		se.Ambiguous = true
	}
	if got.hold != nil && a.l.plain() {
		c.batches.note(a.l, false)
	}
	return got, err
}

// acquireInBatch asks for a lock that may be free, together with others. It returns neither a hold
// nor an error if the lock is to be asked for by itself.
func (a *attempt) acquireInBatch(ctx context.Context) (*hold, error) {
	c := a.l.c
	item := newBatchItem(a.l, a.head)
	began, notAfter := time.Now(), c.notAfter(a.l)
	item.notAfter = notAfter
	groups, _ := c.groupsFor(a.l)
	item.ctx = ctx
	switch {
	case c.server.IsPrompt() && groups.takes.DoPromptly(item):
	case ctx.Done() == nil:
		groups.takes.Do(item)
	default:
		groups.takes.Add(item)
	}
	if err := item.await(ctx); err != nil {
		// mutants: batch-unanswered
		a.sent(true, notAfter)
		return nil, c.server.Unheard(ctx, "acquire", a.l.name(), began)
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

// sendAcquires sends a batch of acquires and reports whether the server answered.
func (c *Client) sendAcquires(groups *serverGroups, items []*batchItem) bool {
	apart := c.server.InCluster() && (items[0].l.set.kind.isVote || groups.goApart())
	return exec.SendAll(c.server, items, apart, c.acquireBatch, groups.deliver)
}

// acquirePromptly sends an acquire in its caller's goroutine, until the caller's context ends.
func (c *Client) acquirePromptly(groups *serverGroups, item *batchItem) (answered, sent bool) {
	items := []*batchItem{item}
	return exec.SendPromptly(item.ctx, c.server, c.acquireBatch(items), func(o exec.Outcome[codec.BatchReply]) { groups.deliver(items, o) })
}

// acquireBatch returns the batch that acquires the items' locks.
func (c *Client) acquireBatch(items []*batchItem) exec.Batch[codec.BatchReply] {
	l := items[0].l
	notAfter, wait := items[0].notAfter, time.Duration(0)
	for _, item := range items {
		notAfter, wait = min(notAfter, item.notAfter), max(wait, item.l.set.wait())
	}
	// All items are of one kind: a client's own mutexes do not gather in Strict mode.
	b := l.set.kind.batch(l, len(items), notAfter)
	for _, item := range items {
		b.Add(item.l.keys.Lock, item.l.keys.Queue, item.head, item.l.set.term(), item.l.set.info)
	}
	return exec.Batch[codec.BatchReply]{Slot: c.slot(l), Slots: slotsOf(c, items[1:], func(item *batchItem) *target { return item.l }), Script: b, Wait: wait, Waited: true}
}

// giveBack releases a lock that was granted with that fence, as Client.release does, even if ctx
// has ended.
func (a *attempt) giveBack(ctx context.Context, fence uint64, tombstone int64) (reply codec.ReleaseReply, unanswered bool, err error) {
	c := a.l.c
	began := time.Now()
	if tombstone == 0 && a.freeable() {
		var done bool
		if done, unanswered = a.free(fence); done {
			return released, false, nil
		}
	}
	reply, again, err := c.releaseSince(began, context.WithoutCancel(ctx), a.l, a.token(), a.member, tombstone, a.ending)
	return reply, unanswered || again, err
}

// released is what the release of a lock would reply that a batch has released.
var released = codec.ReleaseReply{Head: codec.Head{Word: codec.Released}}

// freeable reports whether a batch can release the lock, as far as is known.
func (a *attempt) freeable() bool { return a.l.plain() && !a.l.c.batches.isContended(a.l) }

// free releases the lock together with others, if nobody waits for it. If it returns done false,
// the lock must be released by itself; unanswered says that it may have been released all the same.
func (a *attempt) free(fence uint64) (done, unanswered bool) {
	item := newBatchItem(a.l, a.head)
	item.fence, item.since = fence, a.valueTime(fence)
	groups, _ := a.l.c.groupsFor(a.l)
	if !a.l.c.server.IsPrompt() || !groups.releases.DoPromptly(item) {
		groups.releases.Do(item)
	}
	<-item.done
	return item.freed()
}

// freeThen starts free and returns at once. tell is called with the result; it must not block.
func (a *attempt) freeThen(fence uint64, tell func(done, unanswered bool)) {
	item := newBatchItem(a.l, a.head)
	item.fence, item.since = fence, a.valueTime(fence)
	item.tell = func(item *batchItem) { tell(item.freed()) }
	groups, _ := a.l.c.groupsFor(a.l)
	groups.releases.Add(item)
}

// freed returns the result of an item of free, and recycles the item.
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

// sendReleases sends a batch of releases and reports whether the server answered.
func (c *Client) sendReleases(groups *serverGroups, items []*batchItem) bool {
	apart := c.server.InCluster() && (c.server.HasDeleteIfEqual() || groups.goApart())
	return exec.SendAll(c.server, items, apart, c.releaseBatch, groups.deliver)
}

// releasePromptly sends a release in its caller's goroutine.
func (c *Client) releasePromptly(groups *serverGroups, item *batchItem) (answered, sent bool) {
	items := []*batchItem{item}
	return exec.SendPromptly(context.Background(), c.server, c.releaseBatch(items), func(o exec.Outcome[codec.BatchReply]) { groups.deliver(items, o) })
}

// releaseBatch returns the batch that releases the items' locks.
func (c *Client) releaseBatch(items []*batchItem) exec.Batch[codec.BatchReply] {
	first := items[0]
	b := exec.Batch[codec.BatchReply]{Slot: c.slot(first.l), Waited: true}
	if len(items) > 1 && c.server.InCluster() {
		release := codec.NewSpreadRelease(len(items))
		for _, item := range items {
			release.Add(item.l.keys.Lock, item.head)
		}
		b.Script = &release
		return b
	}
	release := codec.NewBatchRelease(len(items))
	for _, item := range items {
		release.Add(item.l.keys.Lock, item.head)
	}
	b.Script = &release
	// mutants: native-release
	if len(items) == 1 && first.since != 0 && c.server.HasDeleteIfEqual() {
		b.Command = &codec.DeleteIfEqual{Lock: first.l.keys.Lock, Value: first.head.Value(first.fence, first.since, first.l.set.info)}
	}
	return b
}

// deliver gives items the outcome of their batch.
func (groups *serverGroups) deliver(items []*batchItem, o exec.Outcome[codec.BatchReply]) {
	reply := &o.Reply
	groups.learn(len(items), o)
	for i, item := range items {
		item.sent, item.heard, item.now, item.err, item.ok = o.Sent, o.Heard, reply.Now, o.Err, reply.Done(i)
		item.refused, item.refusal = reply.Refuses(), reply.Refusal
		// mutants: fence-of-item
		item.fence = reply.FenceOf(i)
		item.finish()
	}
}

// apartFor is for how long the locks of a Cluster's master go apart after the master refused most of a batch.
const apartFor = 10 * time.Second

// goApart reports whether each lock is to have a call of its own, because the server does not run batches with locks in several
// slots, or many of its slots move.
func (groups *serverGroups) goApart() bool {
	return clock.Mono() < clock.Reading(groups.apartUntil.Load())
}

// learn notes whether the server ran a batch of n locks in several slots.
func (groups *serverGroups) learn(n int, o exec.Outcome[codec.BatchReply]) {
	if n > 1 && (o.Reply.Denied > n/2 || exec.IsLacking(o.Err)) {
		groups.apartUntil.Store(int64(clock.Mono().Add(apartFor)))
	}
}
