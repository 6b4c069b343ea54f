package simulation

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// Environment variables of a run. HOLDFAST_SOAK sets its length.
const (
	envSeed  = "HOLDFAST_SIMULATE_SEED"  // of the first world, or of TestWorld's
	envHours = "HOLDFAST_SIMULATE_HOURS" // to simulate
	envForm  = "HOLDFAST_SIMULATE_FORM"  // of all locks, instead of what seeds say: "quorum", "mutex", ...
	envShard = "HOLDFAST_SIMULATE_SHARD" // for a process of TestSimulation: "first step hours duration"
)

// slice is how many hours the ordinary tests run. The race detector makes that ten times slower.
const (
	slice     = 25.0
	sliceRace = 0.5
)

func TestMain(m *testing.M) {
	// One goroutine runs at a time, as in a bubble, except for those that wake at the same moment. So nearly
	// everything can be replayed, and several processes run worlds in parallel.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	redis.SetLogger(quiet{})
	os.Exit(m.Run())
}

// quiet is a logger for go-redis, which logs every dial that fails.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// TestSimulation runs worlds, in one process for each processor.
//
// Fault: Many kinds of faults at once in virtual time, with clocks of different rates, on one server and on quorums
// of three or five whose nodes lose data. Nobody believes more than the server grants, or a majority; fences rise,
// and all are served in the end.
func TestSimulation(t *testing.T) {
	if shard := os.Getenv(envShard); shard != "" {
		runShard(t, shard)
		return
	}
	hours, limit := slice, time.Duration(0)
	if raceDetector {
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
	first := firstSeed(t)
	t.Logf("the first seed is %d (%s sets it)", first, envSeed)

	run := &run{t: t, begun: time.Now(), summary: Summary{First: first, Replayable: Replayable}}
	n := runtime.NumCPU()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			run.shard(fmt.Sprintf("%d %d %f %s", first+uint64(i), n, hours/float64(n), limit))
		})
	}
	all.Wait()
	run.report(run.cpu, "")
	fmt.Println(run.summary.JSON())
	if run.summary.Worlds == 0 || run.summary.Grants == 0 {
		t.Error("nothing was simulated")
	}
}

