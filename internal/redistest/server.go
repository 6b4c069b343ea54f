package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// patience bounds how long a server may take to start or to answer a test. A loaded machine needs much of it.
const patience = time.Minute

// Server is a server process that listens on a Unix socket in a folder of its own, so that it needs no port.
type Server struct {
	cmd   *exec.Cmd
	dir   string
	ended chan struct{} // closed when the process has been waited for
}

// find returns the path of a server program: the first in HOLDFAST_TEST_SERVERS, a list NAME=PATH,NAME=PATH, or else the first in
// PATH. If there is none, it skips the test.
func find(tb testing.TB) string {
	tb.Helper()
	if named := os.Getenv("HOLDFAST_TEST_SERVERS"); named != "" {
		first, _, _ := strings.Cut(named, ",")
		_, path, ok := strings.Cut(first, "=")
		if !ok {
			tb.Fatalf("HOLDFAST_TEST_SERVERS: %q is not NAME=PATH", first)
		}
		return path
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Skip(`SKIPPED: this test needs a redis-server or valkey-server in PATH; "make server" installs one`)
	return ""
}

func start(program string) (*Server, error) {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, ended: make(chan struct{})}
	s.cmd = exec.Command(program, "--port", "0", "--unixsocket", s.socket(), "--save", "", "--appendonly", "no", "--logfile", s.log())
	s.cmd.Dir = dir
	tie(s.cmd)
	began := make(chan error)
	go s.run(began)
	if err := <-began; err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	if err := s.ready(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// run starts the process and waits for it on one thread: where the process is tied to this one, the kernel ends it together
// with the thread that started it (golang/go#27505).
func (s *Server) run(began chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	began <- err
	if err == nil {
		_ = s.cmd.Wait() // it is killed
		close(s.ended)
	}
}

// ready waits until the server answers.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		_, err := s.do(ctx, "PING")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
			continue
		case <-s.ended:
		case <-ctx.Done():
		}
		log, _ := os.ReadFile(s.log())
		return fmt.Errorf("redistest: %s does not answer: %w\n%s", s.cmd.Path, err, log)
	}
}

// Stop ends the server and removes its folder. It may be called again.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.ended
	_ = os.RemoveAll(s.dir)
}

func (s *Server) socket() string { return filepath.Join(s.dir, "socket") }
func (s *Server) log() string    { return filepath.Join(s.dir, "log") }

// Driver returns a new driver for the server. Nothing is sent.
func (s *Server) Driver() *adapter.Driver { return adapter.Bare(s.socket(), s.dial) }

func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", s.socket())
}

// Do runs a command on a connection of its own and returns the reply as text.
func (s *Server) Do(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.do(ctx, args...)
}

func (s *Server) do(ctx context.Context, args ...string) (string, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return "", err
	}
	conn := adapter.NewConn(c)
	defer conn.Close()
	return conn.Do(ctx, args...)
}
