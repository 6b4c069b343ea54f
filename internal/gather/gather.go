// Package gather sends calls that arrive close together as one batch, as group commit does for transactions
// (DeWitt et al., "Implementation Techniques for Main Memory Database Systems", SIGMOD 1984, section 5.2). A call that
// arrives alone is sent at once. When as many batches are in flight as allowed, which is more the longer the round trip,
// calls wait for one of them to return and then form the next batch. That takes about one interval, however far the
// server is. A batch leaves as soon as no more calls are being added; it does not wait to be full.
package gather

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Group sends items in batches. Its exported fields must be set before its first use.
type Group[T any] struct {
	// Send sends a batch and returns when it has been answered, or, with false, when it has been given up.
	Send func(items []T) (answered bool)
	// Prompt sends one item, and returns as soon as the item's caller gives up. If it could not send it, sent is false.
	// Prompt may be nil if DoPromptly is not called.
	Prompt func(item T) (answered, sent bool)
	// Drop is called with items that will not be sent because too many batches hang.
	Drop func(items []T)
	// Go calls f in a new goroutine.
	Go func(f func())
	// Most is the largest size of a batch.
	Most int
	// Patience is how long items wait for a batch in flight. After that they are sent beside it, since it may hang. To
	// spare a slow server, the wait is extended to four times what the last batch took, up to ten times Patience.
	Patience time.Duration
	// Width returns how many batches the connections to the server can carry at once, now. If it is nil, the server is
	// treated as near.
	Width func() int

	lastMet atomic.Int64 // when DoPromptly last did not send an item, ns

	mu        sync.Mutex
	queue     []T // items that wait, from index head on; those before it are zero
	head      int
	inFlight  int           // batches, and senders about to take one
	idle      int           // those of them that are senders without a batch
	lastSize  int           // items in the latest batch
	lastStart time.Time     // when the latest batch was sent
	lastTook  time.Duration // how long the latest batch to return took
	answered  time.Time     // when the latest batch was answered
	roundTrip roundTrip
	overdue   *time.Timer // runs while items wait
}

// Bounds on the batches in flight to a server that is near.
const (
	maxSingle   = 4  // batches of one item, while items arrive one by one
	maxTogether = 2  // batches of several items
	maxBeside   = 14 // in addition, if batches hang
)

// maxLimit bounds the batches in flight however far the server is. More would be no faster, and all of them can hang.
const maxLimit = 64

// interval is the time between two batches when as many are in flight as allowed, and so about how long an item waits
// for one of them to return.
const interval = 25 * time.Microsecond

// Add sends an item. It does not block.
func (g *Group[T]) Add(item T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, item)
	if g.idle > 0 {
		return // a sender is about to take it
	}
	if g.inFlight < g.limit() {
		g.startSender()
	} else if g.waiting() == 1 {
		g.startTimer()
	}
}

// Do sends an item and may block until Send returns. While items arrive one by one, the caller sends its own, which
// saves waking another goroutine.
func (g *Group[T]) Do(item T) {
	g.mu.Lock()
	if limit := g.limit(); g.waiting() > 0 || g.inFlight >= max(limit, maxSingle) || g.lastSize > 1 && limit <= maxTogether {
		g.mu.Unlock()
		g.Add(item)
		return
	}
	g.inCaller(func() (answered bool) { return g.Send([]T{item}) })
}

// DoPromptly sends an item with Prompt, and reports whether it did. It does so only if no item waits and none is in flight or, with
// a round trip of apartFrom or more, fewer than maxApart are. Once it has not sent an item, it sends none for metFor: items that meet
// are better sent together, even if that wakes another goroutine.
func (g *Group[T]) DoPromptly(item T) (sent bool) {
	now := time.Now().UnixNano()
	if since := now - g.lastMet.Load(); since >= 0 && since < int64(metFor) { // before taking mu, for which thousands of callers would wait
		return false
	}
	g.mu.Lock()
	if others := g.inFlight - g.idle; g.waiting() > 0 || others > 0 && (others >= maxApart || g.roundTrip.estimate < apartFrom) {
		g.mu.Unlock()
	} else {
		g.inCaller(func() (answered bool) {
			answered, sent = g.Prompt(item)
			return answered
		})
	}
	if !sent {
		g.lastMet.Store(now)
	}
	return sent
}

// maxApart is how many items DoPromptly sends at once if the round trip is long. A few calls that travel apart neither wait for each
// other nor wake a goroutine; many cost the client and the server less together.
const maxApart = 8

// apartFrom is the shortest round trip at which DoPromptly lets items travel apart. With a server that is nearer, a few calls are
// faster together.
const apartFrom = maxApart * interval

// metFor is how long DoPromptly sends nothing after it did not send an item.
const metFor = 5 * time.Millisecond

// inCaller calls send, which sends one item. The caller holds mu, which inCaller releases.
func (g *Group[T]) inCaller(send func() (answered bool)) {
	g.inFlight++
	alone := g.inFlight <= maxTogether
	began := time.Now()
	g.lastStart = began
	g.mu.Unlock()
	answered := send()
	g.mu.Lock()
	defer g.mu.Unlock()
	if answered {
		g.answered = time.Now()
		g.lastTook = g.answered.Sub(began)
		g.roundTrip.observe(g.lastTook, 1, alone)
	}
	g.inFlight--
	if g.waiting() > 0 && g.idle == 0 && g.inFlight < g.limit() {
		g.startSender()
	}
}

