package bench

import "time"

// plan is how the time of a run is spent.
type plan struct {
	freeRounds, contendedRounds int
	free, contended             time.Duration // of a turn: one way at one level
	held                        time.Duration // in all, of which taking the leases may use a third, or leastTaking
}

// shortest is the time under which a turn is not worth having: then there are fewer rounds.
const (
	shortestFree      = 400 * time.Millisecond
	shortestContended = time.Second
)

func newPlan(cfg Config) plan {
	const ways = 2
	free, contended := cfg.For*45/100, cfg.For*25/100
	p := plan{held: cfg.For - free - contended}
	turns := time.Duration(ways * len(cfg.Levels))
	p.freeRounds = rounds(free/turns, shortestFree, 5)
	p.free = free / turns / time.Duration(p.freeRounds)
	p.contendedRounds = rounds(contended/ways, shortestContended, 3)
	p.contended = contended / ways / time.Duration(p.contendedRounds)
	return p
}

// rounds is an odd number of rounds, for which a median is one of them, at most most, each of
// the shortest time at least where there is enough.
func rounds(all, shortest time.Duration, most int) int {
	n := min(max(int(all/shortest), 1), most)
	if n%2 == 0 {
		n--
	}
	return n
}

// rotated is the order of a round: everybody is first in some.
func rotated[T any](all []T, round int) []T {
	first := round % len(all)
	return append(append([]T{}, all[first:]...), all[:first]...)
}
