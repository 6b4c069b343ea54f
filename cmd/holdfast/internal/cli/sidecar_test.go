package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

func beginSidecar(t *testing.T, client *holdfasttest.Client, drain time.Duration) (s *sidecar, end func()) {
	t.Helper()
	s = &sidecar{
		election: election.New(client.Mutex("office")), server: "here", key: "key", drain: drain,
		console: console.New(io.Discard, console.Normal),
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.run(ctx) }()
	return s, func() {
		t.Helper()
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

func askSidecar(t *testing.T, s *sidecar, path string) (int, sidecarStatus) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:4040"+path, nil))
	var answer sidecarStatus
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return w.Code, answer
}

func TestOneOfTwoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.Run(t)
		first, end := beginSidecar(t, server.NewClient(t, nil), 3*time.Second)
		time.Sleep(time.Second)
		second, endSecond := beginSidecar(t, server.NewClient(t, nil), 0)
		defer endSecond()
		time.Sleep(time.Second)
		code, answer := askSidecar(t, first, "/leader")
		if code != http.StatusOK || !answer.Leading || answer.Name != "office" || answer.Fence == 0 || answer.TTL <= 0 || answer.TTL > 15_000 {
			t.Errorf("the first: %d, %+v", code, answer)
		}
		if code, answer := askSidecar(t, second, "/leader"); code != http.StatusServiceUnavailable || answer.Leading || answer.Fence != 0 {
			t.Errorf("the second: %d, %+v", code, answer)
		}

		code, status := askSidecar(t, second, "/status")
		if code != http.StatusOK || status.Leading || status.Leader == nil || status.Leader.Fence != answer.Fence || status.Seen.IsZero() ||
			!status.Since.IsZero() || status.Key != "key" || status.Server != "here" {
			t.Errorf("the second: %d, %+v", code, status)
		}
		if _, status := askSidecar(t, first, "/status"); !status.Leading || status.Fence != answer.Fence || status.Since.IsZero() {
			t.Errorf("the first: %+v", status)
		}

		// When the first is told to end, it denies that it leads before the second leads.
		go end()
		synctest.Wait()
		for range 29 {
			if code, _ := askSidecar(t, first, "/leader"); code != http.StatusServiceUnavailable {
				t.Fatalf("the first, told to end: %d", code)
			}
			if code, _ := askSidecar(t, second, "/leader"); code != http.StatusServiceUnavailable {
				t.Fatalf("the second, while the first drains: %d", code)
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if code, later := askSidecar(t, second, "/leader"); code != http.StatusOK || later.Fence <= answer.Fence {
			t.Errorf("the second, in the end: %d, %+v", code, later)
		}
	})
}

// Fault: The server of holdfast elect --http is gone. A leader says that it leads until the deadline of its lease,
// and no longer.
func TestNobodyLeadsAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.Run(t)
		s, end := beginSidecar(t, server.NewClient(t, nil), 0)
		time.Sleep(time.Second)
		s.mu.Lock()
		term := s.term
		s.mu.Unlock()
		if term == nil {
			t.Fatal("it does not lead")
		}
		server.Close()
		for led, lost := 0, 0; lost < 100; time.Sleep(20 * time.Millisecond) {
			code, answer := askSidecar(t, s, "/leader")
			left := time.Until(term.Deadline())
			switch {
			case code == http.StatusOK && (left <= 0 || answer.TTL > left.Milliseconds()):
				t.Fatalf("it leads with %v left, and says %d ms", left, answer.TTL)
			case code == http.StatusOK:
				led++
			case lost == 0 && led < 100:
				t.Fatalf("it led for too short a time: %v left", left)
			default:
				lost++
			}
		}
		end()
	})
}

// Fault: A web page asks holdfast elect --http under a name of its own. It is refused.
func TestRequestsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, end := beginSidecar(t, holdfasttest.New(t), 0)
		defer end()
		s.hosts = []string{"sidecar.internal"}
		for _, c := range []struct {
			method, host, path string
			code               int
		}{
			{"GET", "127.0.0.1:4040", "/status", 200},
			{"HEAD", "[::1]:4040", "/status", 200},
			{"GET", "10.2.3.4", "/status", 200},
			{"GET", "localhost:4040", "/status", 200},
			{"GET", "LOCALHOST.", "/status", 200},
			{"GET", "sidecar.internal:80", "/status", 200},
			{"GET", "", "/status", 200}, // HTTP/1.0
			{"GET", "evil.example", "/status", 421},
			{"GET", "evil.example:4040", "/leader", 421},
			{"GET", "127.0.0.1.evil.example", "/leader", 421},
			{"GET", "localhost.evil.example:4040", "/leader", 421},
			{"POST", "localhost", "/leader", 405},
			{"GET", "localhost", "/", 404},
			{"GET", "localhost", "/leader/", 404},
		} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(c.method, "http://x"+c.path, nil)
			r.Host = c.host
			if s.ServeHTTP(w, r); w.Code != c.code {
				t.Errorf("%s %s of %q: %d, want %d", c.method, c.path, c.host, w.Code, c.code)
			}
			if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s of %q: %v", c.method, c.path, c.host, w.Header())
			}
		}
	})
}
