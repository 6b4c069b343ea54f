// Package server starts real Redis and Valkey servers for tests, one process
// each, on loopback ports of their own, and ends them with the test.
package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

const (
	readyTimeout = time.Minute     // a server starts in 50 ms; a loaded machine takes its time
	agreeTimeout = 2 * time.Minute // several servers agree within seconds, and start over if they do not; sentinels rest for 30 s after the machine stood still
	stopTimeout  = 30 * time.Second
	replyTimeout = 10 * time.Second // a healthy server answers within that
	pollInterval = 5 * time.Millisecond
)

// Server is one server process. While the test runs, its methods may be called from any goroutine, but only one
// of Stop, Kill, Restart, Pause and Resume at a time. A method that fails reports an error of the test.
type Server struct {
	tb       testing.TB
	bin      Binary
	dir      string
	port     int
	conf     []string
	env      []string
	password string
	sentinel bool

	mu   sync.Mutex
	proc *process // the latest one started
}

// process is one run of the server.
type process struct {
	*child.Process
	wanted bool // this package ended it; guarded by Server.mu
}

// Option changes how a server starts.
type Option func(*Server)

// Conf adds a line to the server's configuration file, such as Conf("appendonly", "yes"). The value is written
// verbatim: one with spaces that is a single argument must bring its own quotes.
func Conf(key, value string) Option {
	return func(s *Server) {
		s.conf = append(s.conf, key+" "+value)
		if key == "requirepass" {
			s.password = value // for Do
		}
	}
}

// Env sets a variable of the server's environment, such as LD_PRELOAD.
func Env(key, value string) Option {
	return func(s *Server) { s.env = append(s.env, key+"="+value) }
}

// Start starts a server that persists nothing unless an option says so, waits until it answers, and ends it
// when the test ends. If the test has failed, the end of the server's log is shown. A server that ends by
// itself fails the test.
func Start(tb testing.TB, bin Binary, opts ...Option) *Server {
	tb.Helper()
	s := &Server{tb: tb, bin: bin, dir: tb.TempDir()}
	for _, opt := range opts {
		opt(s)
	}
	// A process that is not one of these tests may take the port before the server does.
	var err error
	for range 5 {
		if s.port, err = ReservePort(); err != nil {
			break
		}
		if err = os.WriteFile(s.confFile(), []byte(s.config()), 0o600); err != nil {
			break
		}
		if err = s.launch(); err == nil {
			tb.Cleanup(s.cleanup)
			return s
		}
		if !strings.Contains(s.log(), "bind: Address already in use") {
			break
		}
	}
	tb.Fatalf("%s: %v\n%s", bin.Name, err, s.log())
	return nil
}

// Addr returns the server's address, host:port. It stays the same across restarts.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Binary returns the program that runs.
func (s *Server) Binary() Binary { return s.bin }

// Dir returns the server's working folder, which has its RDB and AOF files.
func (s *Server) Dir() string { return s.dir }

// Pid returns the process id of the server, or of its latest run.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Cmd.Process.Pid
}

// Stop ends the server with SIGTERM, as an operator would, and waits for it. A paused server is resumed first.
func (s *Server) Stop() {
	s.tb.Helper()
	s.Resume()
	p := s.expectEnd()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil && !p.HasEnded() {
		s.tb.Errorf("%s: SIGTERM: %v", s.bin.Name, err)
	}
	if !p.EndsWithin(stopTimeout) {
		s.tb.Errorf("%s: not gone %v after SIGTERM", s.bin.Name, stopTimeout)
		s.Kill()
	}
}

// Kill ends the server with SIGKILL and waits for it. It does nothing to a server that has already ended.
func (s *Server) Kill() {
	s.tb.Helper()
	p := s.expectEnd()
	if err := p.Cmd.Process.Kill(); err != nil && !p.HasEnded() {
		s.tb.Errorf("%s: SIGKILL: %v", s.bin.Name, err)
	}
	if !p.EndsWithin(stopTimeout) {
		s.tb.Errorf("%s: not gone %v after SIGKILL", s.bin.Name, stopTimeout)
	}
}

