package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// nodeFlags are those of a node of a quorum whose longest lease is a minute.
const nodeFlags = "ns60000+0"

var nodeKeys = []string{"{k}", "{k}:q", "{k}:f", "{k}:caught", "{k}:mark"}

// node runs a script of a quorum's node.
func (b bench) node(s script.Script, args ...any) string {
	b.t.Helper()
	return seen(b.on(nodeKeys, s, append([]any{nodeFlags}, args...)...))
}

func (b bench) vote(token string) string {
	b.t.Helper()
	return b.waits(token, "")
}

// waits votes with a ticket.
func (b bench) waits(token, ticket string) string {
	b.t.Helper()
	return b.node(script.NodeAcquire(), token, 60000, b.later(time.Minute), info, ticket, 60000)
}

// admit ends the quarantine of a new node, and returns its state.
func (b bench) admit() string {
	b.t.Helper()
	b.on([]string{"{k}:mark"}, script.Init(), nodeFlags+"f", "")
	return b.behind()
}

// behind returns the state of a node that is behind.
func (b bench) behind() string {
	b.t.Helper()
	reply := b.on(nodeKeys, script.NodeCounter(), nodeFlags, "")
	_, text, _ := strings.Cut(reply, " ")
	_, text, _ = strings.Cut(text, " ")
	_, id, _ := strings.Cut(text, " ")
	if !strings.HasPrefix(reply, "behind ") || strings.Count(id, "/") != 1 || strings.Count(id, "?") != 1 {
		b.t.Fatalf("a new node says %q", reply)
	}
	return id
}

