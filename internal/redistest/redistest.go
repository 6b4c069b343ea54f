// Package redistest lets the tests beside the code use a real server, with nothing but the standard library: it starts a
// redis-server or valkey-server, of HOLDFAST_TEST_SERVERS or of PATH, and has a driver for it, of package adapter. Tests that need
// proxies, Clusters or failovers are in the module tests.
//
// The TestMain of a package that uses Shared calls Main:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
package redistest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// atOnce is how many parallel tests run at the same time: they wait more than they compute.
const atOnce = 16

// Main runs the tests, ends the server that Shared started, and exits. Call it before parsing flags.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	os.Exit(code)
}

// Shared returns a server that all tests of the test binary use. Each test should use keys that begin with a Prefix of its
// own. Without a server the test is skipped.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	program := find(tb)
	shared.once.Do(func() { shared.server, shared.err = start(program) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// Start starts a server for one test and ends it with the test. Without a server the test is skipped.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := start(find(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

var prefixes atomic.Int64

// Prefix returns a prefix for keys and channels that no other test of this binary has.
func Prefix() string { return fmt.Sprintf("test-%d:", prefixes.Add(1)) }
