// Package holdfastotel reports on locks to OpenTelemetry: metrics of waits, holds, renewals and losses, and a span for each
// acquire. It needs the API of OpenTelemetry only; what is done with the data is up to the program's SDK.
//
//	observer, err := holdfastotel.New()
//	locks, err := holdfastgoredis.New(rdb, &holdfast.Config{Observers: []*holdfast.Observer{observer}})
//
// # Metrics
//
//	name                         kind              unit         attributes of holdfast.
//	holdfast.acquire.duration    histogram         s            kind, mode, outcome, handover
//	holdfast.hold.duration       histogram         s            kind, mode, outcome
//	holdfast.renew.slack         histogram         s            kind, mode
//	holdfast.renew.failures      counter           {renewal}    kind, mode
//	holdfast.lost                counter           {lease}      kind, mode, reason
//	holdfast.handovers           counter           {handover}   kind, mode, handover
//	holdfast.held                up-down counter   {lease}      kind, mode
//	holdfast.waiting             up-down counter   {acquire}    kind, mode
//	holdfast.server.unavailable  up-down counter   {server}     server
//
// What they count are the acquires and leases of this process, as holdfast.Observer describes them: each of the nested leases
// of a Reentrant lock, for instance. Acquires that wait for others are in waiting, granted leases in held until they are
// released or lost; held is observed when the metrics are read. Slack is how much was left of a lease when a renewal was
// confirmed; near 0, leases are about to be lost. A client that is closed while its server does not answer stays in
// server.unavailable.
//
//	attribute            values
//	holdfast.kind        "mutex", "rwmutex", "semaphore" and so on: those of holdfast.Kind
//	holdfast.mode        "exclusive", "reader", "writer" and so on: those of holdfast.Mode
//	holdfast.outcome     of an acquire: "granted", "held", "canceled", "unavailable", "lost", "closed", "deadlock" or "refused";
//	                     of a hold: "released" or "lost"
//	holdfast.handover    of a granted acquire: "none", "server" or "local"
//	holdfast.reason      "expired", "unreachable" and so on: those of holdfast.LossReason
//	holdfast.server      the address of the server, without credentials
//	holdfast.lock        only with the option Names
//
// An acquire is canceled if its context ended while it waited. It is held if it found the lock held, and did not wait or had
// waited as long as the option Wait allows. It is refused if the program has to change: see the errors of package holdfast.
//
// # Spans
//
// A span holdfast.acquire lasts for as long as an acquire. It is a child of the span in the caller's context, and has the
// attributes of holdfast.acquire.duration, holdfast.permits of a semaphore and, if the lock was granted, holdfast.fence. An
// event holdfast.queued says when the acquire began to wait for others. If the holder is known then, and acquired the lock with
// the same Observer, the span has a link to the holder's span; one Observer may serve several clients. Holders of a Multi or
// Quorum are not linked. When a lease is lost, the caller's span gets an event holdfast.lost, if it has not ended.
//
// Errors' texts have names of locks in them, and are in neither metrics nor spans.
package holdfastotel

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// scope is the name of the meter and of the tracer.
const scope = "github.com/holdfast-go/holdfast/holdfastotel"

// Option is an option of New.
type Option func(*settings)

type settings struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	group   func(name string) string
}

// MeterProvider sets where metrics go. Default: the global MeterProvider.
func MeterProvider(p metric.MeterProvider) Option { return func(s *settings) { s.meters = p } }

// TracerProvider sets where spans go. Default: the global TracerProvider. The one of package
// go.opentelemetry.io/otel/trace/noop turns them off.
func TracerProvider(p trace.TracerProvider) Option { return func(s *settings) { s.tracers = p } }

// Names adds the attribute holdfast.lock to metrics and spans. Its value is what group returns for the lock's name, which for a
// Multi is all names, with commas between them. If group returns "", the attribute is left out. Without this option, neither
// metrics nor spans say which lock they are about.
//
// Each value adds time series, so group must return only a few: for example "order" for "order:8139" and every other order.
// After 1000 values, further ones are reported as "other". Every acquire calls group, which must not block.
func Names(group func(name string) string) Option { return func(s *settings) { s.group = group } }

