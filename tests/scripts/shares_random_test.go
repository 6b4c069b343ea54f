package scripts

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// model is the expected state of the lock after each call, if no hold expires.
type model struct {
	named int // the limit that requests name
	limit int
	fixed bool
	holds map[string]int // by token: the weight
	queue []waiter
	alive map[string]bool
}

type waiter struct {
	token  string
	weight int
}

func (m *model) used() (sum int) {
	for _, weight := range m.holds {
		sum += weight
	}
	return sum
}

func (m *model) room(weight int) bool { return m.used()+weight <= m.limit }

// exists reports whether the hash exists, which has the limit.
func (m *model) exists() bool { return m.fixed || len(m.holds) > 0 }

func (m *model) place(token string) int {
	return slices.IndexFunc(m.queue, func(w waiter) bool { return w.token == token })
}

// serve serves waiters while there is room. self is the caller, and so not dead.
func (m *model) serve(self string) {
	for len(m.queue) > 0 {
		w := m.queue[0]
		able := w.token == self || m.alive[w.token]
		if w.weight <= m.limit && !m.room(w.weight) && able {
			return
		}
		m.queue = m.queue[1:]
		if w.weight <= m.limit && able {
			m.holds[w.token] = w.weight
		}
	}
}

// acquire returns the first word of the reply.
func (m *model) acquire(mode, token string, weight int) string {
	if !m.exists() {
		m.limit = m.named
	}
	_, holds := m.holds[token]
	switch {
	case m.limit != m.named && !m.fixed:
		return "error"
	case holds:
		return "granted"
	case weight > m.limit:
		return "error"
	case mode == "t":
		if m.serve(""); len(m.queue) > 0 || !m.room(weight) {
			return "held"
		}
		m.holds[token] = weight
		return "granted"
	case mode == "l" && m.place(token) < 0:
		return "gone"
	}
	if m.place(token) < 0 {
		m.queue = append(m.queue, waiter{token, weight})
	}
	// If nobody is ahead and there is room, the lock is granted at once.
	if m.serve(token); m.holds[token] == 0 {
		return "queued"
	}
	return "granted"
}

func (m *model) release(token string) string {
	if _, ok := m.holds[token]; ok {
		delete(m.holds, token)
		m.serve("")
		return "released"
	}
	i := m.place(token)
	if i < 0 {
		return m.missing()
	}
	known := m.exists()
	if m.queue = slices.Delete(m.queue, i, i+1); i == 0 && known {
		m.serve("")
	}
	return "left"
}

// missing is the answer to a token without a hold.
func (m *model) missing() string {
	if len(m.holds) == 0 {
		return "absent"
	}
	return "gone"
}

func (m *model) weigh(token string, weight int) string {
	before, ok := m.holds[token]
	switch {
	case !ok:
		return m.missing()
	case weight > before && !m.room(weight-before):
		return "held"
	}
	if m.holds[token] = weight; weight < before {
		m.serve("")
	}
	return "weighed"
}

func (m *model) resize(limit int) string {
	known := m.exists()
	m.fixed = limit > 0
	if m.fixed {
		m.limit = limit
	}
	if m.fixed || known {
		m.serve("")
	}
	return "resized"
}

// world is a lock whose scripts are called at random.
type world struct {
	shares
	*rand.Rand
	tokens []string
	calls  []string // for the message of a failure
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n  after %d calls, the last of which are\n  %s", fmt.Sprintf(format, args...), len(w.calls), strings.Join(w.calls[max(0, len(w.calls)-12):], "\n  "))
}

// weight draws a weight that a request may have.
func (w *world) weight() int {
	if w.kind == "rw" {
		return []int{1, 1, everything}[w.IntN(3)]
	}
	return 1 + w.IntN(w.limit+1)
}

func (w *world) call(s script.Script, args ...any) (word, reply string) {
	w.t.Helper()
	reply = w.run(s, args...)
	w.calls = append(w.calls, fmt.Sprintf("%s %v: %s", s.Name, args, reply))
	word, _, _ = strings.Cut(reply, " ")
	return word, reply
}

