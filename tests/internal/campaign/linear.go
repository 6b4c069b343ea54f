package campaign

import (
	"bufio"
	"cmp"
	"encoding/json"
	"math"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// deciding bounds one check. Only histories with many unanswered requests come near it.
const deciding = 30 * time.Second

func decide(v *Verdict, rule Rule, name string, model porcupine.Model, operations []porcupine.Operation) {
	switch porcupine.CheckOperationsTimeout(model, operations, deciding) {
	case porcupine.Illegal:
		v.find(rule, "lock %q: no order of its %d operations explains their results", name, len(operations))
	case porcupine.Unknown:
		v.Unknown++
	}
}

// byName groups a list by name, and keeps the order.
func byName[T any](list []T, name func(T) string) map[string][]T {
	groups := map[string][]T{}
	for _, x := range list {
		groups[name(x)] = append(groups[name(x)], x)
	}
	return groups
}

// judgeModel requires that grants and ends of holds can be put in an order that the lock's model allows. A hold
// can end at any moment after its release was called or its deadline passed.
func judgeModel(v *Verdict, events []history.Event, model porcupine.Model) {
	for name, events := range byName(events, func(e history.Event) string { return e.Name }) {
		var operations []porcupine.Operation
		for i, e := range events {
			end := e.Deadline
			if e.Released != 0 {
				end = min(end, e.Released)
			}
			if e.Granted == 0 || end <= e.Granted {
				continue
			}
			operations = append(operations,
				porcupine.Operation{Input: Taken{i + 1, e.Share, e.Fence}, Call: e.Asked, Return: e.Granted},
				porcupine.Operation{Input: Given{i + 1, e.Share}, Call: end, Return: math.MaxInt64})
		}
		decide(v, Sequential, name, model, operations)
	}
}

// update is a read and a write of one holder, as one operation. Either may be missing.
type update struct {
	read, write *worker.Access
}

// updateModel is the guarded resource as its users want it: a value that they read stays until they write.
var updateModel = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, _ any) (bool, any) {
		u := input.(update)
		legal := u.read == nil || u.read.Value == state.(uint64)
		if u.write != nil {
			return legal, u.write.Value
		}
		return legal, state
	},
}

// judgeRegisters requires that the updates of each register happened in some order.
func judgeRegisters(v *Verdict, r *Record) {
	for name, accesses := range byName(r.accesses, func(x worker.Access) string { return x.Name }) {
		decide(v, Resource, name, updateModel, updates(accesses))
	}
}

// updates pairs every accepted read with its holder's next accepted write.
func updates(accesses []worker.Access) []porcupine.Operation {
	var all []porcupine.Operation
	for _, mine := range byHold(accesses) {
		slices.SortFunc(mine, func(a, b worker.Access) int { return cmp.Compare(a.ID, b.ID) })
		var read *worker.Access
		flush := func() {
			if read != nil {
				all = append(all, porcupine.Operation{Input: update{read: read}, Call: read.Call, Return: read.End()})
				read = nil
			}
		}
		for i := range mine {
			x := &mine[i]
			switch {
			case !x.OK:
			case !x.Write:
				flush()
				read = x
			case read != nil:
				all = append(all, porcupine.Operation{Input: update{read, x}, Call: read.Call, Return: x.End()})
				read = nil
			default:
				all = append(all, porcupine.Operation{Input: update{write: x}, Call: x.Call, Return: x.End()})
			}
		}
		flush()
	}
	return all
}

// hold identifies a hold, or several shares that a goroutine had with one fence.
type hold struct {
	process, goroutine int
	name               string
	fence              uint64
}

func byHold(accesses []worker.Access) map[hold][]worker.Access {
	holds := map[hold][]worker.Access{}
	for _, x := range accesses {
		h := hold{x.Process, x.Goroutine, x.Name, x.Fence}
		holds[h] = append(holds[h], x)
	}
	return holds
}

