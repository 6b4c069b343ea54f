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

	keys, grants, terms []string
}

// Add adds a lock, by the head of its value and the fence of its grant.
func (b *BatchRenew) Add(lock string, head wire.Head, fence uint64, ttl time.Duration) {
	b.keys = append(b.keys, lock)
	b.grants = append(b.grants, string(head.AppendGrant(nil, fence)))
	b.terms = append(b.terms, milliseconds(ttl))
}

// Call returns the script's call. If all terms are the same, the script gets one.
func (b *BatchRenew) Call() driver.Call {
	terms := b.terms
	if distinct := slices.Compact(slices.Clone(terms)); len(distinct) == 1 {
		terms = distinct
	}
	return renewing(onKeys(script.BatchRenew(), b.keys, b.Flags, slices.Concat(b.grants, terms)...))
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
