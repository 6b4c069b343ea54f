package scripts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// shares is a lock that several may hold at once, as its users request it.
type shares struct {
	bench
	kind  string
	limit int
}

// everything is a writer's weight.
const everything = 1_000_000_000

func readWrite(b bench) shares            { return shares{b, "rw", everything} }
func semaphore(b bench, limit int) shares { return shares{b, "sem", limit} }

// A demand is the arguments of an acquire besides mode, token and weight.
type demand struct {
	ttl      int // ms
	notAfter int64
	fences   int
}

var ordinary = demand{ttl: 60000, fences: 1}

func (l shares) arguments(mode, token string, weight any, d demand) []any {
	args := []any{mode, token, d.ttl, d.notAfter, d.fences, info, l.kind, l.limit, weight}
	if mode != "t" {
		args = append(args, claim, "channel-"+token, "")
	}
	return args
}

func (l shares) acquire(mode, token string, weight int) string {
	l.t.Helper()
	return l.eval(script.ShareAcquire(), l.arguments(mode, token, weight, ordinary)...)
}

func (l shares) release(token, member string, tombstone int64) string {
	l.t.Helper()
	return l.eval(script.ShareRelease(), "", token, member, tombstone)
}

func (l shares) renew(token string, ttl, fences int) string {
	l.t.Helper()
	return l.eval(script.ShareRenew(), "", token, ttl, fences, l.hold(token).fence)
}

func (l shares) weigh(token string, weight int) string {
	l.t.Helper()
	fence := l.hold(token).fence
	return l.eval(script.ShareWeigh(), "", token, weight, fence, fence)
}

func (l shares) resize(limit int) string {
	l.t.Helper()
	return l.eval(script.ShareResize(), "", "", l.kind, limit)
}

// holders returns how many wait, the weight and the limit of all holds, and the holders by token, as the lock's status tells them.
func (l shares) holders() string {
	l.t.Helper()
	reply := l.eval(script.Status(), "", "x", l.kind, 0, 500, 0)
	head, lines, _ := strings.Cut(reply, "\n")
	words := strings.Fields(head)
	if words[0] != "status" {
		return reply
	}
	used := cmp.Or(l.rdb.HGet(l.t.Context(), "{k}", "used").Val(), "0")
	all := strings.Split(lines, "\n")
	byToken := func(a, b string) int {
		return strings.Compare(a[strings.Index(a, "hf2:"):], b[strings.Index(b, "hf2:"):])
	}
	slices.SortFunc(all, byToken)
	return strings.TrimSuffix("holders "+words[1]+" "+words[6]+" "+used+" "+words[4]+"\n"+strings.Join(all, "\n"), "\n")
}

// heavy returns the queue's member for a waiter with that weight.
func heavy(token string, weight int) string {
	return token + "\n" + strconv.Itoa(claim) + "\nchannel-" + token + "\n" + strconv.Itoa(weight) + "\n" + info
}

type hold struct {
	expiry, weight, fence int64
}

var holdPattern = regexp.MustCompile(`^(\d+):(\d+):(\d+):\d+:`)

func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64) // digits, says the pattern
	return n
}

func (l shares) holds() map[string]hold {
	l.t.Helper()
	hash := expect.Of(l.rdb.HGetAll(l.t.Context(), "{k}").Result()).OK(l.t)
	all := map[string]hold{}
	for token, value := range hash {
		if m := holdPattern.FindStringSubmatch(value); m != nil {
			all[token] = hold{number(m[1]), number(m[2]), number(m[3])}
		}
	}
	return all
}

// hold returns the token's hold, or none.
func (l shares) hold(token string) hold {
	l.t.Helper()
	return l.holds()[token]
}

// held requires that exactly these tokens have holds.
func (l shares) held(tokens ...string) {
	l.t.Helper()
	var got []string
	for token := range l.holds() {
		got = append(got, token)
	}
	slices.Sort(got)
	expect.Same(l.t, "tokens that hold the lock", got, tokens)
}

