package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Entry is a history in the report.
type Entry struct {
	*Plan
	Verdict
	Strikes []int64 // how often each kind struck
	Void    string  // why it does not count
	Kept    string  // the folder with plan and records
	Took    time.Duration
}

// counts reports whether the history shows how locks withstand its faults: it is not void, and the faults
// happened.
func (e *Entry) counts() bool {
	return e.Void == "" && len(e.Strikes) == len(e.Kinds) && !slices.Contains(e.Strikes, 0)
}

// Replayed returns the command that plays the history's plan again.
func (e *Entry) Replayed() string {
	kinds := "none"
	if len(e.Kinds) > 0 {
		kinds = strings.Join(e.Kinds, ",")
	}
	return fmt.Sprintf("go run ./cmd/campaign -replay %d -kinds %s -servers %s -mode %s -subject %s -histories 20",
		e.Seed, kinds, e.Server, e.Mode, e.Subject)
}

// keep writes everything known about a history into a folder of its own, and returns that.
func keep(folder string, r *Record, e *Entry) string {
	dir := filepath.Join(folder, fmt.Sprintf("%s-%d", time.Now().Format("20060102-150405.000"), e.Seed))
	all := struct {
		*Record
		Accesses []worker.Access  `json:"accesses"`
		Failures []worker.Failure `json:"failures"`
		Calls    []worker.Call    `json:"calls,omitempty"`
		Steps    []worker.Step    `json:"steps,omitempty"`
		Ended    []worker.Ended   `json:"ended"`
	}{r, r.accesses, r.failures, r.latestCalls(), r.latestSteps(), r.ended}
	record, err1 := json.MarshalIndent(all, "", " ")
	text := e.Replayed() + "\n\n"
	for _, f := range e.Findings {
		text += fmt.Sprintf("%s: %s\n", f.Rule, f.Text)
	}
	err := errors.Join(err1, os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "record.json"), record, 0o644),
		os.WriteFile(filepath.Join(dir, "findings.txt"), []byte(text), 0o644))
	if err != nil {
		return err.Error()
	}
	return dir
}

// Report is what a campaign found.
type Report struct {
	cfg        *Config
	Histories  int
	Void       int // not counted: trouble that was not the locks' fault
	Operations int
	Grants     int
	Rounds     int // how many are over; see coverage
	Violations int // histories with findings
	Unknown    int // checks that were given up: see Inconclusive

	Outside      int // histories outside of what is promised
	Overlaps     int // in these
	StaleWrites  int // offered to the resource
	StaleRefused int // by it
	Took         time.Duration

	Failures []Entry // histories with findings, or undecided

	servers map[string]int // histories on each
	kinds   []*Kind
	rows    map[string]*row
}

// Inconclusive reports whether so many checks were given up that the campaign says little: more than one, and more than one
// for every four histories. A check that is given up has decided nothing. The more requests stay unanswered, as on a slow
// machine, the more orders it has to try.
func (r *Report) Inconclusive() bool { return r.Unknown > 1 && 4*r.Unknown > r.Histories }

// row is what is reported of a kind of fault.
type row struct{ histories, struck, violations, overlaps int }

func newReport(cfg *Config, kinds []*Kind) *Report {
	return &Report{cfg: cfg, servers: map[string]int{}, kinds: kinds, rows: map[string]*row{}}
}

func (r *Report) add(e Entry) {
	if e.Void != "" {
		r.Void++
		return
	}
	r.Histories++
	r.servers[e.Server]++
	r.Operations += e.Operations
	r.Grants += e.Grants
	r.Unknown += e.Unknown
	r.StaleWrites += e.StaleWrites
	r.StaleRefused += e.StaleRefused
	if !e.Within() {
		r.Outside++
		r.Overlaps += e.Overlaps
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
		if len(e.Findings) > 0 {
			x.violations++
		}
	}
}

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "\nMode %s, %s, seed %d, %s\n\n", r.cfg.Mode, r.cfg.Subject.Name(), r.cfg.Seed, r.Took.Round(time.Second))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(table, "%s\t%v\n", name, value) }
	line("histories", fmt.Sprintf("%d, and %d void", r.Histories, r.Void))
	line("operations", fmt.Sprintf("%d, of which %d grants", r.Operations, r.Grants))
	var servers []string
	for _, name := range slices.Sorted(maps.Keys(r.servers)) {
		servers = append(servers, fmt.Sprintf("%s %d", name, r.servers[name]))
	}
	line("servers", strings.Join(servers, ", "))
	line("kinds of faults", fmt.Sprintf("%d, each came about alone at least %d times, each pair %d times",
		len(r.kinds), r.Rounds, max(r.Rounds-1, 0)))
	line("violations", r.Violations)
	line("undecided", r.Unknown)
	line("outside the model", fmt.Sprintf("%d histories, with %d overlaps", r.Outside, r.Overlaps))
	line("stale writes", fmt.Sprintf("%d offered, %d refused", r.StaleWrites, r.StaleRefused))
	fmt.Fprint(table, "\n\n")
	fmt.Fprintln(table, "kind of fault\tmodel\thistories\tcame about\tviolations\toverlaps")
	for _, k := range r.kinds {
		x := r.rows[k.Name]
		if x == nil {
			x = &row{}
		}
		model := "within"
		if !k.Within(r.cfg.Mode) {
			model = "outside"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", k.Name, model, x.histories, x.struck, x.violations, x.overlaps)
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

// coverage draws the kinds of faults for each history, in rounds. The first round has each kind alone. Each later one has, in random
// order, each kind alone, each pair of kinds and, once for every 32 of these, none.
type coverage struct {
	kinds  []*Kind
	next   [][]*Kind // what is left of this round
	rounds int       // that came before this one
	random *rand.Rand
}

func newCoverage(kinds []*Kind, seed uint64) *coverage {
	c := &coverage{kinds: kinds, random: rand.New(rand.NewPCG(seed, 3))}
	for _, k := range kinds {
		c.next = append(c.next, []*Kind{k})
	}
	return c
}

// over returns how many rounds are over.
func (c *coverage) over() int {
	if len(c.next) > 0 {
		return c.rounds
	}
	return c.rounds + 1
}

// draw chooses the kinds of the next history.
func (c *coverage) draw() (drawn []*Kind) {
	if len(c.next) == 0 {
		c.rounds++
		for i, k := range c.kinds {
			c.next = append(c.next, []*Kind{k})
			for _, other := range c.kinds[:i] {
				c.next = append(c.next, []*Kind{other, k})
			}
		}
		c.next = append(c.next, make([][]*Kind, max(len(c.next)/32, 1-len(c.next)))...)
		c.random.Shuffle(len(c.next), func(i, j int) { c.next[i], c.next[j] = c.next[j], c.next[i] })
	}
	drawn, c.next = c.next[0], c.next[1:]
	return drawn
}

// again makes kinds, whose history does not count, the next to be drawn.
func (c *coverage) again(kinds []*Kind) { c.next = append([][]*Kind{kinds}, c.next...) }
