package server

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Binary is a program that serves the Redis protocol.
type Binary struct {
	Name   string // "redis-7.0", "valkey-8.1", or as HOLDFAST_TEST_SERVERS says
	Path   string // a command that takes redis-server's arguments
	Valkey bool
	Major  int
	Minor  int
}

// All finds the servers of this machine: redis-server and valkey-server in PATH, and those of
// HOLDFAST_TEST_SERVERS, a list NAME=PATH,NAME=PATH. If two have one name, the first counts. It is an error if
// there is none, or if one that HOLDFAST_TEST_SERVERS names does not run.
func All() ([]Binary, error) { return found() }

var found = sync.OnceValues(func() ([]Binary, error) {
	return find(os.Getenv("HOLDFAST_TEST_SERVERS"))
})

// Binaries returns what All finds; with -short only the first that HOLDFAST_TEST_SERVERS names, or else the
// first in PATH. Without a server the test fails: a suite that passes because it tested nothing is worse than
// one that fails.
func Binaries(tb testing.TB) []Binary {
	tb.Helper()
	all := expect.Of(All()).OK(tb)
	if testing.Testing() && testing.Short() {
		name, _, _ := strings.Cut(os.Getenv("HOLDFAST_TEST_SERVERS"), "=")
		named := slices.IndexFunc(all, func(b Binary) bool { return b.Name == strings.TrimSpace(name) })
		return all[max(named, 0):][:1]
	}
	return all
}

// Each runs f as a subtest with each of Binaries, all at once and in parallel with other tests. The subtests begin when the calling
// test function has returned.
func Each(t *testing.T, f func(t *testing.T, bin Binary)) {
	t.Helper()
	t.Parallel()
	for _, bin := range Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			f(t, bin)
		})
	}
}

// One returns the first of Binaries, for tests in which the kind of server
// does not matter.
func One(tb testing.TB) Binary {
	tb.Helper()
	return Binaries(tb)[0]
}

// AtLeast reports whether the server has this Redis version or a later one. Valkey counts as Redis 7.2, from
// which it was forked.
func (b Binary) AtLeast(major, minor int) bool {
	if b.Valkey {
		b.Major, b.Minor = 7, 2
	}
	return b.Major > major || b.Major == major && b.Minor >= minor
}

// Deletes reports whether the server has DELIFEQ.
func (b Binary) Deletes() bool { return b.Valkey && b.Major >= 9 }

func find(extra string) ([]Binary, error) {
	var all []Binary
	add := func(b Binary) {
		if !slices.ContainsFunc(all, func(known Binary) bool { return known.Name == b.Name }) {
			all = append(all, b)
		}
	}
	for _, program := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		b, err := identify(path)
		if err != nil {
			return nil, err
		}
		add(b)
	}
	for entry := range strings.SplitSeq(extra, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, path, ok := strings.Cut(entry, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("HOLDFAST_TEST_SERVERS: %q is not NAME=PATH", entry)
		}
		b, err := identify(path)
		if err != nil {
			return nil, fmt.Errorf("HOLDFAST_TEST_SERVERS: %w", err)
		}
		b.Name = name
		add(b)
	}
	if len(all) == 0 {
		return nil, errors.New("no Redis server to test with: install redis-server or valkey-server " +
			"(\"make server\" does), or name some in HOLDFAST_TEST_SERVERS as NAME=PATH,NAME=PATH")
	}
	return all, nil
}

// banner matches "Redis server v=7.0.15 sha=..." and "Valkey server v=8.1.1 ...".
var banner = regexp.MustCompile(`(?i)^(redis|valkey) server v=(\d+)\.(\d+)`)

func identify(path string) (Binary, error) {
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		return Binary{}, fmt.Errorf("%s --version: %w: %s", path, err, out)
	}
	m := banner.FindStringSubmatch(string(out))
	if m == nil {
		return Binary{}, fmt.Errorf("%s is no Redis server: it answers --version with %q", path, out)
	}
	kind := strings.ToLower(m[1])
	major, _ := strconv.Atoi(m[2]) // digits, says the pattern
	minor, _ := strconv.Atoi(m[3])
	return Binary{
		Name:   fmt.Sprintf("%s-%d.%d", kind, major, minor),
		Path:   path,
		Valkey: kind == "valkey",
		Major:  major,
		Minor:  minor,
	}, nil
}

// busOffset is how far above its port a server of a cluster talks to others.
const busOffset = 10000

// reservations are the ports that this process has used. They stay reserved until it ends, since clients
// outlive their servers: a client that looks for its own server must not meet that of another test, which
// counts commands.
var reservations struct {
	sync.Mutex
	all []io.Closer
}

// ReservePort picks a port between 10000 and 19999 on which, and on whose cluster bus, nobody listens. No other
// test gets it while this process runs: a server that is down for a moment finds its port free again. Outgoing
// connections have higher ports.
func ReservePort() (int, error) {
	var err error
	for range 100 {
		port := 10000 + rand.IntN(10000)
		// Servers listen on TCP; listening on the UDP port of the same number tells the tests of other
		// processes that it is taken.
		udp, err1 := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err1 != nil {
			err = err1
			continue
		}
		if err = errors.Join(tryListen(port), tryListen(port+busOffset)); err == nil {
			reservations.Lock()
			defer reservations.Unlock()
			reservations.all = append(reservations.all, udp)
			return port, nil
		}
		udp.Close()
	}
	return 0, fmt.Errorf("no free port found: %w", err)
}

func tryListen(port int) error {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return err
	}
	return l.Close()
}
