package main

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/quorum"
)

func holdfastOverGoredis(localHandovers int) func(job) (*locker, error) {
	return func(j job) (*locker, error) {
		return newHoldfast(j, localHandovers, func(addrs []string, cfg *holdfast.Config) (*holdfast.Client, func(), error) {
			rdb := dialGoredis(addrs)
			c, err := holdfastgoredis.New(rdb, cfg)
			return c, func() { _ = rdb.Close() }, err
		})
	}
}

func holdfastOverRueidis(localHandovers int) func(job) (*locker, error) {
	return func(j job) (*locker, error) {
		return newHoldfast(j, localHandovers, func(addrs []string, cfg *holdfast.Config) (*holdfast.Client, func(), error) {
			c, err := holdfastrueidis.New(rueidisOption(addrs), cfg)
			return c, func() {}, err
		})
	}
}

// holdfastObserved reports to OpenTelemetry's SDK: metrics, which are not read during a turn, and a span for each acquire, which
// is recorded and thrown away if traces is set, and otherwise not sampled.
func holdfastObserved(traces bool) func(job) (*locker, error) {
	return func(j job) (*locker, error) {
		sampler := trace.NeverSample()
		if traces {
			sampler = trace.AlwaysSample()
		}
		observer, err := holdfastotel.New(
			holdfastotel.MeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
			holdfastotel.TracerProvider(trace.NewTracerProvider(trace.WithSampler(sampler), trace.WithSpanProcessor(discard{}))))
		if err != nil {
			return nil, err
		}
		rdb := dialGoredis(j.Addrs)
		c, err := holdfastgoredis.New(rdb, &holdfast.Config{TTL: ttl, Observers: []*holdfast.Observer{observer}})
		if err != nil {
			return nil, err
		}
		return holdfastLocks([]*holdfast.Client{c}, []func(){func() { _ = rdb.Close() }}), nil
	}
}

// discard is a processor that throws spans away.
type discard struct{}

func (discard) OnStart(context.Context, trace.ReadWriteSpan) {}
func (discard) OnEnd(trace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error               { return nil }
func (discard) ForceFlush(context.Context) error             { return nil }

func newHoldfast(j job, localHandovers int, connect func([]string, *holdfast.Config) (*holdfast.Client, func(), error)) (*locker, error) {
	cfg := &holdfast.Config{TTL: ttl, MaxLocalHandovers: localHandovers, Strict: j.Kind == "quorum"}
	places := [][]string{j.Addrs}
	if j.Kind == "quorum" {
		places = nil
		for _, addr := range j.Addrs {
			places = append(places, []string{addr})
		}
	}
	var clients []*holdfast.Client
	var closers []func()
	for _, addrs := range places {
		c, closer, err := connect(addrs, cfg)
		if err != nil {
			return nil, err
		}
		clients, closers = append(clients, c), append(closers, closer)
	}
	l := holdfastLocks(clients, closers)
	if j.Kind != "quorum" {
		return l, nil
	}
	var err error
	l.quorum, err = quorum.New(clients, &quorum.Config{NodeTimeout: ttl / 20}) // redsync waits that long
	l.lock = func(name string) lock { return &quorumLock{holdfastLock{l: l.quorum.Mutex(name)}} }
	return l, err
}

// admit admits new servers to a quorum.
func admit(ctx context.Context, addrs []string) error {
	l, err := holdfastOverGoredis(0)(job{cell: cell{Kind: "quorum"}, Addrs: addrs})
	if err != nil {
		return err
	}
	defer l.close()
	return inspect.NewQuorum(l.quorum).Admit(ctx)
}

type holdfastLock struct {
	l     *holdfast.Lock
	lease *holdfast.Lease
}

func (l *holdfastLock) acquire(ctx context.Context) (err error) {
	l.lease, err = l.l.Acquire(ctx)
	return err
}

// quorumLock tries again if too few nodes answered in time, as redsync does by itself.
type quorumLock struct{ holdfastLock }

func (l *quorumLock) acquire(ctx context.Context) error {
	for {
		err := l.holdfastLock.acquire(ctx)
		if few := (*quorum.Error)(nil); !errors.As(err, &few) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (l *holdfastLock) release() error { return l.lease.Release(context.Background()) }

func (l *holdfastLock) lost() bool { return l.lease.Err() != nil }