// state is the state of the lock at one moment.
type state struct {
	hash  map[string]string
	holds map[string]hold
	queue []waiter
	now   int64
	pttl  time.Duration
}

// look reads the state, and checks its invariants.
func (w *world) look() state {
	w.t.Helper()
	ctx := w.t.Context()
	var hash *redis.MapStringStringCmd
	var queue *redis.StringSliceCmd
	var pttl *redis.DurationCmd
	var clock *redis.TimeCmd
	if _, err := w.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		hash, queue, pttl, clock = p.HGetAll(ctx, "{k}"), p.ZRange(ctx, "{k}:q", 0, -1), p.PTTL(ctx, "{k}"), p.Time(ctx)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	s := state{hash.Val(), parseHolds(hash.Val()), nil, clock.Val().UnixMicro(), pttl.Val()}
	for _, member := range queue.Val() {
		parts := strings.Split(member, "\n")
		s.queue = append(s.queue, waiter{parts[0], int(number(parts[3]))})
	}
	if len(s.hash) == 0 {
		return s
	}
	var used, longest int64
	earliest := int64(9e15)
	for _, h := range s.holds {
		used += h.weight
		longest, earliest = max(longest, h.expiry), min(earliest, h.expiry)
	}
	if got := number(s.hash["used"]); got != used {
		w.fail("used is %d, the sum is %d: %q", got, used, s.hash)
	}
	if next := number(s.hash["next"]); next > earliest {
		w.fail("next is %d, a hold expires at %d: %q", next, earliest, s.hash)
	}
	fixed := s.hash["fixed"] != ""
	const forEver = -1 // go-redis's value; -2 means a key that has just expired
	if fixed != (s.pttl == forEver) {
		w.fail("the lock lasts for %v: %q", s.pttl, s.hash)
	}
	// A server counts whole ms, from the start of a script.
	if rest := time.Duration(longest-s.now) * time.Microsecond; !fixed && s.pttl < rest-3*time.Millisecond {
		w.fail("the lock lasts for %v, a hold for %v: %q", s.pttl, rest, s.hash)
	}
	if len(s.holds) == 0 && !fixed {
		w.fail("a lock without holds is there: %q", s.hash)
	}
	return s
}

// step makes one call of a random script, whose reply the model knows.
func (w *world) step(m *model, ttl func() int, last state) {
	token := w.tokens[w.IntN(len(w.tokens))]
	weight := w.weight()
	modes := []string{"t", "w", "l"}
	if i := slices.IndexFunc(last.queue, func(q waiter) bool { return q.token == token }); i >= 0 {
		weight, modes = last.queue[i].weight, modes[1:] // an acquire keeps its weight, and does not try while it waits
	}
	want, word := "", ""
	switch n := w.IntN(20); {
	case n < 9:
		mode := modes[w.IntN(len(modes))]
		want = m.acquire(mode, token, weight)
		d := demand{ttl: ttl(), fences: 1 + w.IntN(3)}
		word, _ = w.call(script.ShareAcquire(), w.arguments(mode, token, weight, d)...)
	case n < 14:
		member := ""
		if i := m.place(token); i >= 0 {
			member = heavy(token, m.queue[i].weight)
		} else if i := slices.IndexFunc(last.queue, func(q waiter) bool { return q.token == token }); i >= 0 {
			member = heavy(token, last.queue[i].weight)
		}
		want = m.release(token)
		word, _ = w.call(script.ShareRelease(), "", token, member, 0)
	case n < 16:
		want = m.missing()
		fence := last.holds[token].fence
		if w.IntN(5) == 0 {
			fence++
		} else if m.holds[token] > 0 {
			want = "renewed"
		}
		word, _ = w.call(script.ShareRenew(), "", token, ttl(), w.IntN(3), fence)
	case n < 18:
		want = m.weigh(token, weight)
		fence := last.holds[token].fence
		word, _ = w.call(script.ShareWeigh(), "", token, weight, fence, fence)
	case n < 19 && w.kind == "sem" && m.alive != nil:
		limit := w.IntN(w.limit + 2)
		if len(m.holds) > 0 {
			limit = max(limit, 1) // after 0, the next request sets it: TestShares has that
		}
		want = m.resize(limit)
		word, _ = w.call(script.ShareResize(), "", "", w.kind, limit)
	default:
		want = "holders"
		_, reply := w.call(script.ShareHolders(), "", "x", 0, 500)
		word = strings.Fields(reply)[0]
		if got := len(strings.Split(reply, "\n")) - 1; m.alive != nil && got != len(m.holds) {
			w.fail("%d holders are told, %d are there", got, len(m.holds))
		}
	}
	if m.alive != nil && word != want {
		w.fail("the answer is %q, want %q", word, want)
	}
}

