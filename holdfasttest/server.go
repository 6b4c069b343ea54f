// Package holdfasttest helps to test programs that use Holdfast. It provides a server that runs inside the process, also
// in virtual time.
package holdfasttest

import (
	"context"
	"errors"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// ServerConfig configures a Server. Its zero value is a server in memory.
type ServerConfig struct {
	// Listen is the TCP address to listen on, for example "127.0.0.1:0". If it is empty, the server can be reached only
	// through Dial.
	Listen string
}

// Server is a Redis server inside this process. It can do what locks need, but has no persistence, no Cluster mode and
// no ACL.
//
// In a testing/synctest bubble keys expire in virtual time. Start the server inside the bubble, reach it with Dial, and
// give go-redis a numeric address, such as "127.0.0.1:0", because it would look up a name outside the bubble.
type Server struct {
	redis     *miniredis.Miniredis
	timeMu    sync.Mutex // held while the server's time is set
	stopped   chan struct{}
	closeOnce sync.Once
}

// NewServer starts a server. A nil cfg is the zero ServerConfig.
func NewServer(cfg *ServerConfig) (*Server, error) {
	s := &Server{redis: miniredis.NewMiniRedis(), stopped: make(chan struct{})}
	s.redis.SetTime(time.Now())
	s.redis.ClockTTL(true)
	if cfg != nil && cfg.Listen != "" {
		if err := s.redis.StartAddr(cfg.Listen); err != nil {
			return nil, err
		}
	}
	conn, err := s.redis.Dial() // miniredis starts a server in memory with its first connection
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	s.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if !withinScript(c) {
			s.advanceTime()
		}
		return hello(c, command, args...)
	})
	return s, nil
}

// advanceTime sets the server's time to now. It is called before each command, except for the commands of a script:
// as on a real server, keys must not expire between them.
func (s *Server) advanceTime() {
	s.timeMu.Lock() // so that the time never goes back
	defer s.timeMu.Unlock()
	s.redis.SetTime(time.Now())
}

// withinScript reports whether a script runs the command. Only an unexported field of miniredis says so.
func withinScript(c *server.Peer) bool {
	record := reflect.ValueOf(c.Ctx)
	return record.IsValid() && record.Elem().FieldByName("nested").Bool()
}

// hello answers a HELLO without arguments, which miniredis does not support.
func hello(c *server.Peer, command string, args ...string) bool {
	if command != "HELLO" || len(args) > 0 {
		return false
	}
	fields := [][2]string{{"server", "redis"}, {"version", "7.2.0"}, {"mode", "standalone"}, {"role", "master"}}
	c.Block(func(w *server.Writer) {
		if c.Resp3 {
			w.WriteMapLen(len(fields))
		} else {
			w.WriteLen(2 * len(fields))
		}
		for _, f := range fields {
			w.WriteBulk(f[0])
			w.WriteBulk(f[1])
		}
	})
	return true
}

// Addr returns the TCP address, or "" for a server in memory.
func (s *Server) Addr() string {
	if s.redis.Server() == nil || s.redis.Server().Addr() == nil {
		return ""
	}
	return s.redis.Addr()
}

// Dial opens a connection in memory. It can be used as redis.Options.Dialer, and ignores network and addr.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-s.stopped:
		return nil, errors.New("holdfasttest: server closed")
	default:
		pipe, err := s.redis.Dial()
		if err != nil {
			return nil, err
		}
		return &conn{Conn: pipe}, nil
	}
}

// FlushAll deletes all data, as a restart without persistence would.
func (s *Server) FlushAll() { s.redis.FlushAll() }

// Close stops the server and closes its connections.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		close(s.stopped)
		s.redis.Close()
	})
}

// TB is implemented by *testing.T, *testing.B and *testing.F.
type TB interface {
	Cleanup(func())
	Fatalf(format string, args ...any)
	Helper()
}

// Run starts a server in memory and closes it when the test ends.
func Run(t TB) *Server {
	t.Helper()
	s, err := NewServer(nil)
	if err != nil {
		t.Fatalf("holdfasttest: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}
