package holdfasttusd_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/integrations/holdfasttusd"
)

// listener accepts connections in memory.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { close(l.closed); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// serve starts a server of tusd, like one of another process, and returns a client of it.
func serve(t *testing.T, dir string, locks *holdfasttest.Client) *http.Client {
	t.Helper()
	composer := handler.NewStoreComposer()
	filestore.New(dir).UseIn(composer)
	holdfasttusd.NewLocker(locks.Client).UseIn(composer)
	uploads, err := handler.NewHandler(handler.Config{
		BasePath: "/files/", StoreComposer: composer, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: http.StripPrefix("/files/", uploads)}
	go srv.Serve(l)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case l.conns <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = srv.Close()
	})
	return &http.Client{Transport: transport}
}

// send sends a request and returns its response, without a body.
func send(t *testing.T, c *http.Client, method, url string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Errorf("%s: %v", method, err)
		return &http.Response{}
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}

// A client whose connection hangs resumes its upload at another server, which finds all that the first one has received.
func TestAnUploadMovesToAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, locks := t.TempDir(), holdfasttest.New(t)
		one, other := serve(t, dir, locks), serve(t, dir, locks.Server.NewClient(t, nil))

		created := send(t, one, "POST", "http://127.0.0.1/files/", nil, "Upload-Length", "10")
		at := created.Header.Get("Location")
		patch := []string{"Upload-Offset", "0", "Content-Type", "application/offset+octet-stream"}
		body, rest := io.Pipe() // never ends
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			send(t, one, "PATCH", at, body, patch...)
		}()
		// In parts, so that all that tusd wrote when the request began is known to whoever stops it: tusd forgets a mutex there.
		for _, part := range []string{"he", "ll", "o"} {
			if _, err := io.WriteString(rest, part); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}

		began := time.Now()
		head := send(t, other, "HEAD", at, nil)
		if got := head.Header.Get("Upload-Offset"); head.StatusCode != http.StatusOK || got != "5" {
			t.Errorf("HEAD: status %d, offset %q", head.StatusCode, got)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		patch[1] = "5"
		if resp := send(t, other, "PATCH", at, strings.NewReader("world"), patch...); resp.StatusCode != http.StatusNoContent {
			t.Errorf("PATCH: status %d", resp.StatusCode)
		}
		rest.Close()
		<-ended
		time.Sleep(time.Minute) // tusd keeps a goroutine for each request a while
	})
}