// fences checks the fences of new holds.
func (w *world) fences(before, after state, highest *int64) {
	w.t.Helper()
	for token, h := range after.holds {
		old, had := before.holds[token]
		reads := w.kind == "rw" && h.weight < everything
		if !had || h.fence != old.fence {
			if !reads && h.fence <= *highest || h.fence < *highest {
				w.fail("%s has the fence %d; there was %d", token, h.fence, *highest)
			}
		}
		if had && h.fence != old.fence && h.weight <= old.weight && before.holds[token].expiry > after.now {
			// The same token may have been released and served again, but not in one call.
			w.fail("the fence of %s was %d and is %d", token, old.fence, h.fence)
		}
		for other, o := range after.holds {
			if reads && o.fence != h.fence {
				w.fail("the readers %s and %s have the fences %d and %d", token, other, h.fence, o.fence)
			}
		}
	}
	for _, h := range after.holds {
		*highest = max(*highest, h.fence)
	}
}

// TestSharesAtRandom calls the scripts at random. If no hold expires, replies, holds and queue are those of the
// model; if holds expire, the invariants still hold.
func TestSharesAtRandom(t *testing.T) {
	for name, c := range map[string]struct {
		kind   string
		limit  int
		expire bool
	}{
		"rw": {"rw", everything, false}, "sem": {"sem", 4, false},
		"rw that expires": {"rw", everything, true}, "sem that expires": {"sem", 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend.Each(t, func(t *testing.T, back *backend.Backend) {
				seed := backend.Seed(1)
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("seed %d", seed)
					}
				})
				b := newBench(t, back)
				w := &world{shares: shares{b, c.kind, c.limit}, Rand: rand.New(rand.NewPCG(seed, 0)), tokens: strings.Split("ABCDEF", "")}
				m := &model{named: c.limit, holds: map[string]int{}, alive: map[string]bool{}}
				for _, token := range w.tokens[:4] { // the others have no subscription
					m.alive[token] = true
					messages := b.listen(token)
					go func() {
						for range messages {
						}
					}()
				}
				ttl := func() int { return 60000 + w.IntN(60000) }
				if c.expire {
					m.alive = nil
					ttl = func() int { return 1 + w.IntN(20) }
				}
				var before state
				var highest int64
				for len(w.calls) < draws(2500) {
					w.step(m, ttl, before)
					after := w.look()
					w.fences(before, after, &highest)
					if c.expire {
						if used := number(after.hash["used"]); used > int64(c.limit) {
							w.fail("%d are held of %d: %q", used, c.limit, after.hash)
						}
					} else {
						w.compare(m, after)
					}
					before = after
				}
				t.Logf("%d calls", len(w.calls))
			})
		})
	}
}

// compare requires that the lock is as the model says.
func (w *world) compare(m *model, s state) {
	w.t.Helper()
	holds := map[string]int{}
	for token, h := range s.holds {
		holds[token] = int(h.weight)
	}
	if !maps.Equal(holds, m.holds) {
		w.fail("the holds are %v, want %v", holds, m.holds)
	}
	if !slices.Equal(s.queue, m.queue) {
		w.fail("the queue is %v, want %v", s.queue, m.queue)
	}
	if m.exists() && s.hash["limit"] != strconv.Itoa(m.limit) {
		w.fail("the limit is %s, want %d", s.hash["limit"], m.limit)
	}
}
