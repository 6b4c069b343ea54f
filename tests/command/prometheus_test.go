package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// mustFire are the alerts that the faults of TestDashboardShowsALoad are for.
var mustFire = []string{"HoldfastLeaseLost", "HoldfastRenewalsFail", "HoldfastServerUnavailable", "HoldfastRunLostItsLock", "HoldfastRunFailed", "HoldfastNobodyLeads"}

var answers = flag.String("answers", "", "write what Prometheus answers to the dashboard's queries into this file, for a picture of it")

// A real Prometheus scrapes programs under load, with faults, and has numbers for every query of the dashboard. It
// evaluates every alert rule, and the alerts for these faults fire. The load lasts for HOLDFAST_TEST_LOAD, by default 15s, and
// goes on until all of this has happened.
func TestDashboardShowsALoad(t *testing.T) {
	long(t)
	bin, err := prometheusFolder()
	if err != nil {
		t.Skipf("SKIPPED, THE DASHBOARD AND THE ALERTS NOT TESTED WITH A PROMETHEUS: %v", err)
	}
	uses(t)
	least := 15 * time.Second
	if text := os.Getenv("HOLDFAST_TEST_LOAD"); text != "" {
		if least, err = time.ParseDuration(text); err != nil {
			t.Fatalf("HOLDFAST_TEST_LOAD: %v", err)
		}
	}
	here := expect.Of(os.Getwd()).OK(t)
	rules := filepath.Join(here, "../../deploy/prometheus-alerts.yml")
	if said, err := exec.Command(filepath.Join(bin, "promtool"), "check", "rules", rules).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, said)
	}

	b, away := backend.One(t), backend.One(t)
	rdb := b.Redis(t)
	load := &load{t: t}
	targets := map[string]http.Handler{}
	first, second := load.client(b, "orders", targets), load.client(b, "bills", targets)
	lonely := load.client(away, "lonely", targets)
	handler := expect.Of(ui.New(inspect.New(first), nil)).OK(t)
	t.Cleanup(handler.Close)
	targets["inspector"] = handler
	files := t.TempDir()
	for _, name := range []string{"good", "bad", "lost"} {
		targets["run-"+name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, filepath.Join(files, name+".prom"))
		})
	}
	began := time.Now()
	p := startPrometheus(t, bin, rules, targets)
	load.ctx, load.cancel = context.WithCancel(context.Background())
	t.Cleanup(load.end) // before the clients are closed
	load.work(first, second)
	lease := backend.Acquire(t, lonely.Mutex("alone", holdfast.TTL(6*time.Second)))
	load.goes(func(ctx context.Context) { // a loss every second or so, since its key is deleted
		fragile := first.Mutex("fragile", holdfast.TTL(5*time.Second))
		for ctx.Err() == nil {
			l, err := fragile.Acquire(ctx)
			if err != nil {
				continue
			}
			rdb.Del(ctx, "holdfast:{fragile}")
			select {
			case <-l.Done():
			case <-ctx.Done():
				_ = l.Release(context.Background())
			}
			pause(ctx, time.Second)
		}
	})
	load.runs(b, files)
	candidate := redis.Z{Score: float64(began.UnixMicro()), Member: "token\n60000\nnowhere\n" + `{"o":"dead","k":"election"}`}
	expect.OK(t, rdb.ZAdd(t.Context(), "holdfast:{nobody}:q", candidate).Err())

	// Prometheus sees a counter rise only if it has scraped it at zero before.
	p.eventually("the metrics were scraped before the faults", func() bool {
		n, err := p.numbers("query", `min(count_over_time(holdfast_held{job="lonely",holdfast_kind="mutex"}[1h])) > 2`, nil)
		return err == nil && n > 0
	})
	away.Server.Kill()
	backend.Told(t, "the lease is over", lease.Done())

	panels, _ := dashboard(t)
	variables := strings.NewReplacer("$__rate_interval", "4s", "$job", ".*", "$kind", ".*") // as Grafana does it for a scrape each second
	p.eventually("the load is over, and everything asked for has numbers", func() bool {
		p.missing = nil
		for where, q := range panels {
			path, params := q.between(began, time.Now())
			p.expect(path, where, variables.Replace(q.Expr), params, true)
		}
		for where, query := range queries(t) {
			if alert, is := strings.CutPrefix(where, "alert "); is {
				p.expect("query", where, query, nil, slices.Contains(mustFire, alert))
			}
		}
		return len(p.missing) == 0 && time.Since(began) >= least
	})
	now := time.Now()
	all := map[string]json.RawMessage{}
	for where, q := range panels {
		path, params := q.between(began, now)
		if all[where], err = p.ask(path, variables.Replace(q.Expr), params); err != nil {
			t.Fatal(err)
		}
		if q.Format == "table" && strings.Contains(string(all[where]), "__name__") {
			t.Errorf("%s: Grafana merges no rows that differ by the name of the metric: %s", where, q.Expr)
		}
	}
	if *answers != "" {
		text := expect.Of(json.Marshal(map[string]any{"from": began.Unix(), "to": now.Unix(), "answers": all})).OK(t)
		expect.OK(t, os.WriteFile(*answers, text, 0o644))
	}
}