// lasts requires that a hold lasts for ms, and the lock at least as long.
func (l shares) lasts(token string, ms int64) {
	l.t.Helper()
	rest := l.hold(token).expiry/1000 - l.later(0)/1000
	if !l.below(rest, ms) {
		l.t.Errorf("the hold of %s lasts for %d ms, want %d", token, rest, ms)
	}
	if pttl := l.rdb.PTTL(l.t.Context(), "{k}").Val(); pttl >= 0 && pttl.Milliseconds() < ms && !l.below(pttl.Milliseconds(), ms) {
		l.t.Errorf("the lock lasts for %v, the hold of %s for %d ms", pttl, token, rest)
	}
}

// exist requires how many of the lock and its queue exist.
func (l shares) exist(want int64) {
	l.t.Helper()
	if n := l.rdb.Exists(l.t.Context(), "{k}", "{k}:q").Val(); n != want {
		l.t.Errorf("%d keys are there, want %d: %q", n, want, l.rdb.HGetAll(l.t.Context(), "{k}").Val())
	}
}

// brief acquires a share for some ms, and returns the server's time when it expires.
func (l shares) brief(token string, weight any, ms int) (over int64) {
	l.t.Helper()
	d := ordinary
	d.ttl = ms
	if reply := l.eval(script.ShareAcquire(), l.arguments("t", token, weight, d)...); !strings.HasPrefix(reply, "granted") {
		l.t.Fatalf("%s: %s", token, reply)
	}
	return l.hold(token).expiry
}

// past waits until the server's clock has reached a time.
func (l shares) past(over int64) {
	l.t.Helper()
	backend.Eventually(l.t, "the clock goes on", func() bool { return l.later(0) > over })
}

// silent requires that nothing was sent to a waiter, now that a call has been answered.
func (l shares) silent(messages <-chan *redis.Message, token string) {
	l.t.Helper()
	// Messages that were sent earlier arrive before this one.
	l.rdb.Publish(l.t.Context(), "channel-"+token, "nothing else")
	l.expect("nothing else", l.heard(messages))
}

