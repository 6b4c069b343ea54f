package codec

import (
	"slices"
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

// BatchRenew renews many mutexes: batch_renew.lua.
type BatchRenew struct {
	Flags Flags

	keys   []string
	grants []byte // the beginnings of the locks' values, one after another
	ends   []int  // of each in grants
	terms  []time.Duration
}

// NewBatchRenew returns a batch with room for n locks. Renewals are most of what a process with many leases does.
func NewBatchRenew(f Flags, n int) BatchRenew {
	return BatchRenew{Flags: f, keys: make([]string, 0, n), ends: make([]int, 0, n), terms: make([]time.Duration, 0, n)}
}

// Add adds a lock, by the head of its value and the fence of its grant.
func (b *BatchRenew) Add(lock string, head wire.Head, fence uint64, ttl time.Duration) {
	b.keys = append(b.keys, lock)
	b.grants = head.AppendGrant(b.grants, fence)
	b.ends = append(b.ends, len(b.grants))
	b.terms = append(b.terms, ttl)
}

// Call returns the script's call. If all terms are the same, the script gets one.
func (b *BatchRenew) Call() driver.Call {
	terms := b.terms
	if !slices.ContainsFunc(terms, func(t time.Duration) bool { return t != terms[0] }) {
		terms = terms[:1]
	}
	args := append(make([]string, 0, 1+len(b.keys)+len(terms)), string(b.Flags))
	grants, from := string(b.grants), 0
	for _, to := range b.ends {
		args = append(args, grants[from:to])
		from = to
	}
	for _, t := range terms {
		args = append(args, milliseconds(t))
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
		r.bad = r.bad || i > int64(len(b.keys))
		reply.Left = append(reply.Left, int(i-1))
		last = i
	}
	return finish(&r, reply)
}
