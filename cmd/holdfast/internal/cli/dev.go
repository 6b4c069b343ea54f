package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

func devFlags() (flags *pflag.FlagSet, listen *string) {
	flags = newFlags("dev")
	listen = flags.String("listen", "127.0.0.1:6379", "loopback `ADDRESS` to listen on; port 0 takes a free one")
	return flags, listen
}

func devHelp(w io.Writer) {
	flags, _ := devFlags()
	fmt.Fprintf(w, `Usage: holdfast dev [--listen ADDRESS]

Runs a Redis server inside this process until it is interrupted. It is for
development: it keeps nothing, checks no passwords, and knows no more of Redis
than locks need.

Flags:
%s
Exit codes: 0 when interrupted, 64 usage, 71 the address cannot be listened on.
`, flags.FlagUsages())
}

func dev(ctx context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	flags, listen := devFlags()
	if wantsHelp(args) {
		devHelp(stdout)
		return nil
	}
	if err := flags.Parse(args); err != nil {
		return usageError("%w; see holdfast help dev", err)
	}
	if flags.NArg() > 0 {
		return usageError("holdfast dev takes no arguments; see holdfast help dev")
	}
	addr, err := loopback(*listen)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: addr})
	if err != nil {
		return &exitError{exitSystem, fmt.Errorf("%w; --listen takes another address", err)}
	}
	defer server.Close()
	if _, err := fmt.Fprintf(stdout, `holdfast dev: an embedded server, for development only: it keeps nothing.
listening on %s; ^C ends it.

    export HOLDFAST_REDIS=redis://%[1]s
    holdfast run -v hello -- echo hello

`, server.Addr()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// loopback refuses addresses that others can reach: the server has no passwords.
func loopback(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", usageError("--listen wants HOST:PORT, as in 127.0.0.1:6379")
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", usageError("--listen %s: only loopback addresses, such as 127.0.0.1; the server has no passwords", addr)
	}
	return net.JoinHostPort(host, port), nil
}