func TestShares(t *testing.T) {
	cases(t, onEach, map[string]func(b bench){
		"readers and writers": func(b bench) {
			l := readWrite(b)
			b.expect("holders T 0 0 0", l.holders())
			b.expect("granted T P T 1", l.acquire("t", "W", everything))
			first := l.hold("W").fence
			b.expect("granted T P T 1", l.acquire("t", "W", everything)) // the same again
			b.expect("granted T P T 1", l.acquire("w", "W", everything))
			expect.Equal(b.t, "the fence", l.hold("W").fence, first)
			b.expect("held T P 0 hf2:W:T:T:0:"+info, l.acquire("t", "V", everything))
			b.expect("held T P 0 hf2:W:T:T:0:"+info, l.acquire("t", "A", 1))
			// A request with another limit, or a larger weight, is told of the lock, not of a semaphore.
			b.expect("error BADLIMIT the lock has room for 1000000000 for those who use it now, not 5", shares{b, "rw", 5}.acquire("t", "A", 1))
			b.expect("error BADLIMIT the lock has room for 1000000000, and 1000000001 are wanted at once", l.acquire("t", "A", everything+1))
			b.expect("gone T", l.release("A", "", 0))
			b.expect("released T", l.release("W", "", 0))
			b.expect("absent T", l.release("W", "", 0))
			l.exist(0)

			b.expect("granted T P T 1", l.acquire("t", "A", 1))
			b.grantAnother()
			b.expect("granted T P T 1", l.acquire("t", "B", 1))
			b.expect("released T", l.release("A", "", 0))
			b.expect("granted T P T 1", l.acquire("t", "C", 1))
			if fence := l.hold("C").fence; fence <= first || fence != l.hold("B").fence {
				b.t.Errorf("the readers have the fences %d and %d; the writer before had %d", l.hold("B").fence, fence, first)
			}
			b.expect("held T P 0 hf2:C:T:T:0:"+info, l.acquire("t", "W", everything))
			b.expect("holders T 0 2 1000000000\nP 1 hf2:B:T:T:0:"+info+"\nP 1 hf2:C:T:T:0:"+info, l.holders())
			b.expect("released T", l.release("C", "", 0))
			b.expect("held T P 0 hf2:B:T:T:0:"+info, l.acquire("t", "W", everything)) // C was the last holder
			b.expect("released T", l.release("B", "", 0))
			b.expect("granted T P T 1", l.acquire("t", "W", everything))
			b.rises(first, l.hold("W").fence)
			b.expect("released T", l.release("W", "", 0))
			b.rdb.Del(b.t.Context(), "{k}:f") // a reader's fence without an earlier one
			b.expect("granted T P T 1", l.acquire("t", "A", 1))
		},
		"permits": func(b bench) {
			l := semaphore(b, 3)
			b.expect("granted T P T 1", l.acquire("t", "A", 2))
			b.expect("held T P 0 hf2:A:T:T:0:"+info, l.acquire("t", "B", 2))
			b.expect("granted T P T 1", l.acquire("t", "B", 1))
			b.rises(l.hold("A").fence, l.hold("B").fence)
			b.expect("granted T P T 1", l.acquire("t", "A", 2)) // it does not count twice
			b.expect("holders T 0 3 3\nP 2 hf2:A:T:T:0:"+info+"\nP 1 hf2:B:T:T:0:"+info, l.holders())
			five := semaphore(b, 5)
			other := "error BADLIMIT the semaphore has 3 permits for those who use it now, not 5"
			b.expect(other, five.acquire("t", "C", 1))
			b.expect(other, five.acquire("w", "C", 1))
			many := "error BADLIMIT the semaphore has 3 permits, and 4 are wanted at once"
			b.expect(many, l.acquire("t", "C", 4))
			b.expect(many, l.acquire("w", "C", 4))
			wrong := "error BADKIND the key holds another kind of lock, or something else"
			b.expect(wrong, readWrite(b).acquire("t", "C", 1))
			b.expect(wrong, readWrite(b).acquire("w", "C", 1))
			b.expect(wrong, readWrite(b).resize(1))
			l.held("A", "B")
			l.exist(1)
			b.expect("released T", l.release("A", "", 0))
			b.expect("released T", l.release("B", "", 0))
			b.expect("granted T P T 1", five.acquire("t", "C", 5))
			b.begins("error BADLIMIT the semaphore has 5 ", b.eval(script.ShareAcquire(), l.arguments("t", "A", 1, ordinary)...))
			b.expect("released T", l.release("C", "", 0))
			b.expect("granted T P T 7", b.eval(script.ShareAcquire(), l.arguments("t", "A", 1, demand{ttl: 60000, fences: 7})...))
			seventh := l.hold("A").fence + 6
			l.acquire("t", "B", 1)
			b.rises(seventh, l.hold("B").fence)
		},
		"not yet swept": func(b bench) {
			l := semaphore(b, 3)
			for what, call := range map[string]func(){
				"holders": func() { b.expect("holders T 0 3 3\nP 1 hf2:A:T:T:0:"+info, l.holders()) },
				"try":     func() { b.expect("granted T P T 1", l.acquire("t", "B", 2)) },
				"wait":    func() { b.expect("granted T P T 1", l.acquire("w", "B", 2)) },
				"release": func() { b.expect("gone T", l.release("B", "", 0)) },
				"renewal": func() {
					fence := l.hold("B").fence
					b.expect("gone T", b.eval(script.ShareRenew(), "", "B", 60000, 0, fence))
				},
				"resize": func() { b.expect("resized T 4 1", l.resize(4)) },
				"weigh":  func() { b.expect("gone T", l.weigh("B", 1)) },
			} {
				b.rdb.Del(b.t.Context(), "{k}")
				l.acquire("t", "A", 1)
				l.past(l.brief("B", 2, 20))
				if call(); b.t.Failed() {
					b.t.Fatal(what)
				}
			}
		},
		"queue": func(b bench) {
			l := readWrite(b)
			l.acquire("t", "W", everything)
			one, two, writer, three := b.listen("1"), b.listen("2"), b.listen("V"), b.listen("3")
			b.expect("gone T", l.acquire("l", "1", 1)) // a look creates nothing
			b.expect("queued T P T 1 1 ours", l.acquire("w", "1", 1))
			b.expect("queued T P T 1 1 ours", l.acquire("w", "1", 1))
			b.expect("queued T P T 1 1 ours", l.acquire("l", "1", 1))
			b.expect("queued T P T 2 0 ours", l.acquire("w", "deaf", 1))
			b.expect("queued T P T 3 1 ours", l.acquire("w", "2", 1))
			b.expect("queued T P T 4 1 ours", l.acquire("w", "V", everything))
			b.expect("queued T P T 5 1 ours", l.acquire("w", "3", 1))
			b.expect("held T P 5 hf2:W:T:T:0:"+info, l.acquire("t", "4", 1))
			before := l.hold("W").fence

			b.expect("released T", l.release("W", "", 0))
			b.expect("hf2 "+l.kind+" 1 T P T {k}", b.heard(one))
			b.expect("hf2 "+l.kind+" 2 T P T {k}", b.heard(two))
			b.expect("hf2 standby V T T", b.heard(writer))
			l.held("1", "2")
			l.lasts("1", claim)
			if first, second := l.hold("1").fence, l.hold("2").fence; first <= before || second != first {
				b.t.Errorf("readers that were served have the fences %d and %d; the writer before had %d", first, second, before)
			}
			b.expect("granted T P T 1", l.acquire("l", "1", 1)) // confirms the claim
			l.lasts("1", 60000)
			b.expect("held T P 2 hf2:1:T:T:0:"+info, l.acquire("t", "4", 1)) // does not overtake V
			b.expect("queued T P T 2 1 ours", l.acquire("l", "3", 1))
			b.expect("released T", l.release("1", "", 0))
			l.silent(writer, "V")
			b.expect("released T", l.release("2", "", 0))
			b.expect("hf2 rw V T P T {k}", b.heard(writer))
			b.expect("hf2 standby 3 T T", b.heard(three))
			b.rises(before, l.hold("V").fence)
			l.silent(one, "1")
			b.expect("released T", l.release("V", "", 0))
			b.expect("hf2 "+l.kind+" 3 T P T {k}", b.heard(three))
			b.expect("released T", l.release("3", "", 0))
			l.exist(0)
		},
		"a place taken again": func(b bench) {
			l := readWrite(b)
			l.acquire("t", "W", everything)
			b.listen("1")
			b.listen("2")
			l.acquire("w", "1", 1)
			score := strconv.FormatInt(int64(b.rdb.ZScore(b.t.Context(), "{k}:q", heavy("1", 1)).Val()), 10)
			l.acquire("w", "2", 1)
			b.expect("left T", l.release("1", heavy("1", 1), 0))
			b.expect("queued T P T 1 0 ours", b.eval(script.ShareAcquire(), "w", "3", 60000, 0, 1, info, "rw", everything, 1, claim, "channel-3", score))
		},
		"heavy waiter": func(b bench) {
			l := semaphore(b, 3)
			l.acquire("t", "A", 2)
			l.acquire("t", "B", 1)
			three, one := b.listen("3"), b.listen("1")
			b.expect("queued T P T 1 1 ours", l.acquire("w", "3", 3))
			b.expect("queued T P T 2 1 ours", l.acquire("w", "1", 1))
			b.expect("queued T P T 3 0 ours", l.acquire("w", "deaf", 1))
			b.expect("released T", l.release("B", "", 0)) // there is room for 1
			b.expect("held T P 3 hf2:A:T:T:0:"+info, l.acquire("t", "C", 1))
			b.expect("queued T P T 4 0 ours", l.acquire("w", "C", 1))
			b.expect("queued T P T 2 1 ours", l.acquire("l", "1", 1))
			b.expect("left T", l.release("C", heavy("C", 1), 0)) // it makes no room
			l.silent(three, "3")
			l.silent(one, "1")
			b.expect("left T", l.release("3", heavy("3", 3), 0))
			b.expect("hf2 "+l.kind+" 1 T P T {k}", b.heard(one))
			l.held("1", "A")
			b.expect("gone T", l.release("3", heavy("3", 3), 0))
			l.exist(1) // the deaf one has been skipped

			b.expect("queued T P T 1 1 ours", l.acquire("w", "3", 3))
			four := b.listen("4")
			b.expect("queued T P T 2 1 ours", l.acquire("w", "4", 3))
			b.expect("left T", l.release("3", heavy("3", 3), 0))
			b.expect("hf2 standby 4 T T", b.heard(four)) // now it is first
			b.expect("released T", l.release("A", "", 0))
			b.expect("released T", l.release("1", "", 0))
			b.expect("hf2 "+l.kind+" 4 T P T {k}", b.heard(four))
		},
		"heavy waiter that is dead": func(b bench) {
			l := semaphore(b, 3)
			l.acquire("t", "A", 1)
			b.expect("queued T P T 1 0 ours", l.acquire("w", "3", 3))
			one := b.listen("1")
			b.expect("granted T P T 1", l.acquire("w", "1", 1))
			b.expect("released T", l.release("1", "", 0))
			b.expect("queued T P T 1 0 ours", l.acquire("w", "3", 3))
			b.expect("granted T P T 1", l.acquire("t", "2", 1))
			b.expect("queued T P T 1 0 ours", l.acquire("w", "3", 3))
			b.expect("queued T P T 1 1 ours", l.acquire("w", "1", 2))
			b.expect("hf2 standby 1 T T", b.heard(one)) // now it is first
			b.expect("released T", l.release("2", "", 0))
			b.expect("hf2 "+l.kind+" 1 T P T {k}", b.heard(one))
		},
		"expired under waiters": func(b bench) {
			l := readWrite(b)
			l.acquire("t", "W", everything)
			one, two, writer := b.listen("1"), b.listen("2"), b.listen("V")
			l.acquire("w", "1", 1)
			l.acquire("w", "2", 1)
			l.acquire("w", "V", everything)
			b.rdb.Del(b.t.Context(), "{k}")
			b.expect("granted T P T 1", l.acquire("l", "2", 1)) // it is answered, not notified
			b.expect("hf2 "+l.kind+" 1 T P T {k}", b.heard(one))
			b.expect("hf2 standby V T T", b.heard(writer))
			l.silent(two, "2")
			l.held("1", "2")
			l.lasts("2", 60000)
			b.rdb.Del(b.t.Context(), "{k}")
			// A newcomer does not overtake the waiter, but serves it.
			b.expect("held T P 0 hf2:V:T:T:0:"+info, l.acquire("t", "3", 1))
			b.expect("hf2 rw V T P T {k}", b.heard(writer))
			l.acquire("w", "1", 1)
			l.acquire("w", "2", everything)
			b.rdb.Del(b.t.Context(), "{k}")
			b.expect("left T", l.release("1", heavy("1", 1), 0))
			b.expect("hf2 standby 2 T T", b.heard(two)) // to learn how many there are
			b.expect("left T", l.release("2", heavy("2", everything), 0))
			l.exist(0)
		},
		"tombstone": func(b bench) {
			l := readWrite(b)
			b.expect("absent T", l.release("A", "", b.later(time.Hour)))
			b.expect("gone T", l.acquire("t", "A", 1))
			b.expect("gone T", l.acquire("w", "A", 1))
			b.expect("granted T P T 1", l.acquire("t", "B", 1))
			b.expect("released T", l.release("B", "", b.later(time.Hour)))
			b.expect("gone T", l.acquire("t", "B", 1))
			b.expect("granted T P T 1", l.acquire("t", "W", everything))
			b.expect("queued T P T 1 0 ours", l.acquire("w", "C", 1))
			b.expect("left T", l.release("C", heavy("C", 1), b.later(time.Hour)))
			b.expect("gone T", l.acquire("w", "C", 1))
			b.rdb.Del(b.t.Context(), "{k}", "{k}:q")
			b.expect("absent T", l.release("A", "", b.later(-time.Second))) // already past
			b.expect("granted T P T 1", l.acquire("t", "A", 1))
		},
		"late": func(b bench) {
			l := readWrite(b)
			ask := func(mode, token string, by time.Duration) string {
				return b.eval(script.ShareAcquire(), l.arguments(mode, token, everything, demand{60000, b.later(by), 1})...)
			}
			b.expect("late T", ask("t", "A", -time.Second))
			b.expect("late T", ask("w", "A", -time.Second))
			l.exist(0)
			b.expect("granted T P T 1", ask("t", "A", time.Hour))
			b.expect("granted T P T 1", ask("t", "A", -time.Second)) // it has that already
			b.expect("late T", ask("w", "B", -time.Second))
			b.expect("queued T P T 1 0 ours", ask("w", "B", time.Hour))
			b.expect("queued T P T 1 0 ours", ask("l", "B", -time.Second)) // it creates nothing
		},
		"foreign": func(b bench) {
			l := readWrite(b)
			b.rdb.HSet(b.t.Context(), "{k}", "a", "b")
			wrong := "error BADKIND the key holds another kind of lock, or something else"
			refused := func() {
				for _, reply := range []string{
					l.acquire("t", "A", 1), l.acquire("w", "A", 1), l.acquire("l", "A", 1), l.release("A", "", 0), l.resize(3),
					b.eval(script.ShareRenew(), "", "A", 60000, 0, 0), b.eval(script.ShareWeigh(), "", "A", 1, 0, 0),
				} {
					b.expect(wrong, reply)
				}
			}
			refused()
			if hash := b.rdb.HGetAll(b.t.Context(), "{k}").Val(); len(hash) != 1 || hash["a"] != "b" {
				b.t.Errorf("their hash became %q", hash)
			}
			b.rdb.Set(b.t.Context(), "{k}", "theirs", 0)
			wrong = "error WRONGTYPE Operation against a key holding the wrong kind of value"
			refused()
			expect.Equal(b.t, "their value", b.rdb.Get(b.t.Context(), "{k}").Val(), "theirs")
		},
		"renewed": func(b bench) {
			l := semaphore(b, 3)
			b.expect("absent T", l.renew("A", 60000, 0))
			l.exist(0)
			over := l.brief("A", 1, 6000)
			first := l.hold("A")
			b.expect("gone T", b.eval(script.ShareRenew(), "", "A", 60000, 0, first.fence+1)) // another grant's
			b.expect("gone T", b.eval(script.ShareRenew(), "", "B", 60000, 0, first.fence))
			b.expect("renewed T P 0 0", l.renew("A", 60000, 0))
			l.lasts("A", 60000)
			b.expect("renewed T P 0 0", l.renew("A", 10, 0)) // not shortened
			l.lasts("A", 60000)
			l.brief("B", 1, 6000)
			l.lasts("A", 60000)
			b.expect("renewed T P 0 0", l.renew("B", claim, 0))
			l.lasts("B", claim)
			l.lasts("A", 60000)
			l.past(over) // when A would have expired
			b.expect("renewed T P 0 0", l.renew("A", 60000, 0))
			b.expect("renewed T P T 5", l.renew("A", 10, 5))
			last := backend.LastFence(b.t, b.rdb, "{k}:f")
			if l.hold("A").fence != first.fence || l.hold("A").weight != 1 {
				b.t.Errorf("%v became %v", first, l.hold("A"))
			}
			l.acquire("t", "C", 1)
			if fence := l.hold("C").fence; fence <= last || last < l.hold("B").fence+5 {
				b.t.Errorf("fence %d follows five up to %d", fence, last)
			}
			b.expect("holders T 0 3 3\nP 1 hf2:A:T:T:0:"+info+"\nP 1 hf2:B:T:T:0:"+info+"\nP 1 hf2:C:T:T:0:"+info, l.holders())
			b.rdb.Set(b.t.Context(), "{k}:f", "no fence", 0)
			b.expect("renewed T P 0 0", l.renew("A", 60000, 5)) // as good as without
		},
		"weighed": func(b bench) {
			l := readWrite(b)
			b.expect("absent T", l.weigh("W", 1))
			l.exist(0)
			l.acquire("t", "W", everything)
			first := l.hold("W")
			reader, writer := b.listen("1"), b.listen("V")
			l.acquire("w", "1", 1)
			l.acquire("w", "V", everything)
			for range 2 {
				b.expect("weighed T P T", l.weigh("W", 1))
				if got := l.hold("W"); got.fence != first.fence || got.expiry != first.expiry || got.weight != 1 {
					b.t.Errorf("%v became %v", first, got)
				}
			}
			b.expect("hf2 "+l.kind+" 1 T P T {k}", b.heard(reader))
			b.expect("hf2 standby V T T", b.heard(writer))
			expect.Equal(b.t, "the reader's fence", l.hold("1").fence, first.fence)
			b.expect("held T", l.weigh("W", everything))
			b.expect("held T P 1 hf2:W:T:T:0:"+info, l.acquire("t", "2", 1)) // does not overtake V
			b.expect("released T", l.release("1", "", 0))
			b.expect("left T", l.release("V", heavy("V", everything), 0))
			b.expect("queued T P T 1 0 ours", l.acquire("w", "deaf", everything))
			b.expect("weighed T P T", l.weigh("W", everything))
			if n := b.rdb.ZCard(b.t.Context(), "{k}:q").Val(); n != 1 { // that makes no room
				b.t.Errorf("%d wait for a writer", n)
			}
			b.expect("left T", l.release("deaf", heavy("deaf", everything), 0))
			second := l.hold("W")
			if second.fence <= first.fence || second.weight != everything {
				b.t.Errorf("%v became %v", first, second)
			}
			b.expect("weighed T P T", l.weigh("W", everything))
			expect.Equal(b.t, "weighed again", l.hold("W"), second)
			b.expect("held T P 0 hf2:W:T:T:0:"+info, l.acquire("t", "2", 1))
			l.weigh("W", 1)
			l.acquire("t", "2", 1)
			expect.Equal(b.t, "the fence of a reader after the second writing", l.hold("2").fence, second.fence)
			b.rdb.Set(b.t.Context(), "{k}:f", "no fence", 0)
			l.release("2", "", 0)
			b.expect("error BADFENCE the fence counter {k}:f is not a stream", l.weigh("W", everything))
			if got := l.hold("W"); got.weight != 1 || got.fence != second.fence {
				b.t.Errorf("it is half a writer: %v", got)
			}
		},
		"resized": func(b bench) {
			l := semaphore(b, 3)
			forGood := func() {
				b.t.Helper()
				expect.Equal(b.t, "the lock's PTTL", b.rdb.PTTL(b.t.Context(), "{k}").Val(), -1)
			}
			b.expect("resized T 0 0", l.resize(0))
			l.exist(0)
			b.expect("resized T 2 0", l.resize(2))
			forGood()
			b.expect("granted T P T 1", l.acquire("t", "A", 2)) // whatever limit it names
			forGood()
			b.expect("held T P 0 hf2:A:T:T:0:"+info, semaphore(b, 9).acquire("t", "B", 1))
			b.expect("error BADLIMIT the semaphore has 2 permits, and 3 are wanted at once", l.acquire("t", "B", 3))
			b.expect("renewed T P 0 0", l.renew("A", 60000, 0))
			forGood()
			b.expect("released T", l.release("A", "", 0))
			forGood()
			l.past(l.brief("A", 2, 20))
			b.expect("granted T P T 1", l.acquire("t", "B", 1))
			l.held("B")
			forGood()
			b.expect("granted T P T 1", l.acquire("t", "A", 1))

			// The new limit is below the number of permits held.
			one, two := b.listen("1"), b.listen("2")
			b.expect("queued T P T 1 1 ours", l.acquire("w", "2", 2))
			b.expect("queued T P T 2 1 ours", l.acquire("w", "1", 1))
			b.expect("resized T 1 2", l.resize(1))
			b.expect("hf2 standby 2 T T", b.heard(two)) // it wants more than there are
			b.expect("hf2 standby 1 T T", b.heard(one))
			b.expect("error BADLIMIT the semaphore has 1 permits, and 2 are wanted at once", l.acquire("l", "2", 2))
			b.expect("released T", l.release("A", "", 0))
			l.held("B")
			l.silent(one, "1")
			b.expect("released T", l.release("B", "", 0))
			b.expect("hf2 "+l.kind+" 1 T P T {k}", b.heard(one))

			// The new limit is above the number of permits held.
			b.expect("queued T P T 1 1 ours", l.acquire("w", "2", 1))
			b.expect("resized T 3 2", l.resize(3))
			b.expect("hf2 "+l.kind+" 2 T P T {k}", b.heard(two))
			b.expect("renewed T P 0 0", l.renew("1", 60000, 0))
			forGood()
			b.expect("resized T 0 2", l.resize(0))
			l.lasts("1", 60000)
			l.lasts("2", claim)
			expect.AtLeast(b.t, "the lock's PTTL", b.rdb.PTTL(b.t.Context(), "{k}").Val(), 0)
			b.expect("granted T P T 1", semaphore(b, 9).acquire("t", "A", 1)) // a request that names their number
			b.expect("error BADLIMIT the semaphore has 9 permits for those who use it now, not 3", l.acquire("t", "B", 1))
			b.expect("released T", l.release("A", "", 0))
			b.expect("released T", l.release("1", "", 0))
			b.expect("released T", l.release("2", "", 0))
			l.exist(0)
			l.resize(2)
			b.expect("resized T 0 0", l.resize(0))
			l.exist(0)
			b.expect("granted T P T 1", semaphore(b, 9).acquire("t", "A", 9))
		},
		"errors": func(b bench) {
			l := readWrite(b)
			b.rdb.Set(b.t.Context(), "{k}:f", "-1", 0)
			bad := "error BADFENCE the fence counter {k}:f is not a stream"
			b.expect(bad, l.acquire("t", "W", everything))
			b.expect(bad, l.acquire("t", "A", 1))
			l.exist(0)
			b.rdb.Del(b.t.Context(), "{k}:f")
			l.acquire("t", "W", everything)
			b.listen("V")
			l.acquire("w", "V", everything)
			b.rdb.Set(b.t.Context(), "{k}:f", "-1", 0)
			b.expect("released T", l.release("W", "", 0)) // although nobody can be served
			l.exist(0)
		},
		// Anybody who may publish can make a client send a release for any token.
		"a token that is the name of another field": func(b bench) {
			b.expect("granted T P T 1", semaphore(b, 1).acquire("t", "A", 1))
			before := b.rdb.HGetAll(b.t.Context(), "{k}").Val()
			for field := range before {
				if field == "A" {
					continue
				}
				b.expect("gone T", b.eval(script.ShareRelease(), "", field, "", 0))
				b.expect("gone T", b.eval(script.ShareRenew(), "", field, 60000, 0, before["fence"]))
				b.expect("gone T", b.eval(script.ShareWeigh(), "", field, 1, before["fence"], before["fence"]))
			}
			expect.Equal(b.t, "the lock", fmt.Sprint(b.rdb.HGetAll(b.t.Context(), "{k}").Val()), fmt.Sprint(before))
		},
		// A counter that was set back, as by a replica that lagged, is not a fence.
		"a reader after a counter was put back": func(b bench) {
			fence := func() string { return b.rdb.HGet(b.t.Context(), "{k}", "fence").Val() }
			b.expect("granted T P T 1", readWrite(b).acquire("t", "A", everything))
			writer := fence()
			b.expect("released T", b.eval(script.ShareRelease(), "", "A", "", 0))
			b.setCounter(b.later(-time.Minute))
			b.expect("granted T P T 1", readWrite(b).acquire("t", "B", 1))
			expect.AtLeast(b.t, "the reader's fence", fence(), writer)
			b.expect("released T", b.eval(script.ShareRelease(), "", "B", "", 0))
			b.setCounter(9_999_999_999_999_999)
			b.expect(farAhead, readWrite(b).acquire("t", "C", 1))
		},
		// Dead holders with longer leases have gone; the key lasts as long as those could have.
		"the dead do not say what a lock is": func(b bench) {
			for _, next := range []shares{semaphore(b, 5), readWrite(b), semaphore(b, 3)} {
				b.expect("granted T P T 1", semaphore(b, 3).acquire("t", "A", 1))
				over := semaphore(b, 3).brief("dead", 1, 30)
				b.expect("released T", next.release("A", "", 0))
				next.past(over)
				b.expect("granted T P T 1", next.acquire("t", "B", 1))
				b.expect("released T", b.eval(script.ShareRelease(), "", "B", "", 0))
			}
		},
	})
}

// Fault: The server is out of memory, even at a time when some hold may have expired. Requests that end or prolong a
// hold work.
func TestSharesOutOfMemory(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		l := semaphore(b, 3)
		over := l.brief("A", 1, 6000)
		l.renew("A", 60000, 0)
		l.acquire("t", "B", 1)
		limit := func(memory string) { b.configure("maxmemory", memory) }
		limit("1")
		expect.Contains(t, "an acquire is answered", l.acquire("t", "C", 1), "OOM")
		b.expect("renewed T P 0 0", l.renew("B", 60000, 0))
		l.past(over)
		b.expect("renewed T P 0 0", l.renew("A", 60000, 0))
		limit("0")
		over = l.brief("C", 1, 6000)
		l.renew("C", 60000, 0)
		limit("1")
		l.past(over)
		b.expect("released T", l.release("A", "", 0))
		b.expect("released T", l.release("B", "", 0))
		b.expect("released T", l.release("C", "", 0))
		l.exist(0)
	})
}
