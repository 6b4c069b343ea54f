package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/race"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// Environment variables of a run. HOLDFAST_SOAK sets its length.
const (
	envSeed  = "HOLDFAST_SIMULATE_SEED"  // of the first world of TestSimulation and TestEveryForm
	envHours = "HOLDFAST_SIMULATE_HOURS" // to simulate
	envWorld = "HOLDFAST_SIMULATE_WORLD" // TestWorld's: a line as in testdata/seeds
	envMoved = "HOLDFAST_SIMULATE_MOVED" // if set, what TestWorld's world allocates has other addresses
)

// slice is how many hours the ordinary tests run. The race detector makes that ten times slower.
const (
	slice     = 25.0
	sliceRace = 0.5
)

func TestMain(m *testing.M) {
	// One goroutine runs at a time, as a world that repeats needs it. Several processes run worlds in parallel.
	runtime.GOMAXPROCS(1)
	// What is written to a file lets other goroutines run.
	redis.SetLogger(quiet{})
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// quiet is a logger for go-redis, which logs every dial that fails.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// drawn stands for what a spec leaves to the seed.
const drawn = "drawn"

func (s spec) String() string {
	text := [3]string{drawn, drawn, drawn}
	if s.form != "" {
		text[0] = string(s.form)
	}
	if s.temper != "" {
		text[1] = string(s.temper)
	}
	if s.length != 0 {
		text[2] = s.length.String()
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s %s %s", s.seed, text[0], text[1], text[2], s.broken))
}

// parse reads what String returns.
func parse(text string) (s spec, err error) {
	words := strings.SplitN(strings.TrimSpace(text), " ", 5)
	if len(words) < 4 {
		return s, errors.New("want a seed, a form, a temper and a length")
	}
	if len(words) == 5 {
		s.broken = words[4]
	}
	if s.seed, err = strconv.ParseUint(words[0], 10, 64); err != nil {
		return s, err
	}
	if s.form = form(words[1]); s.form == drawn {
		s.form = ""
	} else if !slices.Contains(forms, s.form) {
		return s, fmt.Errorf("the form is %q; it can be %s or one of %q", s.form, drawn, forms)
	}
	if s.temper = Temper(words[2]); s.temper == drawn {
		s.temper = ""
	} else if !slices.Contains([]Temper{Calm, Rough, Wild}, s.temper) {
		return s, fmt.Errorf("there is no temper %q", s.temper)
	}
	if words[3] != drawn {
		s.length, err = time.ParseDuration(words[3])
	}
	return s, err
}

// marker begins the line with a world's result.
const marker = "simulation result "

// TestWorld runs one world and, with -v, logs all of it. Other tests run it in processes of their own, since a world
// repeats only if nothing happened in its process before.
func TestWorld(t *testing.T) {
	text := os.Getenv(envWorld)
	if text == "" {
		t.Skip("SKIPPED: " + envWorld + " says which world")
	}
	s, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %q: %v", envWorld, text, err)
	}
	var wrap func(drivertest.Driver) drivertest.Driver
	if s.broken != "" {
		wrap = brokenLock(t, s.broken).wrap
	}
	if os.Getenv(envMoved) != "" {
		// The world gets memory between and behind what is kept.
		var kept [][]*int
		for i := range 20_000 {
			if p := make([]*int, 1+i%32); i%3 == 0 {
				kept = append(kept, p)
			}
		}
		defer runtime.KeepAlive(kept)
	}
	r := run(t, s, wrap)
	if testing.Verbose() || len(r.Violations) > 0 {
		fmt.Printf("%s\n%s\nthe log's hash is %x\n", r.Plan, strings.Join(r.Log, "\n"), r.Hash)
	}
	line := expect.Of(json.Marshal(r)).OK(t)
	fmt.Printf("%s%s\n", marker, line)
	for _, v := range r.Violations {
		t.Error(v)
	}
}

// run runs a world in a process of its own.
func (s spec) run() (r Result, err error) {
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorld$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), envWorld+"="+s.String(), "GOGC=400") // a world needs little memory, and makes much garbage
	if s.moved {
		cmd.Env = append(cmd.Env, envMoved+"=1")
	}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err = child.Start(cmd); err == nil {
		err = cmd.Wait()
	}
	for line := range strings.Lines(out.String()) {
		if text, ok := strings.CutPrefix(line, marker); ok {
			err = json.Unmarshal([]byte(text), &r)
			r.Log = strings.Split(out.String(), "\n")
			return r, err
		}
	}
	return r, fmt.Errorf("no result: %w\n%s", errors.Join(err, errors.New(s.replay())), out.Bytes()[:min(out.Len(), 20_000)])
}

// replay returns the command that runs the world again.
func (s spec) replay() string {
	return fmt.Sprintf("again: %s='%s' go test -tags replay -overlay=$(go run ./simulation/replay /tmp/replay) -count=1 -run 'TestWorld$' -v ./simulation", envWorld, s)
}