// New returns an Observer that reports to OpenTelemetry, for holdfast.Config.Observers. It may serve several clients; observers
// that share a MeterProvider add to the same metrics. An error is the MeterProvider's, or matches holdfast.ErrInvalid.
func New(opts ...Option) (*holdfast.Observer, error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), group: func(string) string { return "" }}
	for _, set := range opts {
		if set == nil {
			return nil, fmt.Errorf("holdfastotel: %w: an option is nil", holdfast.ErrInvalid)
		}
		set(&s)
	}
	if s.meters == nil || s.tracers == nil || s.group == nil {
		return nil, fmt.Errorf("holdfastotel: %w: the MeterProvider, the TracerProvider or the function of Names is nil", holdfast.ErrInvalid)
	}
	o := &observer{tracer: s.tracers.Tracer(scope)}
	var err error
	if o.metrics, err = newMetrics(s.meters.Meter(scope), s.group); err != nil {
		return nil, err
	}
	return &holdfast.Observer{
		AcquireStart:  o.acquireStart,
		AcquireQueued: o.acquireQueued,
		AcquireEnd:    o.acquireEnd,
		Renewed:       o.renewed,
		RenewFailed:   o.renewFailed,
		Lost:          o.lost,
		Released:      o.released,
		ServerLost:    func(e holdfast.ServerEvent) { o.metrics.server(e.Server, 1) },
		ServerFound:   func(e holdfast.ServerEvent) { o.metrics.server(e.Server, -1) },
	}, nil
}

type observer struct {
	tracer  trace.Tracer
	metrics *metrics
	holders sync.Map // from holder to *acquire; of leases whose acquire was sampled, so that others can link to it
}

// holder identifies a lease by what those who wait for its lock know.
type holder struct{ name, grant string }

// acquire is one acquire and its lease, as the observer sees them. It is also the context that all functions get, in which
// they find it.
type acquire struct {
	context.Context

	by        *observer
	in        *series
	caller    context.Context // without the span
	span      trace.Span
	recording bool // the span is recorded
	sampled   bool
	queued    bool
	linked    bool // the span has a link to that of the holder
}

func (a *acquire) Value(key any) any {
	if key == any(a.by) {
		return a
	}
	return a.Context.Value(key)
}

// of returns the acquire to which an observer's context belongs, and the context for its measurements, which looks for an
// exemplar's span only where there is one. The acquire is nil if AcquireStart has panicked.
func (o *observer) of(ctx context.Context) (*acquire, context.Context) {
	a, _ := ctx.Value(o).(*acquire)
	if a == nil || !a.sampled {
		ctx = context.Background()
	}
	return a, ctx
}

func (o *observer) acquireStart(ctx context.Context, e holdfast.AcquireEvent) context.Context {
	a := &acquire{by: o, in: o.metrics.seriesOf(e.Name, e.Kind, e.Mode), caller: ctx}
	a.Context, a.span = o.tracer.Start(ctx, "holdfast.acquire", a.in.span...)
	a.recording, a.sampled = a.span.IsRecording(), a.span.SpanContext().IsSampled()
	if e.Permits > 0 && a.recording {
		a.span.SetAttributes(attribute.Int("holdfast.permits", e.Permits))
	}
	return a
}

func (o *observer) acquireQueued(ctx context.Context, e holdfast.AcquireEvent) {
	a, ctx := o.of(ctx)
	if a == nil {
		return
	}
	a.queued = true
	o.metrics.waiting.Add(ctx, 1, a.in.by[tag{}].add...)
	if a.recording {
		a.span.AddEvent("holdfast.queued", trace.WithAttributes(attribute.Int("holdfast.ahead", e.Ahead)))
		o.link(a, e.Name, e.Holder)
	}
}

// link links the span to the holder's, once, if the holder is known and is one of ours.
func (o *observer) link(a *acquire, name string, h holdfast.Holder) {
	if a.linked || h.Grant == "" {
		return
	}
	var other any
	if other, a.linked = o.holders.Load(holder{name, h.Grant}); a.linked {
		a.span.AddLink(trace.Link{SpanContext: other.(*acquire).span.SpanContext()})
	}
}

