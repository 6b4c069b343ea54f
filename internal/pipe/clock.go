package pipe

import "github.com/holdfast-go/holdfast/internal/clock"

// serverClock is an estimate of a server's clock, made of replies on one connection: after a failover another clock counts.
type serverClock struct {
	read   clock.Instant
	server int64 // server time then, µs
}

// at returns the server's time at t, µs.
func (c *serverClock) at(t clock.Instant) int64 { return c.server + t.Sub(c.read).Microseconds() }

// heard takes the time in a reply to a request that was sent then. The server has read its clock between then and heard.
func (c *serverClock) heard(sent, heard clock.Instant, now int64) {
	// mutants: pipe-clock
	c.server, c.read = min(max(c.at(heard), now), now+heard.Sub(sent).Microseconds()), heard
}
