package bench

import (
	"fmt"
	"strings"
	"time"
)

// Report is what a run measured. Times are measured in this process.
type Report struct {
	Server     string     `json:"server"`   // its address, without credentials
	Software   string     `json:"software"` // what the server calls itself
	Mode       string     `json:"mode"`     // server, sentinel or cluster
	Keys       string     `json:"keys"`     // how all of them began
	Started    time.Time  `json:"started"`
	TookMillis int64      `json:"took_ms"`
	TTLMillis  int64      `json:"ttl_ms"`
	Processors int        `json:"processors"` // of this machine
	Go         string     `json:"go"`
	GoRedis    string     `json:"go_redis"`
	Free       []Free     `json:"free"`
	Contended  *Contended `json:"contended"`
	Held       *Held      `json:"held"`
	LeftOut    []string   `json:"left_out,omitempty"`
	Faults     []string   `json:"faults,omitempty"` // overlaps and lost leases, in words
	Error      string     `json:"error,omitempty"`
	ExitCode   int        `json:"exit_code"`
}

// FaultError says that holders overlapped, or that leases were lost.
type FaultError struct {
	Faults   []string
	Overlaps bool // holders overlapped
}

func (e *FaultError) Error() string { return "locks failed: " + strings.Join(e.Faults, "; ") }

// judge fills in Faults, and returns them as an error; nil if there are none.
func (r *Report) judge() *FaultError {
	e := &FaultError{}
	count := func(n int, format string, args ...any) {
		if n > 0 {
			e.Faults = append(e.Faults, fmt.Sprintf("%d %s", n, fmt.Sprintf(format, args...)))
		}
	}
	for _, f := range r.Free {
		count(f.Holdfast.Lost, "leases lost (free, %s)", plural(f.Goroutines, "goroutine"))
		count(f.Bare.Lost, "bare locks lost (free, %s)", plural(f.Goroutines, "goroutine"))
	}
	if c := r.Contended; c != nil {
		e.Overlaps = c.Holdfast.Overlaps+c.Bare.Overlaps > 0
		count(c.Holdfast.Overlaps, "overlaps of two leases (contended)")
		count(c.Bare.Overlaps, "overlaps of two holders of the bare lock (contended)")
		count(c.Holdfast.Lost, "leases lost (contended)")
		count(c.Bare.Lost, "bare locks lost (contended)")
	}
	if h := r.Held; h != nil {
		count(h.Lost, "of %d leases lost (held)", h.Leases)
	}
	r.Faults = e.Faults
	if len(e.Faults) == 0 {
		return nil
	}
	return e
}