// limit returns how many batches may be in flight before items wait for one to return. It grows with the round trip.
func (g *Group[T]) limit() int {
	n := min(int(g.roundTrip.estimate/interval), maxLimit)
	if n <= maxTogether || g.Width == nil {
		return maxTogether
	}
	return max(maxTogether, min(n, g.Width()))
}

// Hangs reports whether batches are in flight, and none has been answered since then.
func (g *Group[T]) Hangs(since time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight > g.idle && g.answered.Before(since)
}

// waiting returns the number of items that wait.
func (g *Group[T]) waiting() int { return len(g.queue) - g.head }

func (g *Group[T]) startSender() {
	g.inFlight++
	g.idle++
	g.Go(g.sender)
}

// startTimer starts the time after which waiting items are sent beside the batches in flight.
func (g *Group[T]) startTimer() {
	patience := min(max(g.Patience, 4*g.lastTook), 10*g.Patience)
	if g.overdue == nil {
		g.overdue = time.AfterFunc(patience, g.sendOverdue)
		return
	}
	g.overdue.Reset(patience)
}

func (g *Group[T]) sendOverdue() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting() == 0 || g.idle > 0 {
		return
	}
	if g.inFlight < g.limit()+maxBeside {
		g.startSender()
		return
	}
	dropped := g.queue[g.head:]
	g.queue, g.head = nil, 0
	g.Go(func() { g.Drop(dropped) })
}

// sender sends batches until no items wait.
func (g *Group[T]) sender() {
	growStack(0)
	for {
		g.mu.Lock()
		g.gather()
		items := g.take()
		g.idle--
		if len(items) == 0 {
			g.inFlight--
			g.mu.Unlock()
			return
		}
		alone := g.inFlight <= maxTogether
		began := time.Now()
		g.lastStart = began
		if g.waiting() > 0 && g.idle == 0 && g.inFlight < g.limit() {
			g.startSender()
		}
		g.mu.Unlock()
		answered := g.Send(items)
		g.mu.Lock()
		g.lastTook = time.Since(began)
		if answered {
			g.answered = began.Add(g.lastTook)
			g.roundTrip.observe(g.lastTook, len(items), alone)
		}
		g.idle++
		g.mu.Unlock()
	}
}

// stackRoom is what a client library needs of the stack to send a command, and more than a new goroutine has.
const stackRoom = 5 << 10

// growStack makes the goroutine's stack grow while there is little on it. It would otherwise grow twice on the way down through
// the client library, and each time all its frames would be copied and adjusted.
//
//go:noinline
func growStack(i int) byte {
	var room [stackRoom]byte
	return room[i%stackRoom]
}

// maxYields bounds how often a sender yields before it sends. If no other goroutine can run, a yield takes a fraction
// of a microsecond, and in virtual time none at all.
const maxYields = 64

// gather yields, as long as items keep coming, to goroutines that are about to add some because the answers to a batch have
// just woken them: a larger batch saves the client and the server more than the yields cost. If the server is far, gather also
// waits for one interval after the previous batch: sending items one by one costs several times as much. The caller holds mu,
// which gather releases meanwhile.
func (g *Group[T]) gather() {
	before := 0
	for yields := 0; yields < maxYields; yields++ {
		if yields > 0 && (g.waiting() == 0 || g.waiting() >= g.Most || g.waiting() == before && (g.roundTrip.estimate/interval <= maxTogether || time.Since(g.lastStart) >= interval)) {
			return
		}
		before = g.waiting()
		g.mu.Unlock()
		runtime.Gosched()
		g.mu.Lock()
	}
}

// take removes the next batch from the queue and returns it.
func (g *Group[T]) take() []T {
	n := min(g.waiting(), g.Most)
	first := g.queue[g.head : g.head+n]
	items := append([]T(nil), first...)
	if n > 0 {
		g.lastSize = n
	}
	clear(first)
	g.head += n
	if g.head > len(g.queue)/2 { // rare enough for a long queue
		left := copy(g.queue, g.queue[g.head:])
		clear(g.queue[left:])
		g.queue, g.head = g.queue[:left], 0
	}
	if g.waiting() > 0 {
		g.startTimer()
	} else if g.overdue != nil {
		g.overdue.Stop()
	}
	return items
}

// roundTrip estimates the round trip to the server by the fastest recent batch.
type roundTrip struct {
	estimate time.Duration // 0 if not known

	windowMin time.Duration // the fastest batch of the window that can show a longer round trip
	windowLen int
}

const (
	fewItems   = 4
	windowSize = 64 // batches
)

// observe records a batch. A shorter round trip counts at once, whatever the batch carried. A longer one is believed
// only after a window of batches of few items with hardly another in flight: items take server time, and batches wait
// for each other, so a loaded server would look far, get more batches, and be loaded further. With each window the
// estimate at most doubles, because a server that is busy for a moment is not far away.
func (r *roundTrip) observe(took time.Duration, items int, alone bool) {
	if r.estimate != 0 && took < r.estimate {
		r.estimate, r.windowLen = took, 0
		return
	}
	if items > fewItems || !alone {
		return
	}
	if r.windowLen == 0 || took < r.windowMin {
		r.windowMin = took
	}
	r.windowLen++
	if r.estimate == 0 {
		r.estimate, r.windowLen = took, 0
	} else if r.windowLen >= windowSize {
		r.estimate, r.windowLen = min(r.windowMin, 2*r.estimate), 0
	}
}
