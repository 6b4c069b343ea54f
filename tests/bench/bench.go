// Bench compares locks with the two bare commands of the usual lock (SET NX PX, and a script that compares and deletes)
// and with other libraries. All contestants take turns on one server in one run. Only figures of the same run can be
// compared.
//
// Every turn of a contestant has processes of its own, so that their processor time and memory can be measured. Such a
// process reads a job from its standard input, as a line of JSON; prepares itself, and prints "ready"; reads "go";
// measures, and prints an outcome as a line of JSON. In a crowd it goes on until it reads "stop". The bench itself is such a program. java/Contestant.java is another,
// which knows the fields of job and outcome, and the board: a file of six 64-bit counters that the processes of a turn
// map into memory.
//
// What it shares with cmd/holdfast/bench is in cmd/holdfast/bench/measure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// results are the medians of a run: by cell, and by contestant.
type results map[string]map[string]figures

func bench(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && (args[0] == workerArgument || args[0] == delayerArgument) {
		machine.EndWatch()
	}
	if len(args) == 1 && args[0] == workerArgument {
		if err := work(ctx, stdin, stdout); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	if len(args) > 0 && args[0] == delayerArgument {
		if err := delayer(args[1:], stdin, stdout); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	if err := compare(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

type options struct {
	cells []cell
	only  []string // of the contestants; all if empty
	svg   string

	against string // another build of this program; or ""
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		kinds   = flags.String("cells", "free,far,contended,one,observed,held,read,readwrite,quorum,cluster,crowd,memory,queue", "what to measure: cells, or kinds of cells")
		only    = flags.String("only", "", "contestants, with commas (default all)")
		rounds  = flags.Int("rounds", 0, "rounds of each cell (default 5; of free/1 15, of observed 10, of far, contended, readwrite, crowd and queue 3, of held and memory 1)")
		length  = flags.Duration("for", 0, "length of a turn (default 700ms; of contended and readwrite 3.5s, of crowd 2s, of queue 4s, of held 12s)")
		leases  = flags.Int("leases", 0, "leases of held and of memory (default 10000)")
		hurry   = flags.Bool("quick", false, "one short round, about two minutes, to see that everything works")
		svg     = flags.String("svg", "", "where to draw the free cells")
		against = flags.String("against", "", "another build of this program, whose Holdfast takes turns with this one's")
	)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.svg, o.against = *svg, *against
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, c := range cells() {
		if *hurry && !c.hurry() {
			continue
		}
		if c.Leases > 0 && *leases > 0 {
			c.Leases = *leases
		}
		if asked := strings.Split(*kinds, ","); !slices.Contains(asked, c.Kind) && !slices.Contains(asked, c.name) {
			continue
		}
		if *rounds > 0 {
			c.rounds = *rounds
		}
		if *length > 0 {
			c.For = *length
		}
		o.cells = append(o.cells, c)
	}
	if len(o.cells) == 0 {
		err = fmt.Errorf("no cells in %q", *kinds)
	}
	for _, name := range o.only {
		if !slices.ContainsFunc(contestants, func(c contestant) bool { return c.name == name }) {
			err = fmt.Errorf("no contestant %q", name)
		}
	}
	if o.against != "" {
		if _, notFound := exec.LookPath(o.against); notFound != nil {
			err = fmt.Errorf("-against: %w", notFound)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
	}
	return o, err
}

func (o options) takes(c contestant) bool {
	return o.only == nil || slices.Contains(o.only, c.builtIn())
}

// takesAny reports whether one of some contestants has a turn.
func (o options) takesAny(of func(contestant) bool) bool {
	for _, c := range o.cells {
		for _, who := range contestants {
			if of(who) && who.in(c.Kind) && o.takes(who) {
				return true
			}
		}
	}
	return false
}

// compare measures, and prints the results.
func compare(ctx context.Context, o options, stdout, stderr io.Writer) error {
	h := harness.New()
	defer h.Close()
	var r, between results
	var err error
	about := surroundings{began: time.Now(), loadBefore: load()}
	h.Guard(func() {
		v := &rig{h: h, bin: server.One(h), dir: h.TempDir(), sites: map[string]site{}, delayers: map[string]*worker{}, delayed: map[string]string{}}
		defer v.endDelayers()
		if v.self, err = os.Executable(); err != nil {
			return
		}
		about.server = v.bin.Name
		if o.takesAny(contestant.usesJava) {
			var java jvm
			if java, err = findJava(ctx, v.dir); err != nil {
				return
			}
			defer v.endJVM()
			v.java, about.redisson = java.command, java.redisson
			about.leaveOut(stderr, "Redisson", java.missing)
		}
		if o.takesAny(contestant.usesEtcd) {
			var missing string
			v.etcd, missing = buildEtcd(ctx, v.dir)
			about.leaveOut(stderr, "etcd", missing)
		}
		r, between, err = takeTurns(ctx, v, o, stderr)
	})
	if err = errors.Join(err, h.Err()); err != nil {
		return err
	}
	about.took, about.loadAfter = time.Since(about.began), load()
	write(stdout, about, o, r)
	writeAgainst(stdout, o, between)
	if err := json.NewEncoder(stdout).Encode(map[string]any{"medians": r, "against": between}); err != nil {
		return err
	}
	if o.svg == "" || r[freeCell(1)] == nil {
		return nil
	}
	return os.WriteFile(o.svg, []byte(plot(r)), 0o644)
}

// takeTurns has each contestant take a turn in every round, in an order that changes from round to round. between are
// the ratios of this build to the other.
func takeTurns(ctx context.Context, v *rig, o options, stderr io.Writer) (r, between results, err error) {
	r, between = results{}, results{}
	number := 0
	for i, c := range o.cells {
		if i > 0 && c.Kind != o.cells[i-1].Kind {
			v.endJVM() // threads of earlier turns may still run in it, and send commands
		}
		var taking []contestant
		for _, who := range o.contestants() {
			if who.in(c.Kind) && o.takes(who) && v.has(who) {
				taking = append(taking, who)
			}
		}
		rounds := map[string][]figures{}
		for round := range c.rounds {
			fmt.Fprintf(stderr, "%s: round %d of %d\n", c.name, round+1, c.rounds)
			for _, who := range measure.Rotated(taking, round) {
				number++
				f, err := turn(ctx, v, who, c, number)
				if ctx.Err() != nil {
					return nil, nil, ctx.Err()
				}
				if err != nil { // the others continue
					fmt.Fprintf(stderr, "%s: %s: %v\n", c.name, who.name, err)
					f = figures{"errors": 1}
				}
				rounds[who.name] = append(rounds[who.name], f)
			}
		}
		r[c.name], between[c.name] = map[string]figures{}, map[string]figures{}
		for name, all := range rounds {
			r[c.name][name] = summary(all)
			if other, is := rounds[name+otherBuild]; is {
				between[c.name][name] = ratios(all, other)
			}
		}
	}
	return r, between, nil
}

// otherBuild ends the names of contestants that are Holdfast in another build of this program.
const otherBuild = "-other"

// contestants returns all that may take part: with -against, Holdfast also as the other build has it, next to this
// build's.
func (o options) contestants() []contestant {
	if o.against == "" {
		return contestants
	}
	var all []contestant
	for _, c := range contestants {
		all = append(all, c)
		if c.role == ours {
			c.name, c.program = c.name+otherBuild, o.against
			all = append(all, c)
		}
	}
	return all
}

// builtIn is the contestant's name in the build that it comes from.
func (c contestant) builtIn() string { return strings.TrimSuffix(c.name, otherBuild) }

// ratios divides a contestant's figures in this build by those in the other, round by round, and returns the medians. Both
// builds take a turn in each round, so whatever slows a round slows both.
func ratios(this, other []figures) figures {
	all := map[string][]float64{}
	for round := range min(len(this), len(other)) {
		for name, value := range other[round] {
			if value > 0 && this[round][name] > 0 {
				all[name] = append(all[name], this[round][name]/value)
			}
		}
	}
	result := figures{}
	for name, values := range all {
		result[name] = measure.Median(values)
	}
	return result
}

// compared are the figures that -against shows. They all cost something, except the rate.
var compared = []string{"rate", "p50_us", "handover_us", "handover99_us", "wait99_us", "redis_us", "client_us", "commands", "allocs", "lease_heap", "lease_stack"}

func writeAgainst(w io.Writer, o options, between results) {
	var rows [][]string
	for _, cell := range o.cells {
		for _, c := range contestants {
			if between[cell.name][c.name] == nil {
				continue
			}
			row := []string{cell.name + ": " + c.name}
			for _, name := range compared {
				row = append(row, known(cell.name, name)(between, c.name))
			}
			rows = append(rows, row)
		}
	}
	writeTable(w, append([]string{"this build over the other"}, compared...), rows)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(bench(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
