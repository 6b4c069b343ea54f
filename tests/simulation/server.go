package simulation

import (
	"bufio"
	"crypto/sha1"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// redisServer is miniredis with a clock of its own, which can run at another rate than the clients', and jump,
// and with an INFO that shows a restart.
type redisServer struct {
	redis   *miniredis.Miniredis
	scripts *scripts

	mu    sync.Mutex
	begun time.Time
	rate  float64 // of its clock
	step  time.Duration
	name  string // distinguishes it from other servers
	lives int    // how often it was started
	// deletes is how many of its starts are with DELIFEQ, like Valkey 9; later ones are with an older program.
	deletes int
	set     int // how often a lock was asked for by the server's own commands
}

// newServer starts a server whose clock is ahead of the clients' by step.
func newServer(name string, rate float64, step time.Duration, deletes int) (*redisServer, error) {
	s := &redisServer{redis: miniredis.NewMiniRedis(), begun: time.Now(), rate: rate, step: step, name: name, lives: 1, deletes: deletes}
	conn, err := s.redis.Dial() // the miniredis in memory starts with its first connection
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	s.tick()
	s.redis.ClockTTL(true)
	s.scripts = newScripts(s.redis)
	s.redis.Server().SetPreHook(s.answer)
	return s, nil
}

// now returns what its clock shows.
func (s *redisServer) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	real := time.Since(s.begun)
	return s.begun.Add(time.Duration(float64(real)*s.rate) + s.step)
}

// tick sets miniredis's time; it is called before miniredis does anything.
func (s *redisServer) tick() { s.redis.SetTime(s.now()) }

// jump sets the clock forward, or back.
func (s *redisServer) jump(d time.Duration) {
	s.mu.Lock()
	s.step += d
	s.mu.Unlock()
	s.tick()
}

func (s *redisServer) accept(e *end) {
	e.arrived = s.tick
	s.redis.Server().ServeConn(e)
}

func (s *redisServer) do(args ...string) {
	s.tick()
	s.redis.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), args)
}

// value returns a key's value and time to live; "" if there is none.
func (s *redisServer) value(key string) (string, time.Duration) {
	s.tick()
	v, err := s.redis.Get(key)
	if err != nil {
		return "", 0
	}
	return v, s.redis.TTL(key)
}

// redissonValue is value for a lock in Redisson's form.
func (s *redisServer) redissonValue(key string) (string, time.Duration) {
	return s.hash(key)["holdfast"], s.redis.TTL(key)
}

// hash returns the fields of a key; none if there is none.
func (s *redisServer) hash(key string) map[string]string {
	s.tick()
	fields, err := s.redis.HKeys(key)
	if err != nil {
		return nil
	}
	all := map[string]string{}
	for _, field := range fields {
		all[field] = s.redis.HGet(key, field)
	}
	return all
}

func (s *redisServer) keys() []string {
	s.tick()
	return s.redis.Keys()
}

// restart makes it another incarnation, which knows no scripts. Its data stay.
func (s *redisServer) restart() {
	s.mu.Lock()
	s.lives++
	s.mu.Unlock()
	s.do("SCRIPT", "FLUSH")
}

func (s *redisServer) runID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%x", sha1.Sum(fmt.Append(nil, s.name, s.lives)))
}

// has reports whether it has DELIFEQ.
func (s *redisServer) has() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives <= s.deletes
}

// deleteIfEqual is a script that does the same as DELIFEQ.
const deleteIfEqual = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"

// answer answers what miniredis does not, also within scripts: INFO, DELIFEQ, and HELLO without arguments, by
// which the adapter asks what the server is.
func (s *redisServer) answer(c *server.Peer, command string, args ...string) bool {
	switch {
	case command == "SET" && len(args) == 5 && args[3] == "PXAT":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set++
		return false
	case command == "HELLO" && len(args) == 0:
		program := []string{"server", "redis", "version", "7.2.0", "mode", "standalone"}
		if s.has() {
			program[1], program[3] = "valkey", "9.0.0"
		}
		c.Block(func(w *server.Writer) {
			w.WriteMapLen(len(program) / 2)
			for _, text := range program {
				w.WriteBulk(text)
			}
		})
	case command == "DELIFEQ" && len(args) == 2 && s.has():
		s.redis.Server().Dispatch(c, []string{"EVAL", deleteIfEqual, "1", args[0], args[1]})
	case command == "INFO" && inTransaction(c): // it carries out a script later
		s.redis.Server().Dispatch(c, []string{"EVAL", "return ARGV[1]", "0", s.info(args)})
	case command == "INFO":
		c.WriteBulk(s.info(args))
	default:
		return s.scripts.answer(c, command, args)
	}
	return true
}

// info returns these sections of a master without replicas, as far as the library reads them.
func (s *redisServer) info(sections []string) string {
	id := s.runID()
	var b strings.Builder
	for _, section := range sections {
		switch strings.ToLower(section) {
		case "server":
			b.WriteString("# Server\r\nrun_id:" + id + "\r\n\r\n")
		case "memory":
			b.WriteString("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\r\n")
		case "replication":
			b.WriteString("# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid:" +
				fmt.Sprintf("%x", sha1.Sum([]byte(id))) + "\r\nmaster_replid2:" + strings.Repeat("0", 40) + "\r\n\r\n")
		}
	}
	return b.String()
}
