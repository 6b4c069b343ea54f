package campaign

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"sync"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

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
