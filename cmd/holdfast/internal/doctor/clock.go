package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// sample is one reading of a server's clock. Times count from the start of the watch: sent and received on the local monotonic clock,
// server on the server's clock.
type sample struct {
	sent, received time.Duration
	server         time.Duration
}

// offset returns how far the server's clock is ahead of this machine's. Its error is at most doubt.
func (s sample) offset() time.Duration { return s.server - (s.sent+s.received)/2 }
func (s sample) doubt() time.Duration  { return (s.received-s.sent)/2 + time.Microsecond }

// watch is the result of watching a clock.
type watch struct {
	offset, doubt time.Duration // of the sample with the shortest round trip
	jump          time.Duration // the largest certain jump; negative if backward
	lasted        time.Duration
}

// maxSlew is the highest rate at which a clock is slewed: chronyd's limit is 0.083. A faster change is a jump.
const maxSlew = 0.1

// estimate evaluates samples, which are in the order of their times.
func estimate(samples []sample) (w watch) {
	w.offset, w.doubt = samples[0].offset(), samples[0].doubt()
	for i, t := range samples[1:] {
		s := samples[i]
		if t.doubt() < w.doubt {
			w.offset, w.doubt = t.offset(), t.doubt()
		}
		moved := t.offset() - s.offset()
		certain := moved.Abs() - s.doubt() - t.doubt() - time.Duration(maxSlew*float64(t.received-s.sent))
		if certain > w.jump.Abs() {
			w.jump = certain
			if moved < 0 {
				w.jump = -certain
			}
		}
	}
	w.lasted = samples[len(samples)-1].received - samples[0].sent
	return w
}

// checkClocks watches the clocks of all servers concurrently, and compares them.
func (e *examination) checkClocks(ctx context.Context) []Finding {
	began := time.Now()
	watches := map[string]watch{} // by address
	var mu sync.Mutex             // guards watches
	found := each(e.servers, func(s *server) []Finding {
		samples, err := s.sampleClock(ctx, began)
		if err != nil {
			return []Finding{unchecked("clock", "TIME", err)}
		}
		w := estimate(samples)
		trips := make([]time.Duration, len(samples))
		for i, one := range samples {
			trips[i] = one.received - one.sent
		}
		slices.Sort(trips)
		s.roundTrip = trips[len(trips)/2]
		mu.Lock()
		defer mu.Unlock()
		watches[s.addr] = w
		return []Finding{judgeClock(w)}
	})
	return append(found, compareClocks(watches, e.TTL)...)
}

// sampleClock reads the server's clock repeatedly, until Config.Watch has passed since began.
func (s *server) sampleClock(ctx context.Context, began time.Time) (samples []sample, err error) {
	const least = 20
	pause := min(s.e.Watch/least, 50*time.Millisecond)
	for len(samples) < least || time.Since(began) < s.e.Watch {
		sent := time.Since(began)
		now, err := s.client.Time(ctx).Result()
		if err != nil {
			return nil, err
		}
		// Sub compares times of day here, because the server's time has no monotonic reading.
		samples = append(samples, sample{sent, time.Since(began), now.Sub(began.Round(0))})
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return samples, nil
}

func judgeClock(w watch) Finding {
	const slew = "slew the clock instead of stepping it (chronyd; ntpd -x), and check the machine's time source"
	switch {
	case w.jump > 0:
		return problem("clock", fmt.Sprintf("jumped forward by %s while watched for %s", console.Duration(w.jump), console.Duration(w.lasted)),
			"all locks expired that much earlier than their holders believe", slew)
	case w.jump < 0:
		return warning("clock", fmt.Sprintf("jumped back by %s while watched for %s", console.Duration(-w.jump), console.Duration(w.lasted)),
			"locks of dead holders last that much longer; fences can repeat if their counter is lost", slew)
	}
	side := "ahead of"
	if w.offset < 0 {
		side = "behind"
	}
	saw := fmt.Sprintf("%s %s this machine's (± %s), steady for %s",
		console.Duration(w.offset.Abs()), side, console.Duration(w.doubt), console.Duration(w.lasted))
	if w.offset.Abs()-w.doubt > time.Second {
		return note("clock", saw, "none for locks, whose deadlines are durations; times in reports look odd",
			"synchronise the clocks (chronyd, systemd-timesyncd)")
	}
	return fine("clock", saw)
}

// compareClocks checks that the servers' clocks are close to each other, because expiry times are replicated as times of day.
func compareClocks(watches map[string]watch, ttl time.Duration) []Finding {
	spare := ttl/100 + 2*time.Millisecond // what a lease can spare: the library's allowance for drift
	var most time.Duration
	var behind, ahead string
	for a, wa := range watches {
		for b, wb := range watches {
			if d := wb.offset - wa.offset - wa.doubt - wb.doubt; d > most {
				most, behind, ahead = d, a, b
			}
		}
	}
	if most <= spare {
		return nil
	}
	return []Finding{warning("clock", fmt.Sprintf("at least %s apart", console.Duration(most)),
		fmt.Sprintf("if the one ahead takes over, locks expire that much early; a TTL of %s can spare %s", ttl, console.Duration(spare)),
		"synchronise the servers' clocks (chronyd, systemd-timesyncd)").on(ahead, behind)}
}
