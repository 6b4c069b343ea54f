package cli

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

// tlsTime bounds each of the looks at whether a port speaks TLS.
const tlsTime = time.Second

// explain adds to an error that a server did not answer at the first contact that the URL is wrong about TLS, if it
// is: a server without TLS is silent then, and one with it hangs up.
func (s *servers) explain(err error) error {
	var server *holdfast.ServerError
	var dial *net.OpError
	if s == nil || len(s.all) != 1 || !s.all[0].single() || !errors.As(err, &server) || server.Op != "reach" ||
		!errors.Is(server, holdfast.ErrUnavailable) || server.Code != "" || errors.As(err, &dial) && dial.Op == "dial" {
		return err
	}
	o := s.all[0].client.(*redis.Client).Options()
	switch {
	case o.Network == "unix":
	case o.TLSConfig != nil && answersPlain(o.Addr):
		return fmt.Errorf("%w; this port does not speak TLS: the URL has to begin with redis://, or name another port", err)
	case o.TLSConfig == nil && answersTLS(o.Addr):
		return fmt.Errorf("%w; this port speaks TLS: the URL has to begin with rediss://, or name another port", err)
	}
	return err
}

// answersPlain reports whether a server answers a PING without TLS, be it with an error. It does not log in.
func answersPlain(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, tlsTime)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(tlsTime))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var first [1]byte
	_, err = conn.Read(first[:])
	return err == nil && (first[0] == '+' || first[0] == '-')
}

// answersTLS reports whether a server shakes hands, or refuses to as TLS has it. Who it is does not matter: nothing
// is sent to it.
func answersTLS(addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), tlsTime)
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
