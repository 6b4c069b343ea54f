package pipe

import "github.com/holdfast-go/holdfast/internal/clock"

// serverClock estimates a server's clock from replies on one connection. After a failover, the new server's clock counts.
type serverClock struct {
	read   clock.Instant
	server int64 // server time at read, µs
}

// at returns the server's time at t, in µs.
func (c *serverClock) at(t clock.Instant) int64 { return c.server + t.Sub(c.read).Microseconds() }

// heard takes the time now, in µs, from the reply to a request. The server has read its clock between sent and heard.
func (c *serverClock) heard(sent, heard clock.Instant, now int64) {
	// mutants: pipe-clock
	c.server, c.read = min(max(c.at(heard), now), now+heard.Sub(sent).Microseconds()), heard
}
