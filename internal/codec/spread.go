package codec

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A spread batch is one whose locks are in several slots of one Cluster's master. Only the key of its first lock is among
// the call's keys.

// SpreadAcquire is BatchAcquire for locks in several slots: spread_acquire.lua. The fields are to be set before Call.
type SpreadAcquire struct {
	Flags    Flags
	Space    keys.Space // of the locks
	NotAfter int64      // server time, µs
	n        int
	words    []string        // lock, queue, fence counter and head of each item
	terms    []time.Duration // the TTLs of all items
	infos    []string        // and their infos
	differ   bool            // whether items differ in these
}

// NewSpreadAcquire returns a batch of n items.
func NewSpreadAcquire(n int) SpreadAcquire {
	return SpreadAcquire{n: n, words: make([]string, 0, 4*n), terms: make([]time.Duration, 0, n), infos: make([]string, 0, n)}
}

// Add adds a lock, with the head of the value that it is to have.
func (b *SpreadAcquire) Add(lock, queue string, head wire.Head, ttl time.Duration, info string) {
	b.words = append(b.words, lock, queue, b.Space.SlotFence(keys.Slot(lock)), string(head))
	b.terms, b.infos = append(b.terms, ttl), append(b.infos, info)
	b.differ = b.differ || ttl != b.terms[0] || info != b.infos[0]
}

// Call returns the script's call, when all items have been added.
func (b *SpreadAcquire) Call() driver.Call {
	args := make([]string, 0, 4+6*b.n)
	args = append(args, string(b.Flags), decimal(b.NotAfter))
	if !b.differ {
		args = append(args, milliseconds(b.terms[0]), b.infos[0])
		args = append(args, b.words...)
	} else {
		args = append(args, "", "")
		for i := range b.n {
			args = append(append(args, b.words[4*i:4*i+4]...), milliseconds(b.terms[i]), b.infos[i])
		}
	}
	return driver.Call{Script: script.SpreadAcquire(), Keys: b.words[:1:1], Args: args}
}

// Parse reads the script's reply.
func (b *SpreadAcquire) Parse(text string) (BatchReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return BatchReply{}, err
	}
	r.bad = head.Word != Taken
	reply := BatchReply{Head: head, Denied: r.count(0), fences: make([]uint64, b.n)}
	for i := range reply.fences {
		if reply.fences[i] = r.fence(0); reply.fences[i] == 0 {
			reply.Left = append(reply.Left, i)
		}
	}
	return finish(&r, reply)
}

// SpreadRelease is BatchRelease for locks in several slots: spread_release.lua.
type SpreadRelease struct {
	n     int
	words []string // lock and head of each item
}

// NewSpreadRelease returns a batch of n items.
func NewSpreadRelease(n int) SpreadRelease {
	return SpreadRelease{n: n, words: make([]string, 0, 2*n)}
}

// Add adds a lock, with the head of its value.
func (b *SpreadRelease) Add(lock string, head wire.Head) {
	b.words = append(b.words, lock, string(head))
}

// Call returns the script's call, when all items have been added.
func (b *SpreadRelease) Call() driver.Call {
	return driver.Call{Script: script.SpreadRelease(), Keys: b.words[:1:1], Args: b.words, Urgent: true}
}

// Parse reads the script's reply.
func (b *SpreadRelease) Parse(text string) (BatchReply, error) {
	t, err := wire.ParseTimeless(text)
	if err != nil {
		return BatchReply{}, err
	}
	r := reader{rest: t.Rest(), bad: Word(t.Word) != Freed}
	return finish(&r, BatchReply{Head: Head{Word: Freed}, Denied: r.count(0), Left: r.left(b.n)})
}

// SpreadRenew is BatchRenew for locks in several slots: spread_renew.lua. Flags is to be set before Call.
type SpreadRenew struct {
	Flags  Flags
	n      int
	words  []string // lock and grant of each item
	terms  []time.Duration
	differ bool // whether the TTLs differ
}

// NewSpreadRenew returns a batch of n items.
func NewSpreadRenew(n int) SpreadRenew {
	return SpreadRenew{n: n, words: make([]string, 0, 2*n), terms: make([]time.Duration, 0, n)}
}

// Add adds a lock, with the head of its value and the fence of its grant.
func (b *SpreadRenew) Add(lock string, head wire.Head, fence uint64, ttl time.Duration) {
	b.words = append(b.words, lock, string(head.AppendGrant(nil, fence)))
	b.terms = append(b.terms, ttl)
	b.differ = b.differ || ttl != b.terms[0]
}

// Call returns the script's call, when all items have been added.
func (b *SpreadRenew) Call() driver.Call {
	args := append(make([]string, 0, 2+3*b.n), string(b.Flags))
	if !b.differ {
		args = append(append(args, milliseconds(b.terms[0])), b.words...)
	} else {
		args = append(args, "")
		for i, ttl := range b.terms {
			args = append(args, b.words[2*i], b.words[2*i+1], milliseconds(ttl))
		}
	}
	return renewing(driver.Call{Script: script.SpreadRenew(), Keys: b.words[:1:1], Args: args})
}

// Parse reads the script's reply.
func (b *SpreadRenew) Parse(text string) (BatchReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return BatchReply{}, err
	}
	r.bad = head.Word != Kept
	return finish(&r, BatchReply{Head: head, Denied: r.count(0), Left: r.left(b.n)})
}
