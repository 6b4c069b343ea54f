package holdfastotel

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// Bounds of the histograms' buckets, in seconds. A free lock takes a round trip, from 100 µs; others wait for minutes.
var (
	acquireBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	holdBounds    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	slackBounds   = []float64{0, .1, .25, .5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 300}
)

// metrics are the instruments, and the series of locks that they have.
type metrics struct {
	acquire, hold, slack      metric.Float64Histogram
	failures, lost, handovers metric.Int64Counter
	waiting, servers          metric.Int64UpDownCounter

	group func(name string) string

	// all are the series by subject. The map is replaced when a series is added, so that acquires can read it without a mutex.
	all    *atomic.Pointer[map[subject]*series]
	mu     sync.Mutex      // held while series are added
	groups map[string]bool // those that have series
}

// newMetrics makes the instruments.
func newMetrics(m metric.Meter, group func(string) string) (*metrics, error) {
	var errs []error
	histogram := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithDescription(what), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithDescription(what), metric.WithUnit(unit))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, unit, what string) metric.Int64UpDownCounter {
		g, err := m.Int64UpDownCounter(name, metric.WithDescription(what), metric.WithUnit(unit))
		errs = append(errs, err)
		return g
	}
	held, err := m.Int64ObservableUpDownCounter("holdfast.held", metric.WithDescription("Leases that are held."), metric.WithUnit("{lease}"))
	errs = append(errs, err)
	made := &metrics{
		acquire:   histogram("holdfast.acquire.duration", "How long acquires took, granted or not.", acquireBounds),
		hold:      histogram("holdfast.hold.duration", "How long leases were held.", holdBounds),
		slack:     histogram("holdfast.renew.slack", "How much was left of leases when their renewals were confirmed.", slackBounds),
		failures:  counter("holdfast.renew.failures", "{renewal}", "Renewals that failed. They are retried until the lease ends."),
		lost:      counter("holdfast.lost", "{lease}", "Leases that were lost."),
		handovers: counter("holdfast.handovers", "{handover}", "Acquires to which another holder's lock was passed on."),
		waiting:   gauge("holdfast.waiting", "{acquire}", "Acquires that wait for other holders."),
		servers:   gauge("holdfast.server.unavailable", "{server}", "Servers that do not answer."),
		group:     group,
		all:       &atomic.Pointer[map[subject]*series]{},
		groups:    map[string]bool{"": true},
	}
	made.all.Store(&map[subject]*series{})
	errs = append(errs, made.watchHeld(m, held))
	return made, errors.Join(errs...)
}

// watchHeld lets the meter ask how many leases are held whenever metrics are read. Since an observer is never closed, the
// callback must not keep the metrics alive: it refers to the series only, and is unregistered once the metrics are garbage.
func (m *metrics) watchHeld(meter metric.Meter, held metric.Int64Observable) error {
	all := m.all
	watch, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, s := range *all.Load() {
			o.ObserveInt64(held, s.held.Load(), s.by[tag{}].observe...)
		}
		return nil
	}, held)
	if err == nil && watch != nil {
		runtime.AddCleanup(m, func(watch metric.Registration) { _ = watch.Unregister() }, watch)
	}
	return err
}

// server counts a server that was lost, or found.
func (m *metrics) server(addr string, change int64) {
	m.servers.Add(context.Background(), change, metric.WithAttributes(attribute.String("holdfast.server", addr)))
}

// subject is what the metrics of locks have in common.
type subject struct {
	kind  holdfast.Kind
	mode  holdfast.Mode
	group string
}

// series has the ready-made attributes of the locks of one subject, and how many of their leases are held.
type series struct {
	span []trace.SpanStartOption
	by   map[tag]options
	held *atomic.Int64 // by itself, so that changing it does not slow down those who read what is beside it
}

// tag is what else a measurement says. The zero tag adds nothing.
type tag struct {
	outcome  outcome           // of an acquire or a hold
	handover holdfast.Handover // of a hand-over, or of an acquire that was granted
	reason   holdfast.LossReason
}

func (t tag) attributes() (all []attribute.KeyValue) {
	if t.outcome != "" {
		all = append(all, attribute.String("holdfast.outcome", string(t.outcome)))
	}
	switch {
	case t.handover != holdfast.HandoverNone:
		all = append(all, attribute.String("holdfast.handover", string(t.handover)))
	case t.outcome == granted:
		all = append(all, attribute.String("holdfast.handover", "none"))
	}
	if t.reason != "" {
		all = append(all, attribute.String("holdfast.reason", string(t.reason)))
	}
	return all
}

// options are attributes as the instruments take them.
type options struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
}

// seriesOf returns the series of a lock.
func (m *metrics) seriesOf(name string, kind holdfast.Kind, mode holdfast.Mode) *series {
	of := subject{kind, mode, m.group(name)}
	if s, known := (*m.all.Load())[of]; known {
		return s
	}
	return m.addSeries(of)
}

// maxGroups bounds how many groups of locks have series of their own. The others share those of otherGroup.
const (
	maxGroups  = 1000
	otherGroup = "other"
)

func (m *metrics) addSeries(of subject) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.groups[of.group] {
		if len(m.groups) > maxGroups {
			of.group = otherGroup
		} else {
			m.groups[of.group] = true
		}
	}
	all := *m.all.Load()
	if s, known := all[of]; known {
		return s
	}
	s := newSeries(of)
	all = maps.Clone(all)
	all[of] = s
	m.all.Store(&all)
	// Counters begin with 0: Prometheus takes the first value of a series for no increase.
	ctx := context.Background()
	m.waiting.Add(ctx, 0, s.by[tag{}].add...)
	m.failures.Add(ctx, 0, s.by[tag{}].add...)
	for _, r := range reasons {
		m.lost.Add(ctx, 0, s.by[tag{reason: r}].add...)
	}
	for _, h := range handovers {
		m.handovers.Add(ctx, 0, s.by[tag{handover: h}].add...)
	}
	return s
}

// What tags have.
var (
	outcomes  = []outcome{granted, held, canceled, unavailable, lost, closed, refused, released}
	handovers = []holdfast.Handover{holdfast.HandoverServer, holdfast.HandoverLocal}
	reasons   = []holdfast.LossReason{
		holdfast.LossExpired, holdfast.LossUnreachable, holdfast.LossDeleted, holdfast.LossTaken, holdfast.LossBroken, holdfast.LossBound,
		holdfast.LossSuperseded,
	}
)

func newSeries(of subject) *series {
	attributes := []attribute.KeyValue{attribute.String("holdfast.kind", string(of.kind)), attribute.String("holdfast.mode", string(of.mode))}
	if of.group != "" {
		attributes = append(attributes, attribute.String("holdfast.lock", of.group))
	}
	tags := []tag{{}}
	for _, o := range outcomes {
		tags = append(tags, tag{outcome: o})
	}
	for _, h := range handovers {
		tags = append(tags, tag{handover: h}, tag{outcome: granted, handover: h})
	}
	for _, r := range reasons {
		tags = append(tags, tag{reason: r})
	}
	s := &series{span: []trace.SpanStartOption{trace.WithAttributes(attributes...)}, by: map[tag]options{}, held: &atomic.Int64{}}
	for _, t := range tags {
		o := metric.WithAttributeSet(attribute.NewSet(slices.Concat(attributes, t.attributes())...))
		s.by[t] = options{[]metric.AddOption{o}, []metric.RecordOption{o}, []metric.ObserveOption{o}}
	}
	return s
}