// TestEveryForm runs worlds in which all locks have one form; worlds as drawn mix them.
//
// Fault: Many kinds of faults at once in virtual time, in worlds of one form of lock each, quorums among them. Nobody
// believes more than the server grants, or a majority; fences rise, and all are served in the end.
func TestEveryForm(t *testing.T) {
	first := firstSeed(t)
	tempers, length := []Temper{Rough, Calm, Wild}, 20*time.Minute
	if raceDetector {
		tempers, length = tempers[:1], 5*time.Minute
	}
	for _, f := range []form{mutual, readWrite, counted, owned, elected, once, redisson, latch, barrier, agreed, carried} {
		for i, temper := range tempers {
			seed, length := first+uint64(i), length
			if f == latch || f == once {
				length = time.Hour // in 5 minutes one latch in 250 grants no lease
			}
			r := Run(t, seed, Options{Temper: temper, Length: length, Form: f, Several: true})
			for _, v := range r.Violations {
				t.Errorf("%s, %s, seed %d: %s", f, temper, seed, v)
			}
			if r.Grants == 0 {
				t.Errorf("%s, %s, seed %d: nothing was granted", f, temper, seed)
			}
			if f.gathers() && r.Passed == 0 {
				t.Errorf("%s, %s, seed %d: nobody passed", f, temper, seed)
			}
			if f == carried && r.Outcomes["adopted"] == 0 {
				t.Errorf("%s, %s, seed %d: nothing was adopted", f, temper, seed)
			}
			t.Logf("%s, %s, seed %d: %d grants, %d passed, %d commands, %d overlaps outside the model", f, temper, seed, r.Grants, r.Passed, r.Commands, r.Overlaps)
		}
	}
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

// run is a run of TestSimulation.
type run struct {
	t     *testing.T
	begun time.Time

	mu       sync.Mutex
	summary  Summary
	cpu      time.Duration
	reported time.Time
}

// Lines that a process of TestSimulation prints.
const (
	beginning = "simulation begins "
	result    = "simulation result "
)

// shard runs a process that runs worlds, and adds up their results.
func (r *run) shard(shard string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSimulation$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), envShard+"="+shard)
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Error(err)
		return
	}
	cmd.Stderr = cmd.Stdout
	if err := child.Start(cmd); err != nil {
		r.t.Error(err)
		return
	}
	seed := ""
	var other []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, beginning); ok {
			seed, other = text, nil
		} else if text, ok := strings.CutPrefix(line, result); ok {
			r.add(text)
		} else if len(other) < 200 {
			other = append(other, line)
		}
	}
	if err := cmd.Wait(); err != nil {
		r.t.Errorf("the process with seed %s: %v\n%s\n%s", seed, err, replay(seed), strings.Join(other, "\n"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

func (r *run) add(text string) {
	var w world
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		r.t.Error(err)
		return
	}
	if len(w.Violations) > 0 {
		r.t.Errorf("seed %d:\n%s\n%s", w.Seed, strings.Join(w.Violations, "\n"), replay(strconv.FormatUint(w.Seed, 10)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Add(w.Result)
	if time.Since(r.reported) > 10*time.Second {
		r.report(0, "so far ") // the processor time of processes is known only when they end
	}
}

// report logs how far the run is.
func (r *run) report(cpu time.Duration, when string) {
	r.reported = time.Now()
	r.summary.Took(time.Since(r.begun), cpu)
	r.t.Logf("%s%s", when, &r.summary)
}

// chosenForm returns the form that the environment names; "" leaves it to the seeds.
func chosenForm(t *testing.T) form {
	known := []form{"", mutual, readWrite, counted, owned, elected, once, redisson, latch, barrier, carried, agreed}
	chosen := form(os.Getenv(envForm))
	if !slices.Contains(known, chosen) {
		t.Fatalf("%s is %q; it can be one of %q", envForm, chosen, known[1:])
	}
	return chosen
}

// replay returns the command that runs a world again.
func replay(seed string) string {
	exactly := "exactly but for what happens at the same moment"
	if !Replayable {
		exactly = "with other jitter, since this build cannot draw it from the seed"
	}
	which := envSeed + "=" + seed
	if f := os.Getenv(envForm); f != "" {
		which += " " + envForm + "=" + f
	}
	return fmt.Sprintf("again, %s:\n%s go test -tags replay -ldflags=-checklinkname=0 -count=1 -run 'TestWorld$' -v ./simulation", exactly, which)
}

// world is a Result as processes send it.
type world struct{ Result }

func (w world) MarshalJSON() ([]byte, error) {
	w.Log, w.Plan = nil, ""
	return json.Marshal(w.Result)
}

func (w *world) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &w.Result) }

// runShard runs the worlds of one process.
func runShard(t *testing.T, shard string) {
	var seed, step uint64
	var hours float64
	var text string
	if _, err := fmt.Sscanf(shard, "%d %d %f %s", &seed, &step, &hours, &text); err != nil {
		t.Fatal(err)
	}
	limit, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for done := 0.0; done < hours && (limit == 0 || time.Since(begun) < limit); seed += step {
		fmt.Printf("%s%d\n", beginning, seed)
		r := Run(t, seed, Options{Form: chosenForm(t)})
		done += r.Simulated.Hours()
		line, err := json.Marshal(world{r})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", result, line)
	}
}

// TestWorld runs the world of one seed and, with -v, logs all of it.
func TestWorld(t *testing.T) {
	seed := uint64(1)
	if os.Getenv(envSeed) != "" {
		seed = firstSeed(t)
	}
	begun := time.Now()
	r := Run(t, seed, Options{Form: chosenForm(t)})
	if testing.Verbose() {
		fmt.Printf("%s\n%s\n", r.Plan, strings.Join(r.Log, "\n"))
	}
	var s Summary
	s.Add(r)
	s.Took(time.Since(begun), 0)
	t.Logf("%s; the log's hash is %x", &s, r.Hash)
	if len(r.Violations) > 0 {
		t.Errorf("seed %d:\n%s", seed, strings.Join(r.Violations, "\n"))
	}
}

// TestReplay runs worlds twice. In a build for replay most have the same log both times, to the nanosecond.
// Some do not, because goroutines that woke at the same moment ran in another order.
func TestReplay(t *testing.T) {
	worlds, same := uint64(4), 0
	if raceDetector {
		worlds = 2
	}
	for seed := uint64(1); seed <= worlds; seed++ {
		o := Options{Length: 20 * time.Minute}
		a, b := Run(t, seed, o), Run(t, seed, o)
		if a.Plan != b.Plan {
			t.Errorf("seed %d: one seed, two worlds:\n%s\n%s", seed, a.Plan, b.Plan)
		}
		if a.Hash == b.Hash {
			same++
		}
	}
	t.Logf("%d of %d worlds had the same log twice; Replayable is %t", same, worlds, Replayable)
	if Replayable && same == 0 {
		t.Error("no world is replayed")
	}
}
