// Command fenced-http shows a web server that refuses a holder that was paused beyond its lease. It runs without any
// setup:
//
//	go run ./fenced-http
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/scene"
	"github.com/holdfast-go/holdfast/fence"
)

// serve serves a balance in memory: GET reads it, and PUT replaces it. Both need the lock, so that a GET raises the mark
// before it reads.
func serve(l net.Listener) *http.Server {
	var balance atomic.Int64
	balance.Store(100)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /balance", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, balance.Load())
	})
	mux.HandleFunc("PUT /balance", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
		n, parseErr := strconv.ParseInt(string(text), 10, 64)
		if err != nil || parseErr != nil {
			http.Error(w, "not a number", http.StatusBadRequest)
			return
		}
		balance.Store(n)
	})
	mux.HandleFunc("GET /public", func(w http.ResponseWriter, r *http.Request) { // needs no lock
		fmt.Fprint(w, balance.Load())
	})
	guard := &fence.Guard{Marks: &fence.Memory{}, Lock: func(r *http.Request) string {
		if r.URL.Path == "/balance" {
			return "account"
		}
		return ""
	}}
	s := &http.Server{Handler: guard.Handler(mux)}
	go func() { _ = s.Serve(l) }() // until s is closed
	return s
}

// account is a client of the server.
type account struct{ url string }

func (a account) Add(ctx context.Context, lease *holdfast.Lease, amount int, think func()) error {
	ctx = fence.NewContext(ctx, lease)
	balance, err := send(ctx, &fence.Transport{}, "GET", a.url+"/balance", "")
	if err != nil {
		return err
	}
	// The Transport checks the lease, and then the process is paused, which can happen at any moment. The request is late.
	late := &fence.Transport{Base: slowTransport{think}}
	_, err = send(ctx, late, "PUT", a.url+"/balance", strconv.Itoa(balance+amount))
	return err
}

func (a account) Balance(ctx context.Context) (int, error) {
	return send(ctx, http.DefaultTransport, "GET", a.url+"/public", "")
}

// send sends a request and returns the number in the response's body, or 0 if the body is empty.
func send(ctx context.Context, transport http.RoundTripper, method, url, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if err := fence.ResponseError(resp); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s %w", resp.Status, text, err)
	}
	if len(text) == 0 {
		return 0, nil
	}
	return strconv.Atoi(string(text))
}

// slowTransport is a RoundTripper that thinks before it sends a request.
type slowTransport struct{ think func() }

func (t slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.think()
	return http.DefaultTransport.RoundTrip(r)
}

var example = scene.Example{
	Create: func(*redis.Client) (string, func(), error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		s := serve(l)
		return "http://" + l.Addr().String(), func() { _ = s.Close() }, nil
	},
	Open: func(_ *redis.Client, url string) (scene.Account, error) { return account{url}, nil },
}

func main() { example.Main() }
