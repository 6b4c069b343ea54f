// Package gather makes calls that come close together go out together, as group commit does for
// transactions (DeWitt et al., "Implementation Techniques for Main Memory Database Systems", SIGMOD
// 1984, section 5.2). A call that comes alone leaves at once. While as many sendings are under way as the round
// trip holds at close intervals, calls wait for one of them to return, and are the next sending. So a call
// waits for about one interval, near or far, and never for others to come.
package gather

import (
	"runtime"
	"sync"
	"time"
)

// Group gathers items. Its fields are set before its first use.
type Group[T any] struct {
	// Send sends items, and returns once they are answered, or given up: then it is false.
	Send func(items []T) (answered bool)
	// Drop is given items that will not be sent, because too many sendings hang.
	Drop func(items []T)
	// Go calls f in a goroutine.
	Go func(f func())
	// Most bounds the items of a sending.
	Most int
	// Patience is how long items wait for the sending that is under way. Past it they go
	// beside it: it may hang. Where sendings take longer, it is four times what the latest took, ten times
	// as long at most: what is slow would be slower with more beside it.
	Patience time.Duration
	// Width is how many sendings the connections to the server bear at once, now. Nil: items wait as if it were near.
	Width func() int

	mu     sync.Mutex
	queue  []T           // those who wait, from index gone on
	gone   int           // the others are zero
	flying int           // sendings, and senders that are about to send
	idle   int           // of them: senders that have not taken items yet
	latest int           // items of the latest sending
	left   time.Time     // when it left
	took   time.Duration // the latest that was answered
	trip   trip
	hurry  *time.Timer
}

// These bound the sendings that are under way at once to a server that is near: of one item each, while calls arrive one
// by one; of several items; and in addition to those, if they hang.
const (
	maxSingle   = 4
	maxTogether = 2
	maxBeside   = 14
)

// maxRoom bounds them however far the server is: more would be no faster, and all of them can hang.
const maxRoom = 64

// spacing is the interval between sendings when as many are under way as allowed. An item waits about that long for one of
// them to return, however far the server is.
const spacing = 25 * time.Microsecond

// Add has an item sent. It does not block.
func (g *Group[T]) Add(item T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, item)
	if g.idle > 0 {
		return // it goes with that one
	}
	if g.flying < g.room() {
		g.fly()
	} else if g.waiting() == 1 {
		g.wind()
	}
}

// Do has an item sent, and may return only when Send has: while calls come one by one the caller
// sends its own, which spares waking others up.
func (g *Group[T]) Do(item T) {
	g.mu.Lock()
	if room := g.room(); g.flying >= max(room, maxSingle) || g.latest > 1 && room <= maxTogether {
		g.mu.Unlock()
		g.Add(item)
		return
	}
	g.flying++
	alone := g.flying <= maxTogether
	began := time.Now()
	g.left = began
	g.mu.Unlock()
	answered := g.Send([]T{item})
	g.mu.Lock()
	defer g.mu.Unlock()
	if answered {
		g.trip.observe(time.Since(began), 1, alone)
	}
	g.flying--
	if g.waiting() > 0 && g.idle == 0 && g.flying < g.room() {
		g.fly()
	}
}

// room is how many sendings may be under way before items wait for one of them to return. It grows with the round trip.
func (g *Group[T]) room() int {
	room := min(int(g.trip.shortest/spacing), maxRoom)
	if room <= maxTogether || g.Width == nil {
		return maxTogether
	}
	return max(maxTogether, min(room, g.Width()))
}

// waiting is how many wait.
func (g *Group[T]) waiting() int { return len(g.queue) - g.gone }

// fly starts a sender.
func (g *Group[T]) fly() {
	g.flying++
	g.idle++
	g.Go(g.sender)
}

// wind has a further sender start when those who wait have lost their patience.
func (g *Group[T]) wind() {
	patience := min(max(g.Patience, 4*g.took), 10*g.Patience)
	if g.hurry == nil {
		g.hurry = time.AfterFunc(patience, g.expedite)
		return
	}
	g.hurry.Reset(patience)
}

func (g *Group[T]) expedite() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting() == 0 || g.idle > 0 {
		return
	}
	if g.flying < g.room()+maxBeside {
		g.fly()
		return
	}
	dropped := g.queue[g.gone:]
	g.queue, g.gone = nil, 0
	g.Go(func() { g.Drop(dropped) })
}

// sender sends until nobody waits.
func (g *Group[T]) sender() {
	for {
		g.mu.Lock()
		g.gather()
		items := g.take()
		g.idle--
		if len(items) == 0 {
			g.flying--
			g.mu.Unlock()
			return
		}
		alone := g.flying <= maxTogether
		began := time.Now()
		g.left = began
		if g.waiting() > 0 && g.idle == 0 && g.flying < g.room() {
			g.fly()
		}
		g.mu.Unlock()
		answered := g.Send(items)
		g.mu.Lock()
		g.took = time.Since(began)
		if answered {
			g.trip.observe(g.took, len(items), alone)
		}
		g.idle++
		g.mu.Unlock()
	}
}

// maxYields bounds how often a sender yields before it sends. When no other goroutine can run, yielding takes a fraction
// of a microsecond, and in virtual time none.
const maxYields = 64

// gather yields to goroutines that are about to add items, because the answers to a sending have just woken them. If the
// server is far, it also waits until an interval after the previous sending: items that are sent one by one cost
// the client and the server several times as much. Guarded by mu, which it releases meanwhile.
func (g *Group[T]) gather() {
	for yields := 0; yields < maxYields; yields++ {
		if yields > 0 && (g.waiting() == 0 || g.waiting() >= g.Most || g.trip.shortest/spacing <= maxTogether || time.Since(g.left) >= spacing) {
			return
		}
		g.mu.Unlock()
		runtime.Gosched()
		g.mu.Lock()
	}
}

// take takes the first who wait out of the group.
func (g *Group[T]) take() []T {
	n := min(g.waiting(), g.Most)
	first := g.queue[g.gone : g.gone+n]
	items := append([]T(nil), first...)
	if n > 0 {
		g.latest = n
	}
	clear(first)
	g.gone += n
	if g.gone > len(g.queue)/2 { // seldom enough for many who wait
		left := copy(g.queue, g.queue[g.gone:])
		clear(g.queue[left:])
		g.queue, g.gone = g.queue[:left], 0
	}
	if g.waiting() > 0 {
		g.wind()
	} else if g.hurry != nil {
		g.hurry.Stop()
	}
	return items
}
