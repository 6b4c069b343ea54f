package scripts

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func owned(b bench) shares { return shares{b, "own", everything} }

// enter acquires it for an owner.
func (l shares) enter(mode, token, owner string) string {
	l.t.Helper()
	return l.eval(script.ShareAcquire(), l.arguments(mode, token, "1\n"+owner, ordinary)...)
}

// disown ends a hold of an owner.
func (l shares) disown(request, owner string) string {
	l.t.Helper()
	return l.eval(script.ShareDisown(), "", request, owner, l.later(time.Minute))
}

// queuedFor is the member of the queue for a waiter of that owner.
func queuedFor(token, owner string) string {
	return token + "\n" + strconv.Itoa(claim) + "\nchannel-" + token + "\n1\n" + owner + "\n" + info
}

func TestOwned(t *testing.T) {
	cases(t, onEach, map[string]func(b bench){
		"again": func(b bench) {
			l := owned(b)
			b.expect("granted T P T 1", l.enter("t", "A", "me"))
			b.expect("granted T P T 1", l.enter("t", "A", "me")) // a repetition does not count
			b.grantAnother()
			b.expect("granted T P T 1", l.enter("t", "B", "me"))
			b.expect("granted T P T 1", l.enter("w", "C", "me"))
			if one, two, three := l.hold("A").fence, l.hold("B").fence, l.hold("C").fence; one != two || two != three {
				b.t.Errorf("one owner's fences are %d, %d and %d", one, two, three)
			}
			b.expect("held T P 0 hf2:C:T:T:0:"+info, l.enter("t", "X", "you"))
			b.expect("holders T 0 3 1000000000\nP 1 hf2:A:T:T:0:"+info+"\nP 1 hf2:B:T:T:0:"+info+"\nP 1 hf2:C:T:T:0:"+info, l.holders())
			b.expect("gone T", l.release("X", "", 0))
			for _, token := range []string{"B", "A", "C"} {
				b.begins("held T ", l.enter("t", "X", "you"))
				b.expect("released T", l.release(token, "", 0))
			}
			l.exist(0)
			b.expect("granted T P T 1", l.enter("t", "X", "you"))
			b.expect("held T P 0 hf2:X:T:T:0:"+info, l.enter("t", "A", "me"))
		},
		"depth": func(b bench) {
			l := shares{b, "own", 2}
			b.expect("granted T P T 1", l.enter("t", "A", "me"))
			b.expect("granted T P T 1", l.enter("t", "B", "me"))
			b.expect("deep T 2", l.enter("t", "C", "me"))
			b.expect("deep T 2", l.enter("w", "C", "me"))
			b.expect("granted T P T 1", l.enter("t", "B", "me"))
			b.expect("held T P 0 hf2:B:T:T:0:"+info, l.enter("t", "X", "you"))
			b.expect("granted T P T 1", owned(b).enter("t", "C", "me")) // one that allows more holds
			l.held("A", "B", "C")
		},
		"an id that looks like a hold": func(b bench) {
			l := owned(b)
			odd := "9000000000000000:1:1:1:{}"
			b.expect("granted T P T 1", l.enter("t", "A", odd))
			b.expect("granted T P T 1", l.enter("t", "B", odd))
			l.held("A", "B")
			b.expect("released T 1", l.disown("r", odd))
			b.expect("released T 0", l.disown("s", odd))
			l.exist(1) // the tombstones of the requests
		},
		"expired": func(b bench) {
			// One hold of the owner expires, the other stays.
			l := owned(b)
			over := l.brief("A", "1\nme", 50)
			b.expect("granted T P T 1", l.enter("t", "B", "me"))
			l.past(over)
			b.expect("held T P 0 hf2:B:T:T:0:"+info, l.enter("t", "X", "you"))
			b.expect("gone T", l.release("A", "", 0))
			b.expect("released T", l.release("B", "", 0))
			l.exist(0)
			over = l.brief("A", "1\nme", 50)
			l.past(over)
			b.expect("free T", l.disown("r", "me"))
			b.expect("granted T P T 1", l.enter("t", "X", "you"))
		},
		"queue": func(b bench) {
			l := owned(b)
			l.enter("t", "A", "me")
			x, y, again := b.listen("X"), b.listen("Y"), b.listen("B")
			b.expect("queued T P T 1 1 ours", l.enter("w", "X", "you"))
			b.expect("queued T P T 2 1 ours", l.enter("w", "Y", "her"))
			b.expect("queued T P T 3 0 ours", l.enter("w", "deaf", "you"))
			b.expect("granted T P T 1", l.enter("w", "C", "me")) // past the waiters
			b.expect("released T", l.release("A", "", 0))
			l.silent(x, "X")
			b.expect("queued T P T 4 1 ours", l.enter("w", "B", "you"))
			b.expect("released T", l.release("C", "", 0))
			b.expect("hf2 own X T P T {k}", b.heard(x))
			b.expect("hf2 standby Y T T", b.heard(y))
			b.expect("hf2 standby B T T", b.heard(again)) // its owner has the lock
			l.held("X")
			b.expect("granted T P T 1", l.enter("l", "B", "you"))
			b.expect("granted T P T 1", l.enter("l", "deaf", "you"))
			l.silent(y, "Y")
			b.expect("released T", l.release("X", "", 0))
			b.expect("released T", l.release("B", "", 0))
			l.silent(y, "Y")
			b.expect("released T", l.release("deaf", "", 0))
			b.expect("hf2 own Y T P T {k}", b.heard(y))
			l.held("Y")
			b.expect("released T", l.release("Y", "", 0))
			l.exist(0)
		},
		"the first enters and another is first": func(b bench) {
			l := owned(b)
			l.enter("t", "A", "me")
			y := b.listen("Y")
			b.expect("queued T P T 1 1 ours", l.enter("w", "Y", "her"))
			// It was queued while another owner had the lock, which is now its own owner's.
			b.rdb.ZAdd(b.t.Context(), "{k}:q", redis.Z{Score: 1, Member: queuedFor("B", "me")})
			b.expect("granted T P T 1", l.enter("l", "B", "me"))
			b.expect("hf2 standby Y T T", b.heard(y))
			l.held("A", "B")
		},
		"depth of those who wait": func(b bench) {
			l := shares{b, "own", 1}
			l.enter("t", "X", "you")
			a, c := b.listen("A"), b.listen("C")
			l.enter("w", "A", "me")
			l.enter("w", "C", "me")
			b.expect("released T", l.release("X", "", 0))
			b.expect("hf2 own A T P T {k}", b.heard(a))
			b.expect("hf2 standby C T T", b.heard(c))
			l.held("A")
			b.expect("deep T 1", l.enter("l", "C", "me"))
			b.expect("released T", l.release("A", "", 0))
			b.expect("hf2 own C T P T {k}", b.heard(c))
		},
		"a hold that ends sooner": func(b bench) {
			// The first in the queue relies on the time that it was told, and is told again when an acquire
			// overtakes it.
			l := owned(b)
			l.enter("t", "A", "me")
			x := b.listen("X")
			l.enter("w", "X", "you")
			l.enter("t", "C", "me")
			l.silent(x, "X")
			over := l.brief("D", "1\nme", 5000)
			if got := b.raw(x); !strings.HasSuffix(got, " "+strconv.FormatInt(over, 10)) {
				b.t.Errorf("the first in the queue is told %q; a hold ends at %d", got, over)
			}
		},
		"disowned": func(b bench) {
			l := owned(b)
			b.expect("free T", l.disown("r1", "me"))
			b.expect("granted T P T 1", l.enter("t", "A", "me"))
			b.expect("free T", l.disown("r1", "me")) // as it was answered
			l.held("A")
			b.expect("held T P 0 hf2:A:T:T:0:"+info, l.disown("r0", "you"))
			b.expect("released T", l.release("A", "", 0))
			b.expect("granted T P T 1", l.enter("t", "Y", "you"))
			b.expect("free T", l.disown("r0", "you"))
			b.expect("released T", l.release("Y", "", 0))
			b.expect("granted T P T 1", l.enter("t", "A", "me"))
			l.brief("B", "1\nme", claim)
			b.expect("held T P 0 hf2:B:T:T:0:"+info, l.disown("r2", "you"))
			l.held("A", "B")
			b.expect("released T 1", l.disown("r3", "me")) // B's would expire first
			l.held("A")
			b.expect("released T 1", l.disown("r3", "me")) // the same again
			l.held("A")
			b.expect("superseded T", b.eval(script.ShareRenew(), "", "B", 60000, 0, 1))
			b.expect("superseded T", l.release("B", "", 0))
			b.expect("gone T", l.release("B", "", 0)) // whose holder knows by now
			b.expect("gone T", b.eval(script.ShareRenew(), "", "C", 60000, 0, 1))
			x := b.listen("X")
			l.enter("w", "X", "you")
			b.expect("late T", b.eval(script.ShareDisown(), "", "r4", "me", 1))
			l.held("A")
			b.expect("released T 0", l.disown("r5", "me"))
			b.expect("hf2 own X T P T {k}", b.heard(x))
			b.expect("released T 0", l.disown("r5", "me"))
			l.held("X")
			b.expect("superseded T", l.release("A", "", 0))
		},
		"notes of ended holds": func(b bench) {
			// One hold of the owner lasts; others die and are ended, again and again. Nobody asks for these any more, so
			// what the index says of them goes once they would have expired.
			l := owned(b)
			l.enter("t", "A", "me")
			var over int64
			for _, token := range []string{"B", "C", "D", "E"} {
				over = l.brief(token, "1\nme", 6000)
				b.expect("released T 1", l.disown("r"+token, "me"))
			}
			l.past(over)
			l.brief("F", "1\nme", 20000)
			b.expect("released T 1", l.disown("rF", "me"))
			notes := b.rdb.ZCount(b.t.Context(), keysFor(script.ShareDisown())[3], "-inf", "(0").Val()
			expect.Equal(b.t, "notes of holds that were ended, of which all but one would have expired", notes, 1)
		},
		"notes end with an index that was made anew": func(b bench) {
			l := owned(b)
			l.enter("t", "A", "me")
			l.brief("B", "1\nme", 20000)
			b.expect("released T", l.release("A", "", 0))
			b.rdb.Del(b.t.Context(), keysFor(script.ShareDisown())[3]) // evicted
			b.begins("renewed T ", l.renew("B", 15000, 0))
			b.expect("released T 0", l.disown("r", "me"))
			l.exist(1)
			if n := b.rdb.PTTL(b.t.Context(), keysFor(script.ShareDisown())[3]).Val(); n == -1 {
				b.t.Errorf("nothing ends the index of a lock that nobody holds: %v", b.rdb.ZRangeWithScores(b.t.Context(), keysFor(script.ShareDisown())[3], 0, -1).Val())
			}
		},
		"another kind": func(b bench) {
			l := owned(b)
			wrong := "error BADKIND the key holds another kind of lock, or something else"
			readWrite(b).acquire("t", "R", 1)
			b.expect(wrong, l.enter("t", "A", "me"))
			b.expect(wrong, l.enter("w", "A", "me"))
			b.expect(wrong, l.disown("r", "me"))
			readWrite(b).release("R", "", 0)
			l.enter("t", "A", "me")
			b.expect(wrong, readWrite(b).acquire("t", "R", 1))
			b.expect("error WRONGTYPE Operation against a key holding the wrong kind of value", b.acquire("t", "M"))
		},
	})
}