// runAll runs worlds, one at a time on each processor, and reports their violations. next returns false if none is left.
func runAll(t *testing.T, next func() (spec, bool), done func(spec, Result)) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for {
				mu.Lock()
				s, ok := next()
				mu.Unlock()
				if !ok {
					return
				}
				r, err := s.run()
				mu.Lock()
				expect.Err(t, fmt.Sprint(s), err, nil)
				if len(r.Violations) > 0 {
					// The log, since a world whose goroutines run in any order may never come to the same again.
					t.Errorf("%s:\n%s\n%s\n%s", s, strings.Join(r.Violations, "\n"), s.replay(), strings.Join(r.Log, "\n"))
				}
				done(s, r)
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// each is a next for runAll.
func each(worlds []spec) func() (spec, bool) {
	return func() (s spec, ok bool) {
		if len(worlds) == 0 {
			return s, false
		}
		s, worlds = worlds[0], worlds[1:]
		return s, true
	}
}

// runForms runs worlds of one form each, and requires that something happened in those of each form together.
func runForms(t *testing.T, worlds []spec) {
	sums := map[form]*Summary{}
	runAll(t, each(worlds), func(s spec, r Result) {
		if sums[s.form] == nil {
			sums[s.form] = &Summary{}
		}
		sums[s.form].Add(r)
		t.Logf("%s: %d grants, %d passed, %d native acquires, %d overlaps outside the model", s, r.Grants, r.Passed, r.Native, r.Overlaps)
	})
	for _, f := range forms {
		sum := sums[f]
		if sum == nil || sum.Grants == 0 || f.gathers() && sum.Passed == 0 || f == carried && sum.Outcomes["adopted"] == 0 || f == mutual && sum.Native == 0 {
			t.Errorf("in worlds of the form %q nobody was granted a lease, passed, adopted or acquired natively: %v", f, sum)
		}
	}
}

// seeds returns the worlds of testdata/seeds.
func seeds(t *testing.T) []spec {
	if !Replayable {
		t.Skip("SKIPPED: needs a build for replay: tests/simulation/README.md")
	}
	text := expect.Of(os.ReadFile("testdata/seeds")).OK(t)
	var all []spec
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		s, err := parse(line)
		if err != nil {
			t.Fatalf("testdata/seeds: %q: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// TestSeeds runs the worlds of testdata/seeds.
//
// Fault: Many kinds of faults at once in virtual time, in worlds of one form of lock each, quorums among them, that are the
// same every time. Nobody believes more than the server grants, or a majority; fences rise, and all are served in the end.
func TestSeeds(t *testing.T) { runForms(t, seeds(t)) }

// TestReplay runs worlds twice more, the second time with other addresses. They have the same log both times, to the nanosecond.
func TestReplay(t *testing.T) {
	worlds := seeds(t)
	if testing.Short() {
		some := worlds[:0] // the rest is run by hand
		for i, s := range worlds {
			switch {
			case s.seed == 122: // its course used to depend on addresses, from the twelfth minute on
				some = append(some, s)
			case i < len(forms):
				s.length = 5 * time.Minute
				some = append(some, s)
			}
		}
		worlds = some
	}
	var twice []spec
	for _, s := range worlds {
		moved := s
		moved.moved = true
		twice = append(twice, s, moved)
	}
	logs := map[spec]Result{}
	runAll(t, each(twice), func(s spec, r Result) {
		s.moved = false
		if first, ok := logs[s]; ok && (first.Hash != r.Hash || first.Plan != r.Plan) {
			t.Errorf("%s: one seed, two worlds: the hashes of their logs are %x and %x", s, first.Hash, r.Hash)
		}
		logs[s] = r
	})
}

// TestSimulation runs worlds, in one process at a time for each processor.
//
// Fault: Many kinds of faults at once in virtual time, with clocks of different rates, on one server and on quorums
// of three or five whose nodes lose data. Nobody believes more than the server grants, or a majority; fences rise,
// and all are served in the end.
func TestSimulation(t *testing.T) {
	soak.Nightly(t)
	hours, limit := slice, time.Duration(0)
	if race.Detector {
		hours = sliceRace
	}
	if text := os.Getenv(envHours); text != "" {
		var err error
		if hours, err = strconv.ParseFloat(text, 64); err != nil || hours <= 0 {
			t.Fatalf("%s=%q is not a number of hours", envHours, text)
		}
	} else if soak.Long() {
		hours, limit = 1e9, soak.Duration(t)
	}
	next := spec{seed: firstSeed(t)}
	t.Logf("the first seed is %d (%s sets it)", next.seed, envSeed)
	var sum Summary
	begun, reported := time.Now(), time.Now()
	runAll(t, func() (s spec, ok bool) {
		s = next
		next.seed++
		return s, sum.Hours < hours && (limit == 0 || time.Since(begun) < limit)
	}, func(_ spec, r Result) {
		sum.Add(r)
		if time.Since(reported) > time.Minute {
			reported = time.Now()
			t.Logf("so far %s", &sum)
		}
	})
	t.Log(&sum)
	expect.AtLeast(t, "grants", sum.Grants, 1)
}

// TestEveryForm runs worlds in which all locks have one form; worlds as drawn mix them.
//
// Fault: Many kinds of faults at once in virtual time, in worlds of one form of lock each, quorums among them. Nobody
// believes more than the server grants, or a majority; fences rise, and all are served in the end.
func TestEveryForm(t *testing.T) {
	soak.Nightly(t)
	first := firstSeed(t)
	tempers, length := []Temper{Rough, Calm, Wild}, 20*time.Minute
	if race.Detector {
		tempers, length = tempers[:1], 5*time.Minute
	}
	var worlds []spec
	for _, f := range forms {
		for i, temper := range tempers {
			s := spec{seed: first + uint64(i), form: f, temper: temper, length: length}
			if f == latched || f == onceOnly {
				s.length = time.Hour // in 5 minutes one latch in 250 grants no lease
			}
			worlds = append(worlds, s)
		}
	}
	runForms(t, worlds)
}

// firstSeed returns the seed that was asked for, or else a random one.
func firstSeed(t *testing.T) uint64 {
	text := os.Getenv(envSeed)
	if text == "" {
		return uint64(time.Now().UnixMicro()) % 1e12
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", envSeed, err)
	}
	return seed
}
