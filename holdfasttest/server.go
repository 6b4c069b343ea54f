// Package holdfasttest is for tests of programs that use Holdfast: a server inside
// the process, also under virtual time, and the suite that every driver passes.
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

// ServerConfig changes a Server. Its zero value is a server in memory.
type ServerConfig struct {
	// Listen is the TCP address to listen on, for example "127.0.0.1:0". Empty:
	// the server is reached through Dial only.
	Listen string
}

// Server is a Redis server inside this process, good enough for locks: it has no
// persistence, no Cluster mode and no ACL. Keys expire with the clock, which in a
// testing/synctest bubble is virtual: start the server inside the bubble, and reach it
// with Dial. There, give go-redis a numeric address, such as "127.0.0.1:0": it looks
// names up, outside the bubble.
type Server struct {
	redis   *miniredis.Miniredis
	ticking sync.Mutex
	stop    chan struct{}
	once    sync.Once
}

// NewServer starts a server.
func NewServer(cfg *ServerConfig) (*Server, error) {
	s := &Server{redis: miniredis.NewMiniRedis(), stop: make(chan struct{})}
	s.redis.SetTime(time.Now())
	s.redis.ClockTTL(true)
	if cfg != nil && cfg.Listen != "" {
		if err := s.redis.StartAddr(cfg.Listen); err != nil {
			return nil, err
		}
	}
	conn, err := s.redis.Dial() // a server in memory starts with its first connection
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	s.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if !withinScript(c) {
			s.tick()
		}
		return hello(c, command, args...)
	})
	return s, nil
}

// tick lets time pass for keys, up to now. It is called before commands, but not by those of
// a script: there time stands still, as on a real server, or keys would expire between
// its commands.
func (s *Server) tick() {
	s.ticking.Lock() // or an earlier time could come after a later one
	defer s.ticking.Unlock()
	s.redis.SetTime(time.Now())
}

// withinScript reports whether a command is a script's, which only miniredis's own record of
// the connection says.
func withinScript(c *server.Peer) bool {
	record := reflect.ValueOf(c.Ctx)
	return record.IsValid() && record.Elem().FieldByName("nested").Bool()
}

// hello answers a HELLO without arguments, which miniredis does not know.
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

// Addr returns the TCP address; empty for a server in memory.
func (s *Server) Addr() string {
	if s.redis.Server() == nil || s.redis.Server().Addr() == nil {
		return ""
	}
	return s.redis.Addr()
}

// Dial opens a connection in memory. It fits into redis.Options.Dialer; network and
// address do not matter.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-s.stop:
		return nil, errors.New("holdfasttest: the server is closed")
	default:
		return s.redis.Dial()
	}
}

// FlushAll deletes all data, as a restart without persistence would.
func (s *Server) FlushAll() { s.redis.FlushAll() }

// Close stops the server and its connections.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.stop)
		s.redis.Close()
	})
}

// TB is what Run needs of a testing.T or testing.B.
type TB interface {
	Cleanup(func())
	Fatalf(format string, args ...any)
	Helper()
}

// Run starts a server in memory that is closed when the test ends.
func Run(t TB) *Server {
	t.Helper()
	s, err := NewServer(nil)
	if err != nil {
		t.Fatalf("holdfasttest: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}
