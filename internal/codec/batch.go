package codec

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A batch is made item by item, in one piece of memory that is as large as it has to be if its items are alike: most
// are. The caller says how many they are.

// BatchAcquire asks for many mutexes that look free: batch_acquire.lua. The fields are to be set before Call.
type BatchAcquire struct {
	Flags    Flags
	Fence    string // the key of the fence counter
	NotAfter int64  // server time, µs
	items    acquireItems
}

// NewBatchAcquire returns a batch of n items.
func NewBatchAcquire(n int) BatchAcquire { return BatchAcquire{items: newAcquireItems(n)} }

// Add adds a lock, with the head of the value that it is to have.
func (b *BatchAcquire) Add(lock, queue string, head wire.Head, ttl time.Duration, info string) {
	b.items.add(lock, queue, head, ttl, info)
}

// Call returns the script's call, when all items have been added.
func (b *BatchAcquire) Call() driver.Call {
	return b.items.call(script.BatchAcquire(), b.Flags, b.NotAfter, b.Fence)
}

// NodeBatchAcquire is BatchAcquire for a node of a quorum: node_batch_acquire.lua. Of Keys it takes what concerns the
// server.
type NodeBatchAcquire struct {
	Flags    Flags
	Keys     Keys
	NotAfter int64 // server time, µs
	items    acquireItems
}

// NewNodeBatchAcquire returns a batch of n items.
func NewNodeBatchAcquire(n int) NodeBatchAcquire {
	return NodeBatchAcquire{items: newAcquireItems(n)}
}

// Add adds a lock, with the head of the value that it is to have.
func (b *NodeBatchAcquire) Add(lock, queue string, head wire.Head, ttl time.Duration, info string) {
	b.items.add(lock, queue, head, ttl, info)
}

// Call returns the script's call, when all items have been added.
func (b *NodeBatchAcquire) Call() driver.Call {
	return b.items.call(script.NodeBatchAcquire(), b.Flags, b.NotAfter, b.Keys.Fence, b.Keys.CaughtUp, b.Keys.Mark)
}

// acquireItems are the locks that a batch asks for.
type acquireItems struct {
	n     int      // how many there will be
	added int      // how many there are
	words []string // locks; queues; room for keys of the server; flags and not-after; heads
	terms []string // the TTLs of all items, if items differ; else nil
	infos []string // and their infos

	ttl  time.Duration // of the first item
	info string
}

// maxServerKeys is the number of keys that a batch takes besides those of its locks.
const maxServerKeys = 3

func newAcquireItems(n int) acquireItems {
	return acquireItems{n: n, words: make([]string, 3*n+maxServerKeys+4)}
}

// args is where the arguments begin.
func (b *acquireItems) args() int { return 2*b.n + maxServerKeys }

func (b *acquireItems) add(lock, queue string, head wire.Head, ttl time.Duration, info string) {
	i := b.added
	b.words[i], b.words[b.n+i], b.words[b.args()+2+i] = lock, queue, string(head)
	b.added++
	if i == 0 {
		b.ttl, b.info = ttl, info
	}
	if b.terms == nil && (ttl != b.ttl || info != b.info) {
		b.terms, b.infos = make([]string, i, b.n), make([]string, i, b.n)
		first := milliseconds(b.ttl)
		for j := range i {
			b.terms[j], b.infos[j] = first, b.info
		}
	}
	if b.terms != nil {
		b.terms, b.infos = append(b.terms, milliseconds(ttl)), append(b.infos, info)
	}
}

func (b *acquireItems) call(s driver.Script, flags Flags, notAfter int64, server ...string) driver.Call {
	at := b.args()
	keys, args := b.words[:2*b.n:at], b.words[at:at+2+b.n]
	args[0], args[1] = string(flags), decimal(notAfter)
	if b.terms == nil {
		args = append(args, milliseconds(b.ttl), b.info)
	} else {
		args = append(append(args, b.terms...), b.infos...)
	}
	return driver.Call{Script: s, Keys: append(keys, server...), Args: args}
}

// BatchReply is the reply to a batch. Which of its fields counts depends on its word:
//
//	Taken                Fence and Left; of an acquire
//	Freed                Left; of a release, whose reply does not have the time
//	Kept                 Left; of a renewal
//	Quarantined, Behind  Refusal of all items; of NodeBatchAcquire
type BatchReply struct {
	Head
	Fence  uint64   // of the first item; see FenceOf
	fences []uint64 // of all items, of a spread batch
	// Left has the items that were left as they are, to be asked for by themselves: from 0, ascending.
	Left    []int
	Refusal Refusal
	// Denied is for how many of these the server refused a command: of a spread batch.
	Denied int
}

