package virtual

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/recorder"
	"github.com/holdfast-go/holdfast/transfer"
)

// telemetry collects the metrics and spans of an observer.
type telemetry struct {
	observer *holdfast.Observer
	reader   *metric.ManualReader
	spans    *tracetest.SpanRecorder
	tracers  *trace.TracerProvider
}

func newTelemetry(t *testing.T, opts ...holdfastotel.Option) *telemetry {
	t.Helper()
	o := &telemetry{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	o.tracers = trace.NewTracerProvider(trace.WithSpanProcessor(o.spans))
	var err error
	o.observer, err = holdfastotel.New(append(opts,
		holdfastotel.MeterProvider(metric.NewMeterProvider(metric.WithReader(o.reader))), holdfastotel.TracerProvider(o.tracers))...)
	expect.OK(t, err)
	return o
}

// client returns a client that tells it.
func (o *telemetry) client(t *testing.T, srv *holdfasttest.Server, wrap ...func(drivertest.Driver) drivertest.Driver) *holdfast.Client {
	t.Helper()
	return configured(t, srv, holdfast.Config{Observers: []*holdfast.Observer{o.observer}}, wrap...)
}

// collect returns the metrics by name.
func (o *telemetry) collect(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var data metricdata.ResourceMetrics
	expect.OK(t, o.reader.Collect(context.Background(), &data))
	all := map[string]metricdata.Metrics{}
	for _, scope := range data.ScopeMetrics {
		expect.Equal(t, "the scope", scope.Scope.Name, "github.com/holdfast-go/holdfast/holdfastotel")
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// series are the values of counters and gauges, and the counts of histograms, by name and attributes; 0 is left out. The
// sums of histograms are under the name with " sum".
func (o *telemetry) series(t *testing.T) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for name, m := range o.collect(t) {
		set := func(suffix string, of attribute.Set, value float64) {
			var parts []string
			for _, a := range of.ToSlice() {
				parts = append(parts, strings.TrimPrefix(string(a.Key), "holdfast.")+"="+a.Value.AsString())
			}
			if value != 0 {
				all[strings.TrimPrefix(name, "holdfast.")+suffix+" "+strings.Join(parts, " ")] = value
			}
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				set("", p.Attributes, float64(p.Value))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				set("", p.Attributes, float64(p.Count))
				set(" sum", p.Attributes, p.Sum)
			}
		default:
			t.Errorf("%s is a %T", name, data)
		}
	}
	return all
}

// sums are the series added up, by name.
func (o *telemetry) sums(t *testing.T) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for of, value := range o.series(t) {
		name, _, _ := strings.Cut(of, " ")
		if !strings.HasPrefix(of, name+" sum ") {
			all[name] += value
		}
	}
	return all
}

// check compares the sums with the acquires that another observer has seen, all of which have ended, and so have their leases.
func (o *telemetry) check(t *testing.T, acquires []*recorder.Acquire) {
	t.Helper()
	want := map[string]float64{}
	for _, a := range acquires {
		if a.End == nil {
			t.Errorf("of an acquire, told was %v, and no end", a.Events)
			return
		}
		want["acquire.duration"]++
		if a.End.Err == nil {
			want["hold.duration"]++
		}
		if a.End.Handover != holdfast.HandoverNone {
			want["handovers"]++
		}
		if a.Lost {
			want["lost"]++
		}
		for _, e := range a.Leases {
			if e.Err == nil {
				want["renew.slack"]++
			} else {
				want["renew.failures"]++
			}
		}
	}
	got := o.sums(t)
	delete(got, "server.unavailable") // of a client that is closed while its server does not answer
	if !maps.Equal(got, want) {
		t.Errorf("the sums are %v, not %v", got, want)
	}
	if begun, ended := len(o.spans.Started()), len(o.spans.Ended()); begun != len(acquires) || ended != begun {
		t.Errorf("%d spans have begun, %d have ended, of %d acquires", begun, ended, len(acquires))
	}
}

// sees compares the series whose names begin so.
func (o *telemetry) sees(t *testing.T, prefix string, want map[string]float64) {
	t.Helper()
	got := o.series(t)
	maps.DeleteFunc(got, func(of string, _ float64) bool {
		return !strings.HasPrefix(of, prefix) || strings.Contains(of, " sum ")
	})
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v; want %v", prefix, got, want)
	}
}

// span returns the span that ended last.
func (o *telemetry) span(t *testing.T) trace.ReadOnlySpan {
	t.Helper()
	ended := o.spans.Ended()
	if len(ended) == 0 {
		t.Fatal("no span has ended")
	}
	return ended[len(ended)-1]
}

