package bench

import (
	"fmt"
	"time"
)

// Report is what a run has measured. Times are those of the client.
type Report struct {
	Server     string     `json:"server"`   // its address, without credentials
	Software   string     `json:"software"` // the server's, by its own word
	Mode       string     `json:"mode"`     // server, sentinel or cluster
	Keys       string     `json:"keys"`     // how they all began
	Started    time.Time  `json:"started"`
	TookMillis int64      `json:"took_ms"`
	TTLMillis  int64      `json:"ttl_ms"`
	Processors int        `json:"processors"` // of the client
	Go         string     `json:"go"`
	GoRedis    string     `json:"go_redis"`
	Free       []Free     `json:"free"`
	Contended  *Contended `json:"contended"`
	Held       *Held      `json:"held"`
	LeftOut    []string   `json:"left_out,omitempty"`
	// Faults are what must not happen, in words: two holders at once, and leases that were
	// lost.
	Faults   []string `json:"faults,omitempty"`
	Error    string   `json:"error,omitempty"`
	ExitCode int      `json:"exit_code"`
}

// FaultError says that what must not happen did.
type FaultError struct {
	Faults   []string
	Overlaps bool // two held at once
}

func (e *FaultError) Error() string {
	text := "what a lock must not do:"
	for i, f := range e.Faults {
		if i > 0 {
			text += ";"
		}
		text += " " + f
	}
	return text
}

// judge fills in the faults, and returns them; nil if there is none.
func (r *Report) judge() *FaultError {
	e := &FaultError{}
	count := func(n int, format string, args ...any) {
		if n > 0 {
			e.Faults = append(e.Faults, fmt.Sprintf("%d %s", n, fmt.Sprintf(format, args...)))
		}
	}
	for _, f := range r.Free {
		count(f.Holdfast.Lost, "leases lost, free, %s", plural(f.Goroutines, "goroutine"))
		count(f.Bare.Lost, "bare locks gone before they were released, free, %s", plural(f.Goroutines, "goroutine"))
	}
	if c := r.Contended; c != nil {
		e.Overlaps = c.Holdfast.Overlaps+c.Bare.Overlaps > 0
		count(c.Holdfast.Overlaps, "times two leases at once, contended")
		count(c.Bare.Overlaps, "times two holders of the bare lock at once, contended")
		count(c.Holdfast.Lost, "leases lost, contended")
		count(c.Bare.Lost, "bare locks gone before they were released, contended")
	}
	if h := r.Held; h != nil {
		count(h.Lost, "of %d leases lost, held", h.Leases)
	}
	r.Faults = e.Faults
	if len(e.Faults) == 0 {
		return nil
	}
	return e
}
