package doctor

import (
	"context"
	"fmt"
	"time"
)

// sample is one reading of a server's clock. Times are since the watch began: by the
// local monotonic clock, and by the server's clock.
type sample struct {
	sent, received time.Duration
	server         time.Duration
}

// offset is by how much the server's clock is ahead of ours, with an error of half the
// round trip.
func (s sample) offset() time.Duration { return s.server - s.middle() }
func (s sample) middle() time.Duration { return (s.sent + s.received) / 2 }
func (s sample) doubt() time.Duration  { return (s.received-s.sent)/2 + time.Microsecond }

// watch is what samples come to.
type watch struct {
	offset, doubt time.Duration // of the sample with the shortest round trip
	step          time.Duration // the largest jump that is certain; negative: back
	rate          float64       // of the server's clock beside ours, less 1; without a step
	rateDoubt     float64
	lasted        time.Duration
}

// mostRate is by how much clock rates may differ, as docs/GUARANTEES.md assumes.
const mostRate = 0.01

// mostSlew is the fastest that a clock is taken to be slewed; what is faster between two
// samples is a jump. chronyd slews by up to 0.083.
const mostSlew = 0.1

// estimate reads samples, which are in order.
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
		gone := t.offset() - s.offset()
		room := s.doubt() + t.doubt() + time.Duration(mostSlew*float64(t.received-s.sent))
		if gone > room && gone-room > w.step.Abs() {
			w.step = gone - room
		}
		if -gone > room && -gone-room > w.step.Abs() {
			w.step = gone + room
		}
	}
	s, t := best(samples[:(len(samples)+1)/2]), best(samples[len(samples)/2:])
	w.lasted = samples[len(samples)-1].received - samples[0].sent
	if apart := t.middle() - s.middle(); t.sent > s.received && w.step == 0 {
		w.rate = float64(t.offset()-s.offset()) / float64(apart)
		w.rateDoubt = float64(s.doubt()+t.doubt()) / float64(apart)
	}
	return w
}

// clocks watches all nodes' clocks at once, and compares them.
func (x *examination) clocks(ctx context.Context) {
	const least = 20
	pause := min(x.Watch/least, 50*time.Millisecond)
	begun := time.Now()
	watches := make(map[*node]watch)
	x.each(func(n *node) {
		var samples []sample
		for len(samples) < least || time.Since(begun) < x.Watch {
			sent := time.Since(begun)
			now, err := n.rdb.Time(ctx).Result()
			if err != nil {
				n.add(unchecked("clock", "TIME", err))
				return
			}
			// Sub takes wall-clock times here: the server's has no other.
			samples = append(samples, sample{sent, time.Since(begun), now.Sub(begun.Round(0))})
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		w := estimate(samples)
		n.add(judge(w))
		x.mu.Lock()
		defer x.mu.Unlock()
		watches[n] = w
	})
	if f, apart := x.spread(watches); apart {
		x.add(f)
	}
}

// judge says what a watch means for locks.
func judge(w watch) Finding {
	side := "ahead of"
	if w.offset < 0 {
		side = "behind"
	}
	f := Finding{ID: "clock", Severity: OK, Saw: fmt.Sprintf("%s %s this machine's (± %s), steady for %s",
		short(w.offset.Abs()), side, short(w.doubt), short(w.lasted))}
	switch {
	case w.step > 0:
		f.Severity, f.Saw = Problem, fmt.Sprintf("jumped forward by %s while watched for %s", short(w.step), short(w.lasted))
		f.Consequence = "all locks ended that much earlier than their holders believe"
		f.Remedy = "have the clock slewed, not stepped (chronyd; ntpd -x), and see to the machine's time source"
	case w.step < 0:
		f.Severity, f.Saw = Warning, fmt.Sprintf("jumped back by %s while watched for %s", short(-w.step), short(w.lasted))
		f.Consequence = "locks of dead holders stay that much longer; fences can repeat if their counter is lost"
		f.Remedy = "have the clock slewed, not stepped (chronyd; ntpd -x), and see to the machine's time source"
	case abs(w.rate)-w.rateDoubt > mostRate:
		f.Severity, f.Saw = Problem, fmt.Sprintf("runs %+.1f%% beside this machine's clock", 100*w.rate)
		f.Consequence = "locks are safe up to 1%: beyond it they end earlier than holders believe, or later"
		f.Remedy = "see to the time sources of both machines"
	case w.offset.Abs()-w.doubt > time.Second:
		f.Severity = Note
		f.Consequence = "none for locks, whose deadlines are durations; times in reports look odd"
		f.Remedy = "synchronise the clocks (chronyd, systemd-timesyncd)"
	}
	return f
}

// spread says whether servers that may follow one another have clocks too far apart:
// expiries are replicated as times of day.
func (x *examination) spread(watches map[*node]watch) (f Finding, apart bool) {
	var most, spare time.Duration
	spare = x.TTL/100 + 2*time.Millisecond // what a lease can spare: the library's drift
	var first, last *node
	for a, wa := range watches {
		for b, wb := range watches {
			if d := wb.offset - wa.offset - wa.doubt - wb.doubt; d > most {
				most, first, last = d, a, b
			}
		}
	}
	if most <= spare {
		return f, false
	}
	return Finding{
		ID: "clock", Severity: Warning, Saw: fmt.Sprintf("at least %s apart", short(most)),
		Consequence: fmt.Sprintf("when the one ahead takes over, locks end that much early; a TTL of %s can spare %s", x.TTL, short(spare)),
		Remedy:      "synchronise the servers' clocks (chronyd, systemd-timesyncd)",
	}.on(last, first), true
}

func abs(x float64) float64 { return max(x, -x) }

// short writes a duration with three digits at most.
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