// text is all that is said about a span.
func text(s trace.ReadOnlySpan) string {
	said := fmt.Sprint(s.Name(), " ", s.Status(), " ", s.Attributes())
	for _, e := range s.Events() {
		said += fmt.Sprint(" ", e.Name, " ", e.Attributes)
	}
	return said
}

func TestTelemetryOfAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		o := newTelemetry(t)
		first := acquire(t, o.client(t, srv).Mutex("confidential"))
		w := wait(t, o.client(t, srv).Mutex("confidential"))
		o.sees(t, "waiting", map[string]float64{"waiting kind=mutex mode=exclusive": 1})
		o.sees(t, "held", map[string]float64{"held kind=mutex mode=exclusive": 1})
		time.Sleep(time.Minute)
		release(t, first)
		w.served(t, time.Second)
		o.sees(t, "waiting", map[string]float64{})
		o.sees(t, "held", map[string]float64{})
		o.sees(t, "acquire", map[string]float64{
			"acquire.duration handover=none kind=mutex mode=exclusive outcome=granted":   1,
			"acquire.duration handover=server kind=mutex mode=exclusive outcome=granted": 1,
		})
		o.sees(t, "hold.", map[string]float64{"hold.duration kind=mutex mode=exclusive outcome=released": 2})
		o.sees(t, "handovers", map[string]float64{"handovers handover=server kind=mutex mode=exclusive": 1})
		o.sees(t, "lost", map[string]float64{})
		all := o.series(t)
		for of, want := range map[string]float64{
			"acquire.duration sum handover=server kind=mutex mode=exclusive outcome=granted": 61,
			"hold.duration sum kind=mutex mode=exclusive outcome=released":                   61,
		} {
			expect.Between(t, of, all[of], want, want+0.5)
		}
		renewals, left := all["renew.slack kind=mutex mode=exclusive"], all["renew.slack sum kind=mutex mode=exclusive"]
		if renewals < 10 || renewals > 16 || left < 9*renewals || left > 11*renewals { // of 15 s, every 5 s
			t.Errorf("%v renewals left %v s", renewals, left)
		}

		spans := o.spans.Ended()
		if len(spans) != 2 {
			t.Fatalf("%d spans have ended", len(spans))
		}
		if links := spans[1].Links(); len(links) != 1 || links[0].SpanContext.SpanID() != spans[0].SpanContext().SpanID() {
			t.Errorf("the waiter's span has links %v", links)
		}
		expect.Between(t, "the waiter's span", spans[1].EndTime().Sub(spans[1].StartTime()), 61*time.Second, 62*time.Second)
		for _, s := range spans {
			if strings.Contains(text(s), "confidential") || s.Name() != "holdfast.acquire" || s.Status().Code != codes.Unset ||
				!strings.Contains(text(s), "holdfast.fence") {
				t.Error(text(s))
			}
		}
		if said := text(spans[1]); !strings.Contains(said, " holdfast.queued [{holdfast.ahead {") {
			t.Error(said)
		}
	})
}

func TestTelemetryOfAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		o := newTelemetry(t)
		var d moody
		c := o.client(t, srv, d.wrap)
		ctx, caller := o.tracers.Tracer("").Start(context.Background(), "request")
		lease := expect.Of(c.Mutex("confidential").Acquire(ctx)).OK(t)
		expect.Equal(t, "the span's parent", o.span(t).Parent().SpanID(), caller.SpanContext().SpanID())
		// Every reason is there before the first loss, so that the loss is an increase.
		expect.Equal(t, "series of losses", len(o.collect(t)["holdfast.lost"].Data.(metricdata.Sum[int64]).DataPoints), 7)
		time.Sleep(time.Minute)
		d.refuse(errRefused)
		<-lease.Done()
		expect.Err(t, "TryAcquire", expect.ErrOf(c.Mutex("confidential").TryAcquire(ctx)), holdfast.ErrUnavailable)
		if s := o.span(t); s.Status().Code != codes.Error || s.Status().Description != "unavailable" ||
			strings.Contains(text(s), "confidential") {
			t.Error(text(s))
		}
		o.sees(t, "server", map[string]float64{"server.unavailable server=127.0.0.1:0": 1})
		o.sees(t, "lost", map[string]float64{"lost kind=mutex mode=exclusive reason=unreachable": 1})
		o.sees(t, "held", map[string]float64{})
		o.sees(t, "hold.", map[string]float64{"hold.duration kind=mutex mode=exclusive outcome=lost": 1})
		expect.AtLeast(t, "failed renewals", o.sums(t)["renew.failures"], 1)
		caller.End()
		if said := text(o.span(t)); !strings.Contains(said, " holdfast.lost [{holdfast.reason ") ||
			!strings.Contains(said, "unreachable") || strings.Contains(said, "confidential") {
			t.Error(said)
		}
		d.refuse(nil)
		release(t, acquire(t, c.Mutex("x")))
		time.Sleep(time.Second) // it is found when several answers have come
		o.sees(t, "server", map[string]float64{})
		// What the documentation says of the metrics.
		got := map[string]string{}
		for name, m := range o.collect(t) {
			if m.Description == "" {
				t.Errorf("%s has no description", name)
			}
			kind := "histogram"
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				if kind = "up-down"; data.IsMonotonic {
					kind = "counter"
				}
			case metricdata.Histogram[float64]:
				bounds := data.DataPoints[0].Bounds
				if least, most := bounds[0], bounds[len(bounds)-1]; least > .0001 || most < 300 {
					t.Errorf("the buckets of %s are from %v to %v", name, least, most)
				}
			}
			got[name] = kind + " " + m.Unit
		}
		if want := map[string]string{
			"holdfast.acquire.duration":   "histogram s",
			"holdfast.hold.duration":      "histogram s",
			"holdfast.renew.slack":        "histogram s",
			"holdfast.renew.failures":     "counter {renewal}",
			"holdfast.lost":               "counter {lease}",
			"holdfast.handovers":          "counter {handover}",
			"holdfast.held":               "up-down {lease}",
			"holdfast.waiting":            "up-down {acquire}",
			"holdfast.server.unavailable": "up-down {server}",
		}; !maps.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
}

func TestTelemetryOfAcquiresThatFail(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		o := newTelemetry(t)
		ctx := context.Background()
		other := client(t, srv)
		held := acquire(t, other.Mutex("x"))
		c := configured(t, srv, holdfast.Config{Observers: []*holdfast.Observer{o.observer}})
		ended := func(outcome string, status codes.Code, err error, want error) {
			t.Helper()
			expect.Err(t, outcome, err, want)
			if s := o.span(t); s.Status().Code != status || !slices.Contains(s.Attributes(), attribute.String("holdfast.outcome", outcome)) {
				t.Errorf("%s: the span is %s", outcome, text(s))
			}
		}
		_, err := c.Mutex("x").TryAcquire(ctx)
		ended("held", codes.Unset, err, holdfast.ErrHeld)
		_, err = c.Mutex("x", holdfast.Wait(time.Second)).Acquire(ctx)
		ended("held", codes.Unset, err, holdfast.ErrHeld)
		brief, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		_, err = c.Mutex("x").Acquire(brief)
		ended("canceled", codes.Unset, err, context.Canceled)
		_, err = c.Mutex("").Acquire(ctx)
		ended("refused", codes.Error, err, holdfast.ErrInvalid)
		_, err = c.Semaphore("x", 3).Permits(2).Acquire(ctx)
		ended("refused", codes.Error, err, holdfast.ErrMismatch)
		expect.Equal(t, "the span has the permits", slices.Contains(o.span(t).Attributes(), attribute.Int("holdfast.permits", 2)), true)
		ticket := expect.Of(transfer.Detach(ctx, acquire(t, c.Mutex("y")), time.Minute)).OK(t)
		lease, err := transfer.Adopt(ctx, c, ticket)
		ended("granted", codes.Unset, err, nil)
		release(t, lease)
		_, err = transfer.Adopt(ctx, c, ticket)
		ended("lost", codes.Error, err, holdfast.ErrLost)
		expect.Err(t, "Close", c.Close(ctx), nil)
		_, err = c.Mutex("x").Acquire(ctx)
		ended("closed", codes.Error, err, holdfast.ErrClosed)
		o.sees(t, "acquire", map[string]float64{
			"acquire.duration kind=mutex mode=exclusive outcome=held":                    2,
			"acquire.duration kind=mutex mode=exclusive outcome=canceled":                1,
			"acquire.duration kind=mutex mode=exclusive outcome=refused":                 1,
			"acquire.duration kind=semaphore mode=permits outcome=refused":               1,
			"acquire.duration handover=none kind=mutex mode=exclusive outcome=granted":   1,
			"acquire.duration handover=server kind=mutex mode=exclusive outcome=granted": 1,
			"acquire.duration kind=mutex mode=exclusive outcome=lost":                    1,
			"acquire.duration kind=mutex mode=exclusive outcome=closed":                  1,
		})
		o.sees(t, "waiting", map[string]float64{})
		o.sees(t, "held", map[string]float64{})
		release(t, held)
	})
}

