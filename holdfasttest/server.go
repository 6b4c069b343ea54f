// Package holdfasttest tests programs that use Holdfast: New gives a client to which a test can do what production does,
// such as expire a lock or cut the client off. Its server runs inside the process, also in virtual time:
//
//	func TestTheJobStopsWhenItLosesTheLock(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			locks := holdfasttest.New(t)
//			job := start(locks.Client) // the code under test
//			locks.Expire("nightly")
//			if err := job.wait(); !errors.Is(err, holdfast.ErrLost) {
//				t.Errorf("the job ended with %v", err)
//			}
//		})
//	}
//
// The module examples has a test of this kind for every fault, in the folder rehearsal.
package holdfasttest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/network"
)

// ServerConfig configures a Server. Its zero value is a server in memory.
type ServerConfig struct {
	// Listen is the TCP address to listen on, for example "127.0.0.1:0". If it is empty, the server can be reached only
	// through Dial.
	Listen string
}

// Server is a Redis server inside this process. It can do what locks need, also in Strict mode, but has no persistence, no
// replicas, no Cluster mode and no ACL.
//
// In a testing/synctest bubble keys expire in virtual time. Start the server inside the bubble, reach it with Dial, and
// give go-redis a numeric address, such as "127.0.0.1:0", because it would look up a name outside the bubble.
type Server struct {
	redis     *miniredis.Miniredis
	network   network.Network // of connections opened by Dial
	listener  net.Listener    // nil for a server in memory
	accepting sync.WaitGroup
	timeMu    sync.Mutex // held while the server's time is set
	stopped   chan struct{}
	closeOnce sync.Once

	running sync.RWMutex // read-locked to open a connection
	down    bool         // it is restarting
	run     string       // identifies the time since the latest restart, as INFO tells it
}

// NewServer starts a server. A nil cfg is the zero ServerConfig.
func NewServer(cfg *ServerConfig) (*Server, error) {
	clock.StopBootInBubbles()
	s := &Server{redis: miniredis.NewMiniRedis(), stopped: make(chan struct{})}
	s.redis.SetTime(time.Now())
	s.redis.ClockTTL(true)
	if err := s.start(); err != nil {
		return nil, err
	}
	if cfg != nil && cfg.Listen != "" {
		listener, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			s.redis.Close()
			return nil, err
		}
		s.listener = listener
		s.accepting.Go(s.accept)
	}
	return s, nil
}

// start starts miniredis. It is given its connections, so that none comes before it is complete.
func (s *Server) start() error {
	var id [20]byte
	_, _ = rand.Read(id[:]) // never fails, since Go 1.24
	s.run = hex.EncodeToString(id[:])
	conn, err := s.redis.Dial() // miniredis starts with its first connection
	if err != nil {
		return err
	}
	defer conn.Close()
	s.redis.Server().SetPreHook(s.before)
	_, err = adapter.NewConn(conn).Do(context.Background(), "SCRIPT", "FLUSH") // those from before a restart
	return err
}

// accept serves who connects, until the listener is closed.
func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.running.RLock()
		if s.down {
			_ = conn.Close()
		} else {
			s.redis.Server().ServeConn(conn)
		}
		s.running.RUnlock()
	}
}

// Restart restarts the server, with its data, as after a shutdown that saved it, or without, as one that has no persistence.
// Either way connections break, and the server forgets its subscriptions and scripts; clients connect again by themselves.
// It takes a millisecond.
//
// After a restart without data, clients that are not Strict take their mutexes again, where nobody else was first; other
// leases end at their next renewal, with holdfast.LossDeleted. For Strict clients every restart may be a loss of data: the
// server grants nothing until the quarantine is over.
func (s *Server) Restart(withData bool) {
	s.running.Lock()
	s.down = true
	s.redis.Close()
	s.running.Unlock()
	if !withData {
		s.redis.FlushAll()
	}
	time.Sleep(time.Millisecond) // fences, made of the time, are not to repeat
	s.running.Lock()
	defer s.running.Unlock()
	if err := s.start(); err != nil {
		panic("holdfasttest: restart: " + err.Error()) // it has no listener that could fail
	}
	s.down = false
}

// before is called before each command, and reports whether it has answered it.
func (s *Server) before(c *server.Peer, command string, args ...string) bool {
	if !withinScript(c) {
		s.advanceTime()
	}
	if command == "SET" {
		sinceNow(args)
	}
	return hello(c, command, args...) || s.info(c, command, args...)
}

// sinceNow turns the time of a PXAT into that of a PX, of at least 1 ms. For PXAT, miniredis 2.40 reads its clock without a mutex, which
// is a data race.
func sinceNow(args []string) {
	for i := 2; i+1 < len(args); i++ {
		if ms, err := strconv.ParseInt(args[i+1], 10, 64); err == nil && strings.EqualFold(args[i], "PXAT") {
			args[i], args[i+1] = "PX", strconv.FormatInt(max(1, ms-time.Now().UnixMilli()), 10)
		}
	}
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

// info answers an INFO of the sections from which Strict clients learn of a restart, which miniredis does not support.
func (s *Server) info(c *server.Peer, command string, args ...string) bool {
	replication := fmt.Sprintf("# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid:%s\r\nmaster_replid2:%040d\r\n", s.run, 0)
	switch {
	case command == "INFO" && slices.Equal(args, []string{"server", "replication"}): // in scripts
		c.WriteBulk("# Server\r\nrun_id:" + s.run + "\r\n" + replication)
	case command == "INFO" && slices.Equal(args, []string{"replication"}): // in transactions, which carry out a script later
		s.redis.Server().Dispatch(c, []string{"EVAL", "return ARGV[1]", "0", replication})
	default:
		return false
	}
	return true
}

// Addr returns the TCP address, or "" for a server in memory.
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Dial opens a connection in memory. It can be used as redis.Options.Dialer, and ignores network and addr.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.dial(&s.network, func(f func()) { go f() })
}

// FlushAll deletes all data. Connections, and what clients know of the server, stay.
func (s *Server) FlushAll() { s.redis.FlushAll() }

// Close stops the server and closes its connections.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		close(s.stopped)
		if s.listener != nil {
			_ = s.listener.Close()
			s.accepting.Wait()
		}
		s.running.Lock()
		defer s.running.Unlock()
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