// FenceOf returns the fence of item i, if that was done. They follow each other one by one, except those of a spread batch.
func (r *BatchReply) FenceOf(i int) uint64 {
	if r.fences != nil {
		return r.fences[i]
	}
	return r.Fence + uint64(i)
}

// Refuses reports whether all items were refused alike.
func (r *BatchReply) Refuses() bool { return r.Word == Quarantined || r.Word == Behind }

// Done reports whether item i was done. It is called for all items in turn; of a batch that failed, it returns false.
func (r *BatchReply) Done(i int) bool {
	if len(r.Left) > 0 && r.Left[0] == i {
		// mutants: next-left
		r.Left = r.Left[1:]
		return false
	}
	return r.Word != "" && !r.Refuses()
}

// Parse reads the script's reply.
func (b *BatchAcquire) Parse(text string) (BatchReply, error) { return b.items.parse(text, false) }

// Parse reads the script's reply.
func (b *NodeBatchAcquire) Parse(text string) (BatchReply, error) { return b.items.parse(text, true) }

func (b *acquireItems) parse(text string, node bool) (BatchReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return BatchReply{}, err
	}
	reply := BatchReply{Head: head}
	switch {
	case head.Word == Taken:
		reply.Fence = r.fence(0)
		reply.Left = r.left(b.n)
		r.bad = r.bad || reply.Fence == 0 && len(reply.Left) < b.n
	case node:
		reply.Refusal = r.refusal(head.Word)
	default:
		r.bad = true
	}
	return finish(&r, reply)
}

// BatchRelease gives up many mutexes that nobody waits for: batch_release.lua.
type BatchRelease struct {
	n, added int
	words    []string
}

// NewBatchRelease returns a batch of n items.
func NewBatchRelease(n int) BatchRelease { return BatchRelease{n: n, words: make([]string, 2*n)} }

// Add adds a lock, with the head of its value.
func (b *BatchRelease) Add(lock string, head wire.Head) {
	b.words[b.added], b.words[b.n+b.added] = lock, string(head)
	b.added++
}

// Call returns the script's call, when all items have been added.
func (b *BatchRelease) Call() driver.Call { return urgent(call(script.BatchRelease(), b.words, b.n)) }

// Parse reads the script's reply.
func (b *BatchRelease) Parse(text string) (BatchReply, error) {
	t, err := wire.ParseTimeless(text)
	if err != nil {
		return BatchReply{}, err
	}
	r := reader{rest: t.Rest(), bad: Word(t.Word) != Freed}
	return finish(&r, BatchReply{Head: Head{Word: Freed}, Left: r.left(b.n)})
}

// DeleteIfEqual is the server's own command that gives up a mutex whose whole value is known. It does what BatchRelease
// does for one item.
type DeleteIfEqual struct{ Lock, Value string }

// Call returns the command's call.
func (q *DeleteIfEqual) Call() driver.Call {
	return driver.Call{Script: script.DeleteIfEqual, Keys: []string{q.Lock}, Args: []string{q.Value}, Urgent: true}
}

// Parse reads the command's reply, as that of a batch of one.
func (q *DeleteIfEqual) Parse(text string) (BatchReply, error) {
	reply := BatchReply{Head: Head{Word: Freed}}
	switch text {
	case "1":
		return reply, nil
	case "0":
		reply.Left = []int{0}
		return reply, nil
	}
	return BatchReply{}, wire.ErrMalformed
}

// BatchRenew renews many mutexes: batch_renew.lua. Flags is to be set before Call.
type BatchRenew struct {
	Flags Flags

	n      int
	keys   []string
	grants []byte // how the values of the locks begin, one after another
	ends   []int  // of each
	terms  []time.Duration
	ttl    time.Duration // of all items, if terms is nil
}

// NewBatchRenew returns a batch of n items.
func NewBatchRenew(n int) BatchRenew {
	return BatchRenew{n: n, keys: make([]string, 0, n), ends: make([]int, 0, n)}
}

// Add adds a lock, with the head of its value and the fence of its grant.
func (b *BatchRenew) Add(lock string, head wire.Head, fence uint64, ttl time.Duration) {
	const longestFence = 17 // until the year 2255, with its colon
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

// Call returns the script's call, when all items have been added.
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

// Parse reads the script's reply.
func (b *BatchRenew) Parse(text string) (BatchReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return BatchReply{}, err
	}
	r.bad = head.Word != Kept
	return finish(&r, BatchReply{Head: head, Left: r.left(b.n)})
}
