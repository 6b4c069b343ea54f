package doctor

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/tests/server"
)

// TestMain has more tests run at once than there are processors: they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	redis.SetLogger(silence{}) // as the command does
	m.Run()
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// examine examines a server, with a short look at its clock.
func examine(t *testing.T, cfg Config) *Report {
	t.Helper()
	r, err := tryToExamine(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if order(f.ID) < 0 {
			t.Errorf("%s is no check that Checks lists", f.ID)
		}
		if f.Servers == nil || f.Saw == "" || f.Severity.rank() < 0 {
			t.Errorf("%+v says too little", f)
		}
		if f.Severity.rank() >= Note.rank() && (f.Consequence == "" || f.Remedy == "") {
			t.Errorf("%+v lacks its consequence or remedy", f)
		}
	}
	return r
}

func tryToExamine(t *testing.T, cfg Config) (*Report, error) {
	t.Helper()
	t.Cleanup(func() { _ = cfg.Client.Close() })
	if cfg.TTL == 0 {
		cfg.TTL = time.Hour // no latency of a busy machine is too long for that
	}
	cfg.Watch = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Examine(ctx, cfg)
	if r != nil {
		text, err := json.Marshal(r)
		if err != nil {
			t.Error(err)
		}
		var printed strings.Builder
		if err := r.Write(&printed, false); err != nil {
			t.Error(err)
		}
		if all := string(text) + printed.String(); strings.Contains(all, "canary") {
			t.Errorf("the report shows the password: %s", all)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the report:\n%s", &printed)
			}
		})
	}
	return r, err
}

// at makes the configuration for one server.
func serverAt(addr string, change ...func(*redis.Options)) Config {
	o := &redis.Options{Addr: addr}
	for _, f := range change {
		f(o)
	}
	return Config{Client: redis.NewClient(o), Addr: addr}
}

// as logs in.
func as(user string) func(*redis.Options) {
	return func(o *redis.Options) { o.Username, o.Password = user, "canary" }
}

// expect checks the finding of one check, as SEVERITY and a part of what was seen.
func expect(t *testing.T, r *Report, id string, severity Severity, saw string) Finding {
	t.Helper()
	var all []string
	for _, f := range r.Findings {
		if f.ID != id {
			continue
		}
		if f.Severity == severity && strings.Contains(f.Saw, saw) {
			return f
		}
		all = append(all, fmt.Sprintf("%s: %s", f.Severity, f.Saw))
	}
	t.Errorf("%s: found %q, want %s: %s", id, all, severity, saw)
	return Finding{}
}

// on runs f on every server of this machine, started with these options.
func on(t *testing.T, f func(t *testing.T, bin server.Binary, s *server.Server), opts ...server.Option) {
	t.Helper()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			f(t, bin, server.Start(t, bin, opts...))
		})
	}
}

// do runs a command.
func do(t *testing.T, s *server.Server, words ...any) {
	t.Helper()
	if _, err := s.Do(words...); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

// balancer forwards each new connection to the next of some servers.
func balancer(t *testing.T, addrs ...string) func(*redis.Options) {
	turns := make(chan string, 100)
	for i := range cap(turns) {
		turns <- addrs[i%len(addrs)]
	}
	return func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, <-turns)
		}
	}
}

// middle is a connection through somebody in between.
type middle struct {
	net.Conn
	request func(*middle, []byte)
	reply   func([]byte) []byte
}

func (m *middle) Write(p []byte) (int, error) {
	if m.request != nil {
		m.request(m, p)
	}
	return m.Conn.Write(p)
}

func (m *middle) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.reply != nil {
		copy(p, m.reply(p[:n]))
	}
	return n, err
}

// through puts somebody between. reply changes replies without their length.
func through(request func(*middle, []byte), reply func([]byte) []byte) func(*redis.Options) {
	return func(o *redis.Options) {
		o.Protocol = 2
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &middle{conn, request, reply}, err
		}
	}
}