func (o *observer) acquireEnd(ctx context.Context, e holdfast.AcquireEvent) {
	a, ctx := o.of(ctx)
	if a == nil {
		return
	}
	m := o.metrics
	if a.queued {
		m.waiting.Add(ctx, -1, a.in.by[tag{}].add...)
	}
	how := tag{outcome: outcomeOf(e.Err)}
	if e.Err == nil {
		how.handover = e.Handover
		a.in.held.Add(1)
		if e.Handover != holdfast.HandoverNone {
			m.handovers.Add(ctx, 1, a.in.by[tag{handover: e.Handover}].add...)
		}
	}
	m.acquire.Record(ctx, e.Waited.Seconds(), a.in.by[how].record...)
	if a.recording {
		a.span.SetAttributes(how.attributes()...)
		if e.Err == nil {
			a.span.SetAttributes(attribute.Int64("holdfast.fence", int64(e.Fence)))
			if a.sampled && e.Grant != "" {
				o.holders.Store(holder{e.Name, e.Grant}, a)
			}
		} else {
			o.link(a, e.Name, e.Holder)
			if how.outcome != held && how.outcome != canceled { // those two are no failures
				a.span.SetStatus(codes.Error, string(how.outcome))
			}
		}
	}
	a.span.End()
}

func (o *observer) renewed(ctx context.Context, e holdfast.LeaseEvent) {
	if a, ctx := o.of(ctx); a != nil {
		o.metrics.slack.Record(ctx, e.Slack.Seconds(), a.in.by[tag{}].record...)
	}
}

func (o *observer) renewFailed(ctx context.Context, _ holdfast.LeaseEvent) {
	if a, ctx := o.of(ctx); a != nil {
		o.metrics.failures.Add(ctx, 1, a.in.by[tag{}].add...)
	}
}

func (o *observer) lost(ctx context.Context, e holdfast.LeaseEvent) {
	a, ctx := o.of(ctx)
	if a == nil {
		return
	}
	o.metrics.lost.Add(ctx, 1, a.in.by[tag{reason: e.Reason}].add...)
	o.end(ctx, a, e, lost)
	if caller := trace.SpanFromContext(a.caller); caller.IsRecording() {
		what := append(tag{reason: e.Reason}.attributes(), attribute.Int64("holdfast.fence", int64(e.Fence)))
		caller.AddEvent("holdfast.lost", trace.WithAttributes(what...))
	}
}

func (o *observer) released(ctx context.Context, e holdfast.LeaseEvent) {
	if a, ctx := o.of(ctx); a != nil {
		o.end(ctx, a, e, released)
	}
}

// end counts the end of a lease.
func (o *observer) end(ctx context.Context, a *acquire, e holdfast.LeaseEvent, how outcome) {
	a.in.held.Add(-1)
	o.metrics.hold.Record(ctx, e.Held.Seconds(), a.in.by[tag{outcome: how}].record...)
	if a.sampled {
		o.holders.CompareAndDelete(holder{e.Name, e.Grant}, a) // a nested lease may have taken its place
	}
}

// outcome says how an acquire or a hold ended.
type outcome string

const (
	granted     outcome = "granted"
	held        outcome = "held"
	canceled    outcome = "canceled"
	unavailable outcome = "unavailable"
	lost        outcome = "lost" // also the ticket of an Adopt
	closed      outcome = "closed"
	deadlock    outcome = "deadlock"
	refused     outcome = "refused"
	released    outcome = "released"
)

// outcomeOf returns how an acquire ended that returned err.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return granted
	case errors.Is(err, holdfast.ErrHeld):
		return held
	case errors.Is(err, holdfast.ErrUnavailable): // even if the context ended meanwhile
		return unavailable
	case errors.Is(err, holdfast.ErrLost):
		return lost
	case errors.Is(err, holdfast.ErrClosed):
		return closed
	case errors.Is(err, holdfast.ErrDeadlock):
		return deadlock
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return canceled
	}
	return refused
}
