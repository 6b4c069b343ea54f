package codec

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// BatchReply is the reply to BatchRenew: Kept.
type BatchReply struct {
	Head
	// Left lists the items, from 0 and ascending, that were not renewed. Each has to be renewed by itself.
	Left []int
}

// Done reports whether item i was renewed. It has to be called for all items in order. If the batch failed, it returns false.
func (r *BatchReply) Done(i int) bool {
	if len(r.Left) > 0 && r.Left[0] == i {
		// mutants: next-left
		r.Left = r.Left[1:]
		return false
	}
	return r.Word != ""
}

// BatchRenew renews many mutexes: batch_renew.lua. Set Flags before Call.
type BatchRenew struct {
	Flags Flags

	n      int
	keys   []string
	grants []byte // the beginnings of the locks' values, concatenated
	ends   []int  // of each grant in grants
	terms  []time.Duration
	ttl    time.Duration // of all items, if terms is nil
}

// NewBatchRenew returns a batch of n items.
func NewBatchRenew(n int) BatchRenew {
	return BatchRenew{n: n, keys: make([]string, 0, n), ends: make([]int, 0, n)}
}

// Add adds a lock, by the head of its value and the fence of its grant.
func (b *BatchRenew) Add(lock string, head wire.Head, fence uint64, ttl time.Duration) {
	const longestFence = 17 // until the year 2255, with the colon
	i := len(b.keys)
	if i == 0 {
		b.grants, b.ttl = make([]byte, 0, b.n*(len(head)+longestFence)), ttl
	}
	b.keys = append(b.keys, lock)
	b.grants = head.AppendGrant(b.grants, fence)
	b.ends = append(b.ends, len(b.grants))
	if b.terms == nil && ttl != b.ttl {
		b.terms = make([]time.Duration, i, b.n)
		for j := range i {
			b.terms[j] = b.ttl
		}
	}
	if b.terms != nil {
		b.terms = append(b.terms, ttl)
	}
}

// Call returns the script's call. All items must have been added.
func (b *BatchRenew) Call() driver.Call {
	args := append(make([]string, 0, 2+b.n+len(b.terms)), string(b.Flags))
	text, from := string(b.grants), 0
	for _, to := range b.ends {
		args = append(args, text[from:to])
		from = to
	}
	if b.terms == nil {
		args = append(args, milliseconds(b.ttl))
	}
	for _, ttl := range b.terms {
		args = append(args, milliseconds(ttl))
	}
	return renewing(driver.Call{Script: script.BatchRenew(), Keys: b.keys, Args: args})
}

// Parse reads the script's reply, which numbers the items from 1.
func (b *BatchRenew) Parse(text string) (BatchReply, error) {
	r := begin(text)
	reply := BatchReply{Head: r.Head}
	r.bad = r.Word != Kept
	for last := int64(0); r.rest != "" && !r.bad; {
		i := r.number(last + 1)
		r.bad = r.bad || i > int64(b.n)
		reply.Left = append(reply.Left, int(i-1))
		last = i
	}
	return finish(&r, reply)
}
