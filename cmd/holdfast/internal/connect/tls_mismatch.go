package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// tlsProbeTime bounds a test of whether a port speaks TLS.
const tlsProbeTime = time.Second

// explainTLS adds to the error of a first contact that the URL is wrong about TLS, if it is. The error itself does not
// say so: a server without TLS does not answer a handshake, and one with TLS closes a connection without one.
func (s *Server) explainTLS(err error, server *holdfast.ServerError) error {
	var dial *net.OpError
	if !errors.Is(server, holdfast.ErrUnavailable) || server.Code != "" || errors.As(err, &dial) && dial.Op == "dial" {
		return err
	}
	o := s.client.(*redis.Client).Options()
	switch {
	case o.Network == "unix":
	case o.TLSConfig != nil && answersPlain(o.Addr):
		return fmt.Errorf("%w; this port does not speak TLS: begin the URL with redis://, or name another port", err)
	case o.TLSConfig == nil && answersTLS(o.Addr):
		return fmt.Errorf("%w; this port speaks TLS: begin the URL with rediss://, or name another port", err)
	}
	return err
}

// answersPlain reports whether a server answers PING without TLS, even with an error. It does not log in.
func answersPlain(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, tlsProbeTime)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(tlsProbeTime))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var first [1]byte
	_, err = conn.Read(first[:])
	return err == nil && (first[0] == '+' || first[0] == '-')
}

// answersTLS reports whether a server completes a TLS handshake, or refuses it with an alert. It sends nothing else, so
// it does not need to verify the server.
func answersTLS(addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), tlsProbeTime)
	defer cancel()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = conn.Close()
		return true
	}
	var alert tls.AlertError
	var remote *net.OpError
	return errors.As(err, &alert) || errors.As(err, &remote) && remote.Op == "remote error"
}
