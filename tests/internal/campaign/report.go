package campaign

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Report is what a campaign found, including the campaigns that it continues.
type Report struct {
	Mode       Mode           `json:"mode"`
	Subject    string         `json:"subject"` // the kind of lock
	Revision   string         `json:"revision"`
	Seed       uint64         `json:"seed"`
	Servers    map[string]int `json:"servers"` // histories on each server
	Histories  int            `json:"histories"`
	Calm       int            `json:"calm"` // of these, without a fault
	Alone      int            `json:"alone"`
	Paired     int            `json:"paired"`
	Void       int            `json:"void"` // not counted: trouble that was not the locks' fault
	Operations int            `json:"operations"`
	Grants     int            `json:"grants"`
	Kinds      int            `json:"kinds"`
	Pairs      int            `json:"pairs"`
	LeastPair  int            `json:"least_pair"`
	LeastAlone int            `json:"least_alone"`
	Violations int            `json:"violations"` // histories with findings
	Unknown    int            `json:"unknown"`    // checks that were given up: see Inconclusive

	Outside      int            `json:"outside"`       // histories outside of what is promised
	Overlapped   int            `json:"overlapped"`    // of these, with overlaps
	Overlaps     map[string]int `json:"overlaps"`      // outside of what is promised, by kind
	StaleWrites  int            `json:"stale_writes"`  // offered to the resource
	StaleRefused int            `json:"stale_refused"` // by it
	StaleOutside int            `json:"stale_outside"` // of those offered, outside of what is promised
	Longest      time.Duration  `json:"longest"`       // history
	Mean         time.Duration  `json:"mean"`          // history
	Took         time.Duration  `json:"took"`          // this campaign

	Failures []Entry `json:"failures,omitempty"` // histories with findings, or undecided

	kinds []*Kind
	rows  map[string]*row
	sum   time.Duration
}

// Inconclusive reports whether so many checks were given up that the campaign says little: more than one, and more than one
// for every four histories. A check that is given up has decided nothing. The more requests stay unanswered, as on a slow
// machine, the more orders it has to try.
func (r *Report) Inconclusive() bool { return r.Unknown > 1 && 4*r.Unknown > r.Histories }

// row is what is reported of a kind of fault.
type row struct{ histories, struck, violations, overlaps, stale int }

func newReport(cfg *Config, kinds []*Kind) *Report {
	return &Report{Mode: cfg.Mode, Subject: cfg.subject().Name(), Revision: currentRevision(), Seed: cfg.Seed, Kinds: len(kinds), Servers: map[string]int{}, Overlaps: map[string]int{}, kinds: kinds, rows: map[string]*row{}}
}

func (r *Report) add(e Entry) {
	if e.Void != "" {
		r.Void++
		return
	}
	r.Histories++
	r.Servers[e.Server]++
	switch len(e.Kinds) {
	case 0:
		r.Calm++
	case 1:
		r.Alone++
	default:
		r.Paired++
	}
	r.Operations += e.Operations
	r.Grants += e.Grants
	r.Unknown += e.Unknown
	r.StaleWrites += e.StaleWrites
	r.StaleRefused += e.StaleRefused
	if !e.Within {
		r.Outside++
		r.StaleOutside += e.StaleWrites
		if e.Overlaps > 0 {
			r.Overlapped++
		}
	}
	if len(e.Findings) > 0 {
		r.Violations++
	}
	if len(e.Findings) > 0 || e.Unknown > 0 {
		r.Failures = append(r.Failures, e)
	}
	for i, name := range e.Kinds {
		if r.rows[name] == nil {
			r.rows[name] = &row{}
		}
		x := r.rows[name]
		x.histories++
		if i < len(e.Strikes) && e.Strikes[i] > 0 {
			x.struck++
		}
		x.overlaps += e.Overlaps
		x.stale += e.StaleWrites
		if len(e.Findings) > 0 {
			x.violations++
		}
	}
	for _, name := range e.Kinds {
		if e.Overlaps > 0 && slices.ContainsFunc(kinds, func(k *Kind) bool { return k.Name == name && !k.Within(e.Mode) }) {
			r.Overlaps[name] += e.Overlaps
		}
	}
	r.Longest = max(r.Longest, e.Took)
	r.sum += e.Took
	r.Mean = r.sum / time.Duration(r.Histories)
}

// WriteJSON writes the report as one line of JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(r)
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "\nMode %s, %s, revision %s, seed %d, %s\n\n", r.Mode, r.Subject, r.Revision, r.Seed, r.Took.Round(time.Second))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(table, "%s\t%v\n", name, value) }
	line("histories", fmt.Sprintf("%d (%d without faults, %d with one kind, %d with two; %d void)", r.Histories, r.Calm, r.Alone, r.Paired, r.Void))
	line("operations", fmt.Sprintf("%d, of which %d grants", r.Operations, r.Grants))
	line("servers", perServer(r.Servers))
	line("kinds of faults", fmt.Sprintf("%d, each came about alone at least %d times", r.Kinds, r.LeastAlone))
	line("pairs of kinds", fmt.Sprintf("%d, each came about at least %d times", r.Pairs, r.LeastPair))
	line("violations", r.Violations)
	line("undecided", r.Unknown)
	line("outside the model", fmt.Sprintf("%d histories, %d with overlaps", r.Outside, r.Overlapped))
	line("stale writes", fmt.Sprintf("%d offered, %d refused; %d outside the model", r.StaleWrites, r.StaleRefused, r.StaleOutside))
	line("a history took", fmt.Sprintf("%s, at most %s", r.Mean.Round(time.Millisecond), r.Longest.Round(time.Millisecond)))
	fmt.Fprint(table, "\n\n")
	fmt.Fprintln(table, "kind of fault\tmodel\thistories\tcame about\tviolations\toverlaps\tstale writes")
	for _, k := range r.kinds {
		x := r.rows[k.Name]
		if x == nil {
			x = &row{}
		}
		model := "within"
		overlaps := "0"
		if !k.Within(r.Mode) {
			model, overlaps = "outside", fmt.Sprint(r.Overlaps[k.Name])
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\t%d\n", k.Name, model, x.histories, x.struck, x.violations, overlaps, x.stale)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, e := range r.Failures {
		fmt.Fprintf(w, "\n%s  %s\n", e.Replayed(), e.Kept)
		for i, f := range e.Findings {
			if i == 5 {
				fmt.Fprintf(w, "  and %d more\n", len(e.Findings)-i)
				break
			}
			fmt.Fprintf(w, "  %s: %.1000s\n", f.Rule, f.Text)
		}
	}
	return nil
}

func perServer(servers map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, servers[name]))
	}
	return strings.Join(parts, ", ")
}

// showProgress writes a line every few seconds until stop is called.
func (r *run) showProgress() (stop func()) {
	earlier := r.report.Histories
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			r.mu.Lock()
			p, now := r.report, time.Since(r.begun)
			fmt.Fprintf(r.cfg.Progress, "%s  %d histories, %d operations, %.1f histories/s; every kind %d, every pair %d times; %d violations, %d undecided, %d void\n",
				now.Round(time.Second), p.Histories, p.Operations, float64(p.Histories-earlier)/now.Seconds(), p.LeastAlone, p.LeastPair, p.Violations, p.Unknown, p.Void)
			r.mu.Unlock()
		}
	})
	return func() {
		close(done)
		shown.Wait()
	}
}
