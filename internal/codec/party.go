package codec

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Ending says how a party of a latch or barrier ends.
type Ending string

const (
	Unaware     Ending = "" // the party never learned that it was one
	Left        Ending = "left"
	Died        Ending = "died"
	CountedDown Ending = "done"
)

// CountDown counts down for a party of a latch that has not joined: latch_count.lua. id is the same in all copies of the
// request. notAfter is server time in µs. The reply's count is that of parties that are left.
func CountDown(l Lock, id string, parties int, notAfter int64) Request[Reply] {
	return simple{
		l.onLock(script.LatchCount(), id, strconv.Itoa(parties), decimal(notAfter)),
		forms{{Counted, []field{count}}, {Taken, []field{count}}, {Late, nil}},
	}
}

// LookAtLatch asks for a latch's count: latch_look.lua.
type LookAtLatch struct {
	Lock    Lock
	Parties int
	Since   int64 // which count; 0 for the present one
}

func (q *LookAtLatch) Call() driver.Call {
	return q.Lock.onLock(script.LatchLook(), "", strconv.Itoa(q.Parties), decimal(q.Since))
}

// LatchReply describes a latch's count. Its word says which fields are set:
//
//	CountIs  all
//	Opened   Missing: the count came to 0, and another has begun
//	Reset    none: another count has begun, perhaps before this one came to 0
type LatchReply struct {
	Head
	Since   int64 // which count
	Left    int   // parties that have not ended
	Missing int   // parties that ended without counting down
	// TTL is the time until a party that has joined may have died; negative if none has joined.
	TTL time.Duration
}

func (q *LookAtLatch) Parse(text string) (LatchReply, error) {
	r := begin(text)
	reply := LatchReply{Head: r.Head}
	switch asked := q.Since != 0; {
	case r.Word == CountIs:
		reply.Since, reply.Left, reply.Missing, reply.TTL = r.number(1), r.count(0), r.count(0), r.ttl()
	case r.Word == Opened && asked:
		reply.Missing = r.count(0)
	default:
		r.bad = r.Word != Reset || !asked
	}
	return finish(&r, reply)
}

// ResetLatch begins a latch's count again, or deletes the latch if parties is 0: latch_reset.lua. id and notAfter are as in CountDown.
func ResetLatch(l Lock, id string, parties int, notAfter int64) Request[Reply] {
	return simple{l.onLock(script.LatchReset(), id, strconv.Itoa(parties), decimal(notAfter)), forms{{Reset, nil}, {Late, nil}}}
}

// Await makes a party arrive at a barrier, or asks whether it may go on: barrier_await.lua.
type Await struct {
	Lock    Lock
	Token   string // the party's
	Number  uint64 // of the await, from 1
	Phase   uint64 // at which the party arrives; 0 for that of its previous await, or of its joining
	Parties int
	Passed  uint64 // the latest phase that the party knows to have tripped, or 0
}

func (q *Await) Call() driver.Call {
	return q.Lock.onLock(script.BarrierAwait(), q.Token, unsigned(q.Number), unsigned(q.Phase), strconv.Itoa(q.Parties), unsigned(q.Passed))
}

// AwaitReply is the reply to an await. Its word says which fields are set:
//
//	Waiting      TTL and Phase
//	Tripped      Phase
//	Broken       Phase, Present, Died and Info
//	Gone, Absent, Stale  none
type AwaitReply struct {
	Head
	Phase   uint64        // of the await
	TTL     time.Duration // until some party may have died
	Present uint64        // the phase after the broken ones
	Died    bool          // the latest party to break a phase died; otherwise it left
	Info    wire.Info     // about that party
}

func (q *Await) Parse(text string) (AwaitReply, error) {
	r := begin(text)
	reply := AwaitReply{Head: r.Head}
	switch r.Word {
	case Waiting:
		reply.TTL, reply.Phase, _ = r.ttl(), r.fence(1), r.count(0) // how many have arrived
	case Tripped:
		reply.Phase = r.fence(1)
	case Broken:
		reply.Phase, reply.Present = r.fence(1), r.fence(1)
		r.bad = r.bad || reply.Present <= reply.Phase
		reply.Died = r.oneOf("died", "left")
		reply.Info = wire.ParseInfo(r.all())
	case Gone, Absent, Stale:
	default:
		r.bad = true
	}
	return finish(&r, reply)
}

// Withdraw takes back a party's await, by its number: barrier_withdraw.lua.
func Withdraw(l Lock, token string, number uint64) Request[Reply] {
	return simple{urgent(l.onLock(script.BarrierWithdraw(), token, unsigned(number))), forms{{Withdrawn, nil}, {Stale, nil}, {Gone, nil}}}
}
