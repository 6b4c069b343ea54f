package holdfastotel

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

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

// Names adds the attribute holdfast.lock to metrics and spans. Its value is what group returns for the name of a lock; if
// that is "", there is no attribute. The name of a Multi is all names, with commas between them. Without this option, neither
// metrics nor spans say which lock they are about.
//
// Each value makes new time series, so group must return few different values: "order", say, for "order:8139" and all other
// orders. The first 1000 count; the attribute of all others is "other". group is called by each acquire and must not block.
func Names(group func(name string) string) Option { return func(s *settings) { s.group = group } }

// resolve returns the settings that the options make.
func resolve(opts []Option) (settings, error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), group: func(string) string { return "" }}
	for _, set := range opts {
		if set == nil {
			return s, fmt.Errorf("holdfastotel: %w: an option is nil", holdfast.ErrInvalid)
		}
		set(&s)
	}
	switch {
	case s.meters == nil:
		return s, fmt.Errorf("holdfastotel: %w: the MeterProvider is nil", holdfast.ErrInvalid)
	case s.tracers == nil:
		return s, fmt.Errorf("holdfastotel: %w: the TracerProvider is nil", holdfast.ErrInvalid)
	case s.group == nil:
		return s, fmt.Errorf("holdfastotel: %w: the function of Names is nil", holdfast.ErrInvalid)
	}
	return s, nil
}