// Each group of locks has its own series, up to a bound.
func TestTelemetryWithGroupsOfNames(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		o := newTelemetry(t, holdfastotel.Names(func(name string) string {
			group, _, _ := strings.Cut(name, ":")
			return strings.TrimPrefix(group, "unnamed")
		}))
		c := o.client(t, srv)
		for _, name := range []string{"order:1", "order:2", "unnamed"} {
			release(t, acquire(t, c.Mutex(name)))
		}
		o.sees(t, "hold.", map[string]float64{
			"hold.duration kind=mutex lock=order mode=exclusive outcome=released": 2,
			"hold.duration kind=mutex mode=exclusive outcome=released":            1,
		})
		if s := o.spans.Ended()[1]; !slices.Contains(s.Attributes(), attribute.String("holdfast.lock", "order")) {
			t.Error(text(s))
		}
		for i := range 1010 {
			release(t, acquire(t, c.Mutex(fmt.Sprint(i))))
		}
		release(t, acquire(t, c.Mutex("order:3")))
		all := o.series(t)
		expect.Equal(t, "leases of a group", all["hold.duration kind=mutex lock=order mode=exclusive outcome=released"], 3)
		expect.Equal(t, "leases of others", all["hold.duration kind=mutex lock=other mode=exclusive outcome=released"], 11)
	})
}

// Observers that share a MeterProvider add to the same metrics. One that nobody uses any more is no longer asked.
func TestObserversThatShareAMeterProvider(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	o := &telemetry{reader: reader}
	hold := func() (release func()) {
		observer, err := holdfastotel.New(holdfastotel.MeterProvider(provider), holdfastotel.TracerProvider(noop.NewTracerProvider()))
		expect.OK(t, err)
		kind := holdfast.AcquireEvent{Kind: holdfast.KindMutex, Mode: holdfast.ModeExclusive}
		ctx := observer.AcquireStart(t.Context(), kind)
		observer.AcquireEnd(ctx, kind)
		return func() { observer.Released(ctx, holdfast.LeaseEvent{}) }
	}
	release := hold()
	o.sees(t, "held", map[string]float64{"held kind=mutex mode=exclusive": 1})
	hold()
	// The second observer's lease counts until the collector has found the observer.
	backend.Eventually(t, "an observer without a client is not read", func() bool {
		runtime.GC()
		return o.series(t)["held kind=mutex mode=exclusive"] == 1
	})
	another := hold()
	o.sees(t, "held", map[string]float64{"held kind=mutex mode=exclusive": 2})
	release()
	runtime.GC()
	o.sees(t, "held", map[string]float64{"held kind=mutex mode=exclusive": 1})
	another()
	o.sees(t, "held", map[string]float64{})
	o.sees(t, "acquire", map[string]float64{"acquire.duration handover=none kind=mutex mode=exclusive outcome=granted": 3})
}

// The metrics of a free cycle allocate nothing. What is allocated is the acquire, and a context for its span, which does nothing here.
func TestMetricsAllocateNothing(t *testing.T) {
	observer, err := holdfastotel.New(holdfastotel.MeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
		holdfastotel.TracerProvider(noop.NewTracerProvider()))
	expect.OK(t, err)
	acquired := holdfast.AcquireEvent{Name: "x", Kind: holdfast.KindMutex, Mode: holdfast.ModeExclusive, Waited: time.Millisecond}
	released := holdfast.LeaseEvent{Name: "x", Kind: holdfast.KindMutex, Mode: holdfast.ModeExclusive, Held: time.Millisecond}
	if n := testing.AllocsPerRun(100, func() {
		ctx := observer.AcquireStart(t.Context(), acquired)
		observer.AcquireEnd(ctx, acquired)
		observer.Released(ctx, released)
	}); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func TestTelemetryRefusesOptions(t *testing.T) {
	for what, o := range map[string]holdfastotel.Option{
		"no option": nil, "no function": holdfastotel.Names(nil),
		"no meters": holdfastotel.MeterProvider(nil), "no tracers": holdfastotel.TracerProvider(nil),
	} {
		expect.Err(t, what, expect.ErrOf(holdfastotel.New(o)), holdfast.ErrInvalid)
	}
}
