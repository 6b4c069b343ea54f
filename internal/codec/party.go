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

// LookAtLatch asks for a latch's count that began at Since, or for the present one if since is 0: latch_look.lua. CountIs tells how many
// parties have not ended, how many of the others ended without counting down, and how long it is until one that has joined may have died,
// which is negative if none has joined. Opened says that the count came to 0, and another has begun; Reset that another has begun, perhaps
// before this one came to 0.
func LookAtLatch(l Lock, parties int, since int64) Request[Reply] {
	replies := forms{{CountIs, []field{began, count, missing, ttl}}}
	if since != 0 {
		replies = append(replies, form{Opened, []field{missing}}, form{Reset, nil})
	}
	return simple{l.onLock(script.LatchLook(), "", strconv.Itoa(parties), decimal(since)), replies}
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