// judgeStaleWrites counts the writes that were called after a later holder's access, and requires that all of
// them were refused. A holder is later if its fence is higher. It is also later if its grant was requested after the
// other one had the lock, unless it may have joined earlier holders (joinsAgain).
func judgeStaleWrites(v *Verdict, r *Record) {
	grants := map[hold][]history.Event{}
	for _, e := range r.Events {
		if e.Granted != 0 {
			h := hold{e.Process, e.Goroutine, e.Name, e.Fence}
			grants[h] = append(grants[h], e)
		}
	}
	// An access belongs to the latest grant before it: a goroutine can have several with the same fence.
	grantOf := func(h hold, x worker.Access) (e history.Event, known bool) {
		for _, g := range grants[h] {
			if g.Granted <= x.Call && g.Granted > e.Granted {
				e, known = g, true
			}
		}
		return e, known
	}
	for name, accesses := range byName(r.accesses, func(x worker.Access) string { return x.Name }) {
		slices.SortFunc(accesses, func(a, b worker.Access) int { return cmp.Compare(a.End(), b.End()) })
		for _, w := range accesses {
			if !w.Write {
				continue
			}
			mine := hold{w.Process, w.Goroutine, name, w.Fence}
			granted, known := grantOf(mine, w)
			for _, x := range accesses {
				if x.End() >= w.Call {
					break
				}
				other := hold{x.Process, x.Goroutine, name, x.Fence}
				if !x.OK || other == mine {
					continue
				}
				isLater := x.Fence > w.Fence
				if theirs, knows := grantOf(other, x); !isLater && known && knows {
					isLater = theirs.Requested() > granted.Granted && !r.joinsAgain(theirs)
				}
				if !isLater {
					continue
				}
				v.StaleWrites++
				if w.OK {
					v.find(StaleWrite, "lock %q: process %d with fence %d wrote after process %d with fence %d, a later holder, had had access", name, w.Process, w.Fence, x.Process, x.Fence)
				} else {
					v.StaleRefused++
				}
				break
			}
		}
	}
}

// registers are the guarded resource, and where processes leave tickets for each other. For each lock they have a number and the highest fence seen so far, below
// which nothing is accepted. Reading raises that mark, too.
type registers struct {
	socket string

	mu      sync.Mutex
	values  map[string]register
	served  []worker.Access
	tickets map[string][]string // left for others, by name
}

type register struct {
	mark  uint64
	value uint64
}

func newRegisters(h *harness.TB) *registers {
	r := &registers{socket: filepath.Join(h.TempDir(), "registers")}
	listener, err := net.Listen("unix", r.socket)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

// reset begins a history.
func (r *registers) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values, r.served, r.tickets = map[string]register{}, nil, map[string][]string{}
}

func (r *registers) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var x worker.Access
		if json.Unmarshal(lines.Bytes(), &x) != nil {
			return
		}
		r.access(&x)
		answer, err := json.Marshal(x)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(answer, '\n')); err != nil {
			return
		}
	}
}

func (r *registers) access(x *worker.Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.tickets[x.Name]
	switch {
	case x.Carry == worker.Put:
		r.tickets[x.Name] = append(left, x.Ticket)
		return
	case x.Carry == worker.Pick && len(left) > 0:
		r.tickets[x.Name], x.Ticket = left[1:], left[0]
		return
	case x.Carry == worker.Pick:
		return
	}
	reg := r.values[x.Name]
	reg, x.OK, x.Value = reg.access(x.Fence, x.Write, x.Value)
	r.values[x.Name] = reg
	served := *x
	served.Call = max(served.Call, history.Now())
	r.served = append(r.served, served)
}

// access is the register's rule: its next value, whether it accepts, and what is read.
func (g register) access(fence uint64, write bool, value uint64) (after register, ok bool, read uint64) {
	switch {
	case fence < g.mark:
		return g, false, value
	case write:
		return register{fence, value}, true, value
	}
	return register{fence, g.value}, true, g.value
}

// unheard returns the accesses whose processes died before the answer.
func (r *registers) unheard(heard []worker.Access) []worker.Access {
	known := map[source]bool{}
	for _, x := range heard {
		known[source{x.Process, x.ID}] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var more []worker.Access
	for _, x := range r.served {
		if !known[source{x.Process, x.ID}] {
			more = append(more, x)
		}
	}
	return more
}
