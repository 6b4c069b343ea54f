package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// serverCPU asks a server how much processor time it has used. What it cannot tell, it is
// not asked for again.
type serverCPU struct {
	rdb    redis.UniversalClient
	reason string // why it does not tell; "" if it does
}

func newServerCPU(rdb redis.UniversalClient) *serverCPU {
	s := &serverCPU{rdb: rdb}
	if _, cluster := rdb.(*redis.ClusterClient); cluster {
		s.reason = "it is a Cluster, of several servers"
	}
	return s
}

// read returns what the server has used, for all its users, since it started.
func (s *serverCPU) read(ctx context.Context) (used time.Duration, ok bool) {
	if s.reason != "" {
		return 0, false
	}
	text, err := s.rdb.Info(ctx, "cpu").Result()
	var refused redis.Error
	switch {
	case errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "NOPERM"):
		s.reason = "this user may not send INFO"
		return 0, false
	case errors.As(err, &refused):
		s.reason = fmt.Sprintf("INFO: %s", printable.Line(refused.Error(), 120))
		return 0, false
	case err != nil: // of the way to the server
		return 0, false
	}
	if used, err = parseCPU(text); err != nil {
		s.reason = printable.Line(err.Error(), 120)
		return 0, false
	}
	return used, true
}

// parseCPU adds up what INFO cpu has of the process itself.
func parseCPU(text string) (used time.Duration, err error) {
	found := 0
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("in INFO, %s is %q", name, value)
		}
		found++
		used += time.Duration(seconds * float64(time.Second))
	}
	if found != 2 {
		return 0, errors.New("the server's INFO does not tell")
	}
	return used, nil
}

// meter measures processor time: of the server, and of this process.
type meter struct {
	server, client     time.Duration
	serverOK, clientOK bool
}

func (b *bench) meter(ctx context.Context) (m meter) {
	m.server, m.serverOK = b.cpu.read(ctx)
	m.client, m.clientOK = clientCPU()
	return m
}

// since returns what was used since before, in µs.
func (m meter) since(before meter) (server, client Number) {
	server, client = unmeasured, unmeasured
	if m.serverOK && before.serverOK && m.server >= before.server { // else it was restarted
		server = micros(m.server - before.server)
	}
	if m.clientOK && before.clientOK {
		client = micros(m.client - before.client)
	}
	return server, client
}