// Restart starts the server again, on its port and in its folder, and waits until it answers and has loaded its
// data. A server that still runs is killed first. The configuration is the one it started with, or what CONFIG
// REWRITE wrote.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if err := s.launch(); err != nil {
		s.tb.Errorf("%s: restart: %v", s.bin.Name, err)
	}
}

// Pause stops the server with SIGSTOP, and returns when it has stopped. Its connections stay open, and the
// kernel still accepts new ones for it.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := pause(s.Pid()); err != nil {
		s.tb.Errorf("%s: pause: %v", s.bin.Name, err)
	}
}

// Resume lets a paused server go on. It does nothing to one that runs.
func (s *Server) Resume() {
	s.tb.Helper()
	if err := resume(s.Pid()); err != nil && !s.current().HasEnded() {
		s.tb.Errorf("%s: resume: %v", s.bin.Name, err)
	}
}

// launch starts a process and waits until it answers.
func (s *Server) launch() error {
	args := []string{s.confFile()}
	if s.sentinel {
		args = append(args, "--sentinel")
	}
	cmd := exec.Command(s.bin.Path, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), s.env...)
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	running, err := child.Run(cmd)
	if err != nil {
		return err
	}
	p := &process{Process: running}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	if err := s.ready(p); err != nil {
		s.expectEnd()
		p.Process.Kill()
		return err
	}
	return nil
}

func (s *Server) config() string {
	conf := []string{
		"port " + strconv.Itoa(s.port),
		"bind 127.0.0.1",
		"dir " + strconv.Quote(s.dir),
		"daemonize no",
	}
	if !s.sentinel {
		conf = append(conf,
			`save ""`,
			"appendonly no",
			"repl-diskless-sync-delay 0", // replicas need not wait for more of them
		)
	}
	return strings.Join(slices.Concat(conf, s.conf), "\n") + "\n"
}

// ready waits until this very process answers, not another one that got the port.
func (s *Server) ready(p *process) error {
	return s.await("an answer", func() error {
		if p.HasEnded() {
			return permanent{fmt.Errorf("%s ended at once", s.bin.Path)}
		}
		if _, err := s.Do("PING"); err != nil {
			return err
		}
		info, err := s.info("server")
		if err != nil {
			return err
		}
		if pid := strconv.Itoa(p.Cmd.Process.Pid); info["process_id"] != pid {
			return fmt.Errorf("process %s answers, not %s (a wrapper script must exec)", info["process_id"], pid)
		}
		return nil
	})
}

// permanent is an error that does not pass by waiting.
type permanent struct{ error }

// await repeats probe until it succeeds.
func (s *Server) await(what string, probe func() error) error {
	return s.awaitFor(readyTimeout, what, probe)
}

// agree waits until several servers agree, or fails the test.
func (s *Server) agree(what string, probe func() error) {
	s.tb.Helper()
	expect.OK(s.tb, s.awaitFor(agreeTimeout, what, probe))
}

func (s *Server) awaitFor(limit time.Duration, what string, probe func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := probe()
		if err == nil {
			return nil
		}
		if fatal, ok := err.(permanent); ok {
			return fatal.error
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: no %s within %v: %w", s.Addr(), what, limit, err)
		}
		time.Sleep(pollInterval)
	}
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// expectEnd records that this package ends the process.
func (s *Server) expectEnd() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.wanted = s.proc.wanted || !s.proc.HasEnded()
	return s.proc
}

func (s *Server) cleanup() {
	if s.tb.Failed() && !s.current().HasEnded() {
		clients, err := s.Do("CLIENT", "LIST")
		s.tb.Logf("the clients of %s at %s in the end: %v %v", s.bin.Name, s.Addr(), clients, err)
	}
	s.Kill()
	if !s.current().wanted {
		s.tb.Errorf("%s at %s ended by itself", s.bin.Name, s.Addr())
	}
	if s.tb.Failed() {
		s.tb.Logf("the end of the log of %s at %s:\n%s", s.bin.Name, s.Addr(), s.log())
	}
}

func (s *Server) confFile() string { return filepath.Join(s.dir, "server.conf") }

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

func (s *Server) log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.SplitAfter(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "")
}
