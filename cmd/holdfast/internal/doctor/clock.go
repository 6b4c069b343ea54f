package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
)

// sample is one reading of a server's clock. Times count from the start of the watch: those of sent and received on
// the local monotonic clock, server on the server's clock.
type sample struct {
	sent, received time.Duration
	server         time.Duration
}

// offset is how far the server's clock is ahead of ours, with an error of up to doubt.
func (s sample) offset() time.Duration { return s.server - s.middle() }
func (s sample) middle() time.Duration { return (s.sent + s.received) / 2 }
func (s sample) doubt() time.Duration  { return (s.received-s.sent)/2 + time.Microsecond }

// watch is what samples show about a clock.
type watch struct {
	offset, doubt time.Duration // of the sample with the shortest round trip
	jump          time.Duration // the largest that is certain; negative if backward
	rate          float64       // of the server's clock relative to ours, less 1; 0 after a jump
	rateDoubt     float64
	lasted        time.Duration
}

// maxRate is how much clock rates may differ, as docs/GUARANTEES.md assumes.
const maxRate = 0.01

// maxSlew is the fastest that clocks are slewed: chronyd slews by up to 0.083. What is faster is a jump.
const maxSlew = 0.1

// estimate evaluates samples, which are in order.
func estimate(samples []sample) (w watch) {
	best := func(some []sample) sample {
		least := some[0]
		for _, s := range some {
			if s.doubt() < least.doubt() {
				least = s
			}
		}
		return least
	}
	b := best(samples)
	w.offset, w.doubt = b.offset(), b.doubt()
	for i := 1; i < len(samples); i++ {
		s, t := samples[i-1], samples[i]
		moved := t.offset() - s.offset()
		explained := s.doubt() + t.doubt() + time.Duration(maxSlew*float64(t.received-s.sent))
		if moved > explained && moved-explained > w.jump.Abs() {
			w.jump = moved - explained
		}
		if -moved > explained && -moved-explained > w.jump.Abs() {
			w.jump = moved + explained
		}
	}
	s, t := best(samples[:(len(samples)+1)/2]), best(samples[len(samples)/2:])
	w.lasted = samples[len(samples)-1].received - samples[0].sent
	if apart := t.middle() - s.middle(); t.sent > s.received && w.jump == 0 {
		w.rate = float64(t.offset()-s.offset()) / float64(apart)
		w.rateDoubt = float64(s.doubt()+t.doubt()) / float64(apart)
	}
	return w
}

// checkClocks watches the clocks of all servers at once for a time, and compares them.
func checkClocks(ctx context.Context, subjects []*subject, ttl, watchTime time.Duration) []report.Finding {
	began := time.Now()
	watches := map[string]watch{} // by address
	var mu sync.Mutex             // guards watches
	found := each(subjects, func(s *subject) []report.Finding {
		samples, err := s.sampleClock(ctx, began, watchTime)
		if err != nil {
			return []report.Finding{report.Clock.Unchecked("TIME", err)}
		}
		w := estimate(samples)
		mu.Lock()
		defer mu.Unlock()
		watches[s.Addr] = w
		return []report.Finding{judgeClock(w)}
	})
	return append(found, compareClocks(watches, ttl)...)
}

// sampleClock reads the server's clock until watchTime has passed since began.
func (s *subject) sampleClock(ctx context.Context, began time.Time, watchTime time.Duration) (samples []sample, err error) {
	const least = 20
	pause := min(watchTime/least, 50*time.Millisecond)
	for len(samples) < least || time.Since(began) < watchTime {
		sent := time.Since(began)
		now, err := s.Client.Time(ctx).Result()
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

// judgeClock says what a watch means for locks.
func judgeClock(w watch) report.Finding {
	const (
		slew        = "slew the clock instead of stepping it (chronyd; ntpd -x), and check the machine's time source"
		synchronise = "synchronise the clocks (chronyd, systemd-timesyncd)"
	)
	switch {
	case w.jump > 0:
		return report.Clock.Problem(fmt.Sprintf("jumped forward by %s while watched for %s", short(w.jump), short(w.lasted)),
			"all locks expired that much earlier than their holders believe", slew)
	case w.jump < 0:
		return report.Clock.Warning(fmt.Sprintf("jumped back by %s while watched for %s", short(-w.jump), short(w.lasted)),
			"locks of dead holders last that much longer; fences can repeat if their counter is lost", slew)
	case abs(w.rate)-w.rateDoubt > maxRate:
		return report.Clock.Problem(fmt.Sprintf("runs %+.1f%% relative to this machine's clock", 100*w.rate),
			"locks tolerate 1%; beyond that, they expire earlier or later than their holders believe", "check the time sources of both machines")
	}
	side := "ahead of"
	if w.offset < 0 {
		side = "behind"
	}
	saw := fmt.Sprintf("%s %s this machine's (± %s), steady for %s", short(w.offset.Abs()), side, short(w.doubt), short(w.lasted))
	if w.offset.Abs()-w.doubt > time.Second {
		return report.Clock.Note(saw, "none for locks, whose deadlines are durations; times in reports look odd", synchronise)
	}
	return report.Clock.OK(saw)
}

// compareClocks checks that the clocks of servers that may follow one another are close: expiry times are replicated
// as times of day.
func compareClocks(watches map[string]watch, ttl time.Duration) []report.Finding {
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
	return []report.Finding{report.Clock.Warning(fmt.Sprintf("at least %s apart", short(most)),
		fmt.Sprintf("if the one ahead takes over, locks expire that much early; a TTL of %s can spare %s", ttl, short(spare)),
		"synchronise the servers' clocks (chronyd, systemd-timesyncd)").On(ahead, behind)}
}

func abs(x float64) float64 { return max(x, -x) }

// short writes a duration with at most three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