// between returns how to ask for what a panel shows: the last value, or one for each second.
func (q dashboardQuery) between(began, now time.Time) (path string, params url.Values) {
	seconds := func(at time.Time) []string { return []string{strconv.FormatInt(at.Unix(), 10)} }
	if q.Instant {
		return "query", url.Values{"time": seconds(now)}
	}
	return "query_range", url.Values{"start": seconds(began), "end": seconds(now), "step": {"1"}}
}

// load is what goes on until the test ends.
type load struct {
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (l *load) end() {
	l.cancel()
	l.wg.Wait()
}

func (l *load) goes(f func(ctx context.Context)) {
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		f(l.ctx)
	}()
}

// again calls f until the load ends.
func (l *load) again(f func(ctx context.Context)) {
	l.goes(func(ctx context.Context) {
		for ctx.Err() == nil {
			f(ctx)
			pause(ctx, 50*time.Millisecond)
		}
	})
}

// client returns a client whose metrics are a target of that name.
func (l *load) client(b *backend.Backend, name string, targets map[string]http.Handler) *holdfast.Client {
	l.t.Helper()
	o, registry := observed(l.t)
	targets[name] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		gathered, err := registry.Gather()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		format := expfmt.NewFormat(expfmt.TypeTextPlain)
		w.Header().Set("Content-Type", string(format))
		for _, family := range gathered {
			_ = expfmt.NewEncoder(w, format).Encode(family)
		}
	})
	return b.Client(l.t, &holdfast.Config{Identity: name, Observers: []*holdfast.Observer{o}})
}

// work makes two programs use every kind of lock.
func (l *load) work(programs ...*holdfast.Client) {
	hold := func(ctx context.Context, _ *holdfast.Lease) error {
		pause(ctx, 20*time.Millisecond)
		return nil
	}
	for i, c := range programs {
		rw := c.RWMutex("table")
		for _, lock := range []*holdfast.Lock{
			c.Mutex("hot"), c.Mutex("hot"), rw.Reader(), rw.Reader(), rw.Writer(), c.Semaphore("slots", 2).Permits(1), c.Semaphore("slots", 2).Permits(1),
			c.Multi([]string{"from", "to"}),
		} {
			l.again(func(ctx context.Context) { _ = lock.Do(ctx, hold) })
		}
		l.again(func(ctx context.Context) { _ = c.Mutex("hot").TryDo(ctx, hold) })
		for n := range 3 { // renewed, while the other program waits for it
			l.goes(func(ctx context.Context) {
				_ = c.Mutex(fmt.Sprint("long", n), holdfast.TTL(5*time.Second)).Do(ctx, untilDone)
			})
		}
		l.goes(func(ctx context.Context) { _ = election.New(c.Mutex("leader")).Run(ctx, untilDone) })
		l.again(func(ctx context.Context) {
			_, _ = once.New(c, "report", once.Every(time.Second)).Do(ctx, func(ctx context.Context, lease *holdfast.Lease) (string, error) {
				return "done", hold(ctx, lease)
			})
			pause(ctx, time.Second)
		})
		l.again(func(ctx context.Context) {
			if party, err := barrier.New(c, "round", len(programs)).Join(ctx); err == nil {
				_, _ = party.Await(ctx)
				_ = party.Leave(context.Background())
			}
			pause(ctx, time.Second)
		})
		if i == 0 {
			l.goes(func(ctx context.Context) { _ = latch.New(c, "ready", 2).Wait(ctx) })
		} else {
			l.goes(func(ctx context.Context) {
				if party, err := latch.New(c, "ready", 2).Register(ctx); err == nil {
					<-ctx.Done()
					_ = party.Leave(context.Background())
				}
			})
		}
	}
}

func untilDone(ctx context.Context, _ *holdfast.Lease) error {
	<-ctx.Done()
	return nil
}

// runs runs a job that succeeds, one that fails, and one whose lock is deleted.
func (l *load) runs(b *backend.Backend, files string) {
	l.t.Helper()
	run := func(name string, command ...string) *exec.Cmd {
		args := []string{"run", "--redis", b.Server.Addr(), "--metrics-file", filepath.Join(files, name+".prom"), "--ttl", "6s", "--kill-after", "1s", "job-" + name, "--"}
		return exec.Command("holdfast", append(args, command...)...)
	}
	if said, err := run("good", "true").CombinedOutput(); err != nil {
		l.t.Fatalf("%v: %s", err, said)
	}
	var exit *exec.ExitError
	if said, err := run("bad", "false").CombinedOutput(); !errors.As(err, &exit) {
		l.t.Fatalf("%v: %s", err, said)
	}
	lost := expect.Of(child.Run(run("lost", "sleep", "600"))).OK(l.t)
	l.t.Cleanup(lost.Kill)
	rdb := b.Redis(l.t)
	backend.Eventually(l.t, "the run has its lock", func() bool {
		return rdb.Del(l.t.Context(), "holdfast:{job-lost}").Val() > 0
	})
	backend.Told(l.t, "the run without its lock ends", lost.Ended)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