func TestNodes(t *testing.T) {
	cases(t, onEachReal, map[string]func(b bench){
		"looked at": func(b bench) {
			look := func() string { return seen(b.on([]string{"{k}:mark"}, script.Init(), nodeFlags+"l", "")) }
			b.expect("new T", look())
			b.expect("new T", look()) // it has left no mark
			b.vote("A")
			b.expect("known T", look())
			b.expect("quarantined T P", b.vote("A")) // it has not ended the quarantine
		},
		"new": func(b bench) {
			b.expect("quarantined T P", b.vote("A"))
			b.expect("quarantined T P", b.node(script.NodeCounter(), ""))
			b.expect("quarantined T P", b.node(script.NodeRaise(), "", 5, "x"))
			b.expect("quarantined T P", b.node(script.NodeFence(), "A", 5))
			id := b.admit()
			behind := seen("behind T " + id)
			b.expect(strings.Replace(behind, " T ", " T 0 ", 1), b.node(script.NodeCounter(), ""))
			b.expect(behind, b.node(script.NodeFence(), "A", 5))
			b.expect(behind, b.node(script.NodeRaise(), "", 5, "another"))
			b.expect(behind, b.vote("A"))
			b.expect("raised T 0", b.node(script.NodeRaise(), "", 0, id))
			b.expect("counter T 0", b.node(script.NodeCounter(), ""))
			b.expect("granted T P T", b.vote("A")) // without a counter, fences begin at the time
		},
		"grants": func(b bench) {
			id := b.admit()
			b.expect("raised T 7", b.node(script.NodeRaise(), "", 7, id))
			b.expect("raised T 7", b.node(script.NodeRaise(), "", 5, id)) // never down
			b.expect("granted T P 8", b.vote("A"))
			b.expect("granted T P 8", b.vote("A")) // the same again
			b.expect("held T P 0 hf2:A:8:T:0:"+info, b.vote("B"))
			b.expect("renewed T P 0 0", b.eval(script.Renew(), "", "A", 10, 0, 8))
			b.expect("gone T", b.node(script.NodeFence(), "B", 50))
			b.expect("fenced T P", b.node(script.NodeFence(), "A", 20))
			b.expect("fenced T P", b.node(script.NodeFence(), "A", 15)) // never down
			b.expect("counter T 20", b.node(script.NodeCounter(), ""))
			b.expect("released T", b.release("A", "", 0))
			b.expect("gone T", b.node(script.NodeFence(), "A", 30))
			b.expect("granted T P 21", b.vote("B"))
		},
		"late, and given up": func(b bench) {
			b.node(script.NodeRaise(), "", 7, b.admit())
			b.expect("late T", b.node(script.NodeAcquire(), "A", 60000, b.later(-time.Second), info, "", 0))
			b.expect("absent T", b.release("A", "", b.later(time.Hour)))
			b.expect("gone T", b.vote("A"))
			b.expect("counter T 7", b.node(script.NodeCounter(), ""))
			b.expect("granted T P 8", b.vote("B"))
		},
		"waited for": func(b bench) {
			b.node(script.NodeRaise(), "", 7, b.admit())
			b.expect("granted T P 8", b.vote("A"))
			b.expect("held T P 0 hf2:A:8:T:0:"+info, b.waits("C", "21"))
			b.expect("held T P 1 hf2:A:8:T:0:"+info, b.waits("D", "22"))
			b.expect("held T P 0 hf2:A:8:T:0:"+info, b.waits("B", "11"))
			b.expect("held T P 3 hf2:A:8:T:0:"+info, b.vote("E")) // and has no place
			b.expect("held T P 0 hf2:A:8:T:0:"+info, b.waits("F", "0"))
			b.expect("released T", b.release("A", "", 0))
			b.expect("wanted T 3", b.vote("E"))
			b.expect("wanted T 2", b.waits("D", "22"))
			b.expect("wanted T 1", b.waits("C", "21"))
			b.expect("granted T P 9", b.waits("B", "11"))
			b.expect("released T", b.release("B", "", 0))
			b.expect("wanted T 1", b.waits("C", "21")) // the token that was granted it may have to come again
			b.expect("left T", b.release("X", "t:11", 0))
			b.expect("left T", b.release("X", "t:22", 0))
			b.expect("granted T P 10", b.waits("F", "0")) // ahead of all others
			b.expect("released T", b.release("F", "", 0))
			b.expect("granted T P 11", b.waits("C", "21"))
			b.expect("released T", b.release("C", "", b.later(time.Second)))
			b.expect("gone T", b.waits("C", "31"))
			b.expect("late T", b.node(script.NodeAcquire(), "A", 60000, b.later(-time.Second), info, "12", 60000)) // leaves no ticket
			b.expect("wanted T 1", b.vote("E"))
			b.rdb.ZAdd(b.t.Context(), "{k}:q", redis.Z{Score: -float64(b.later(-time.Second)), Member: "t:21"}) // it has expired
			b.expect("granted T P 12", b.vote("E"))
		},
		"restarted": func(b bench) {
			b.node(script.NodeRaise(), "", 7, b.admit())
			b.expect("granted T P 8", b.vote("A"))
			// Its data seem to be those of another incarnation.
			b.rdb.Set(b.t.Context(), "{k}:mark", fmt.Sprintf("hf2:run/repl:%d:60000", b.later(-time.Hour)), 0)
			b.expect("quarantined T P", b.vote("A"))
			b.expect("quarantined T P", b.node(script.NodeFence(), "A", 20))
			reply := b.on([]string{"{k}", "{k}:q", "{k}:f", "{k}:mark"}, script.Renew(), nodeFlags, "A", 60000, 0, 8)
			b.expect("quarantined T P", seen(reply)) // it extends nothing
		},
		"behind with its data": func(b bench) {
			id := b.admit()
			expect.Lacks(b.t, "where a new node stands", id, "+")
			b.node(script.NodeRaise(), "", 7, id)
			// It seems to have restarted, twice.
			for _, known := range []string{"run/repl", "run/repl?5+"} {
				b.rdb.Set(b.t.Context(), "{k}:caught", known, 0)
				stands := b.behind()
				if !strings.HasSuffix(stands, "+") {
					b.t.Errorf("after %s it stands as %s", known, stands)
				}
				b.expect(seen("behind T 7 "+stands), b.node(script.NodeCounter(), ""))
				b.expect(seen("behind T "+stands), b.vote("A"))
			}
			b.rdb.Set(b.t.Context(), "{k}:caught", "run/repl?5", 0) // it was new, and restarted
			expect.Lacks(b.t, "where a new node stands after its restart", b.behind(), "+")
			b.expect("raised T 9", b.node(script.NodeRaise(), "", 9, b.behind()))
			b.expect("granted T P 10", b.vote("A"))
		},
		"emptied again": func(b bench) {
			first := b.admit()
			b.expect("raised T 7", b.node(script.NodeRaise(), "", 7, first))
			if err := b.rdb.FlushAll(b.t.Context()).Err(); err != nil { // no restart
				b.t.Fatal(err)
			}
			second := b.admit()
			// Values read earlier are no longer valid.
			b.expect(seen("behind T "+second), b.node(script.NodeRaise(), "", 7, first))
			b.expect(seen("behind T "+second), b.vote("A"))
			b.expect("raised T 9", b.node(script.NodeRaise(), "", 9, second))
			b.expect("raised T 9", b.node(script.NodeRaise(), "", 7, first)) // it changes nothing now
			b.expect("granted T P 10", b.vote("A"))
		},
		"errors": func(b bench) {
			id := b.admit()
			b.rdb.Set(b.t.Context(), "{k}:f", "-1", 0)
			bad := "error BADFENCE the fence counter {k}:f is not a stream"
			b.expect(bad, b.node(script.NodeRaise(), "", 7, id))
			b.rdb.Del(b.t.Context(), "{k}:f")
			b.node(script.NodeRaise(), "", 7, id)
			b.rdb.Set(b.t.Context(), "{k}:f", "x", 0)
			b.expect(bad, b.vote("A"))
			b.expect(bad, b.node(script.NodeCounter(), ""))
			b.setCounter(b.later(25 * time.Hour))
			for _, said := range []string{
				b.vote("A"), b.node(script.NodeCounter(), ""), b.node(script.NodeRaise(), "", b.later(25*time.Hour), id),
			} {
				b.begins("error BADFENCE the fence counter {k}:f leads the server's clock by more than a day", said)
			}
			b.setCounter(1)
			// Another's counter, which somebody has set.
			b.begins("error BADFENCE ", b.node(script.NodeRaise(), "", b.later(25*time.Hour), id))
			b.gone("a lock that is half taken", "{k}")
		},
	})
}
