package prompt

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
)

// serverConfig returns the configuration of a TLS server. Clients must not verify its certificate.
func serverConfig(t *testing.T) *tls.Config {
	t.Helper()
	certs := httptest.NewUnstartedServer(nil)
	certs.StartTLS()
	t.Cleanup(certs.Close)
	// A server that sends tickets writes to the pipe while the client does not read.
	return &tls.Config{Certificates: certs.TLS.Certificates, SessionTicketsDisabled: true}
}

// watched is a connection that records that it was closed.
type watched struct {
	net.Conn
	closed atomic.Bool
}

func (w *watched) Close() error {
	w.closed.Store(true)
	return w.Conn.Close()
}

// A call over TLS ends in time although the server reads nothing more: neither the call nor the alert that ends a connection.
func TestACallOverTLSEndsInTime(t *testing.T) {
	config := serverConfig(t)
	for name, reads := range map[string]bool{"it is being written": false, "its reply is awaited": true} {
		for end, at := range map[string]struct {
			deadline, cancelled time.Duration
			err                 error
		}{
			"its caller gives up": {deadline: time.Hour, cancelled: time.Minute, err: io.ErrClosedPipe},
			"its deadline passes": {deadline: time.Minute, cancelled: time.Hour, err: os.ErrDeadlineExceeded},
		} {
			t.Run(name+" when "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var raw *watched
					w := &world{}
					w.Ctx, w.Timeout = t.Context(), time.Second
					w.Spawn = func(f func()) bool { go f(); return true }
					w.Open = func(ctx context.Context) (net.Conn, func(), error) {
						client, server := net.Pipe()
						raw = &watched{Conn: client}
						go func() {
							conn := tls.Server(server, config)
							if err := conn.Handshake(); err != nil {
								t.Error(err)
							}
							if reads {
								_, _ = conn.Read(make([]byte, 1))
							}
						}()
						conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
						return bounds.Wrap(conn), nil, conn.HandshakeContext(ctx)
					}
					defer w.Close()
					run := func(ctx context.Context) error {
						_, err := w.Run(ctx, time.Now().Add(at.deadline), &driver.Call{Script: driver.Script{Command: "HANG"}})
						return err
					}
					if err := run(t.Context()); err != driver.ErrNotSent {
						t.Error(err)
					}
					synctest.Wait()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					defer time.AfterFunc(at.cancelled, cancel).Stop()
					began := time.Now()
					err := run(ctx)
					if took := time.Since(began); took != time.Minute || !errors.Is(err, at.err) {
						t.Errorf("after %v: %v", took, err)
					}
					synctest.Wait()
					if !raw.closed.Load() {
						t.Error("the connection below TLS is open")
					}
				})
			})
		}
	}
}
