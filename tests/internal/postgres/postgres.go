// Package postgres starts a real PostgreSQL server for tests: a private one in a temporary folder, which it
// listens in on a Unix socket.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/holdfast-go/holdfast/tests/internal/child"
)

const (
	readyTimeout = 2 * time.Minute // a server starts in half a second; a loaded machine takes its time
	stopTimeout  = time.Minute
	pollInterval = 10 * time.Millisecond
)

// role owns every database.
const role = "holdfast"

// Server is one server. It persists nothing: its folder is removed when it stops.
type Server struct {
	dir     string
	process *child.Process // nil if it was not started
}

// Start starts a server and waits until it answers. The error matches ErrMissing if this machine has no
// PostgreSQL. The server ends with Stop and, on Linux, with this process, for whatever reason that ends.
func Start() (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	// t.TempDir lies in a folder that another user cannot enter.
	dir, err := os.MkdirTemp("", "holdfast-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.launch(bin); err != nil {
		log := s.log()
		return nil, errors.Join(fmt.Errorf("%s: %w\n%s", bin, err, log), s.Stop())
	}
	return s, nil
}

func (s *Server) launch(bin string) error {
	attributes, err := unprivileged(s.dir)
	if err != nil {
		return err
	}
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, program), args...)
		cmd.Dir = s.dir
		cmd.Env = append(os.Environ(), "LC_ALL=C", "PGTZ=UTC")
		cmd.SysProcAttr = attributes()
		return cmd
	}
	data := filepath.Join(s.dir, "data")
	initdb := command("initdb", "-D", data, "-U", role, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	log, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := command("postgres", "-D", data, "-k", s.dir, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
		"-c", "shared_buffers=16MB", "-c", "autovacuum=off")
	cmd.Stdout, cmd.Stderr = log, log
	if s.process, err = child.Run(cmd); err != nil {
		return err
	}
	return s.ready()
}

// ready waits until the server answers.
func (s *Server) ready() error {
	db, err := sql.Open("pgx", s.DSN("postgres", nil))
	if err != nil {
		return err
	}
	defer db.Close()
	for deadline := time.Now().Add(readyTimeout); ; time.Sleep(pollInterval) {
		err := db.Ping()
		if err == nil {
			return nil
		}
		if s.process.HasEnded() {
			return errors.New("postgres ended at once")
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer within %v: %w", readyTimeout, err)
		}
	}
}

// DSN returns the data source name of a database, with these parameters of the session, such as
// default_transaction_isolation.
func (s *Server) DSN(database string, parameters map[string]string) string {
	q := url.Values{"host": {s.dir}, "user": {role}, "sslmode": {"disable"}}
	for name, value := range parameters {
		q.Set(name, value)
	}
	return "postgres:///" + database + "?" + q.Encode()
}

// Create creates an empty database.
func (s *Server) Create(ctx context.Context, database string) error {
	db, err := sql.Open("pgx", s.DSN("postgres", nil))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+database)
	return err
}

// Stop ends the server, even with clients connected, and removes its folder.
func (s *Server) Stop() error {
	var err error
	if p := s.process; p != nil {
		_ = p.Cmd.Process.Signal(syscall.SIGINT) // "fast shutdown"; it may have ended
		if !p.EndsWithin(stopTimeout) {
			err = fmt.Errorf("postgres: not gone %v after SIGINT", stopTimeout)
			p.Kill()
		}
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return ""
	}
	lines := strings.SplitAfter(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "")
}

// ErrMissing says that this machine has no PostgreSQL.
var ErrMissing = errors.New("no PostgreSQL server to test with: install one (tests/ensure-postgres.sh does), " +
	"or name the folder of its programs in HOLDFAST_TEST_POSTGRES")

// places are where packages install the programs, outside PATH: one folder for each version.
var places = []string{
	"/usr/lib/postgresql/*/bin",         // Debian
	"/usr/pgsql-*/bin",                  // PostgreSQL's own for Fedora and RHEL
	"/usr/libexec/postgresql*",          // Alpine
	"/opt/homebrew/opt/postgresql*/bin", // macOS
	"/usr/local/opt/postgresql*/bin",
}

// find returns the folder of PostgreSQL's programs: the one that HOLDFAST_TEST_POSTGRES names, the one in PATH,
// or the latest that a package has installed.
func find() (string, error) {
	if dir := os.Getenv("HOLDFAST_TEST_POSTGRES"); dir != "" {
		if !complete(dir) {
			return "", fmt.Errorf("HOLDFAST_TEST_POSTGRES: no initdb and postgres in %s", dir)
		}
		return dir, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil && complete(filepath.Dir(path)) {
		return filepath.Dir(path), nil
	}
	var found []string
	for _, pattern := range places {
		dirs, _ := filepath.Glob(pattern) // the patterns are well-formed
		found = append(found, slices.DeleteFunc(dirs, func(dir string) bool { return !complete(dir) })...)
	}
	if len(found) == 0 {
		return "", ErrMissing
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }), nil
}

// complete reports whether a folder has what Start needs.
func complete(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

var number = regexp.MustCompile(`\d+`)

// version returns the first number in a folder's name, or 0 if there is none.
func version(dir string) int {
	n, _ := strconv.Atoi(number.FindString(dir))
	return n
}
