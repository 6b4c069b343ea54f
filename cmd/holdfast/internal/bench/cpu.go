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

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
)

// serverCPU asks a server for its processor time, and stops asking once the server cannot tell.
type serverCPU struct {
	rdb     redis.UniversalClient
	unknown string // why the server cannot tell; "" if it can
}

func newServerCPU(rdb redis.UniversalClient) *serverCPU {
	s := &serverCPU{rdb: rdb}
	if _, cluster := rdb.(*redis.ClusterClient); cluster {
		s.unknown = "a Cluster has several servers"
	}
	return s
}

// read returns the processor time that the server has used since its start, for all its users.
func (s *serverCPU) read(ctx context.Context) (used time.Duration, ok bool) {
	if s.unknown != "" {
		return 0, false
	}
	text, err := s.rdb.Info(ctx, "cpu").Result()
	var answer redis.Error
	switch {
	case errors.As(err, &answer) && strings.HasPrefix(answer.Error(), "NOPERM"):
		s.unknown = "this user may not send INFO"
		return 0, false
	case errors.As(err, &answer):
		s.unknown = fmt.Sprintf("INFO: %s", printable.Line(answer.Error(), 120))
		return 0, false
	case err != nil: // the connection failed; the next call may succeed
		return 0, false
	}
	if used, err = parseCPU(text); err != nil {
		s.unknown = printable.Line(err.Error(), 120)
		return 0, false
	}
	return used, true
}

// parseCPU adds up the fields of INFO cpu that are about the server process itself.
func parseCPU(text string) (used time.Duration, err error) {
	found := 0
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO has %s %q", name, value)
		}
		found++
		used += time.Duration(seconds * float64(time.Second))
	}
	if found != 2 {
		return 0, errors.New("the server's INFO does not have it")
	}
	return used, nil
}

// cpuReading is the processor time that the server and this process had used at one moment.
type cpuReading struct {
	server, client     time.Duration
	serverOK, clientOK bool
}

func (s *serverCPU) reading(ctx context.Context) (r cpuReading) {
	r.server, r.serverOK = s.read(ctx)
	r.client, r.clientOK = measure.ProcessCPU()
	return r
}

// since returns the processor time used since an earlier reading, in µs.
func (r cpuReading) since(before cpuReading) (server, client Number) {
	server, client = unmeasured, unmeasured
	if r.serverOK && before.serverOK && r.server >= before.server { // less after a restart
		server = micros(r.server - before.server)
	}
	if r.clientOK && before.clientOK {
		client = micros(r.client - before.client)
	}
	return server, client
}
