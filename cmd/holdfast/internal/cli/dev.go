package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

const devHelp = `Usage: holdfast dev [--listen ADDRESS]

Runs a Redis server in this process until it is interrupted. It is for development:
it stores nothing on disk, checks no passwords, and has only those commands of Redis
that locks need.

Flags:
{flags}

Exit codes: 0 interrupted, 64 wrong usage, 71 cannot listen on the address.
`

func dev(f *pflag.FlagSet) action {
	listen := f.String("listen", "127.0.0.1:6379", "loopback `ADDRESS` to listen on; port 0 takes a free one")
	return func(ctx context.Context, _ io.Reader, stdout, _ io.Writer) error {
		addr, ip, err := listenAddress("listen", *listen, "127.0.0.1:6379")
		if err != nil {
			return err
		}
		if !ip.IsLoopback() {
			return exitcode.Usagef("--listen %s: want a loopback address, such as 127.0.0.1:6379, because the server has no passwords", addr)
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: addr})
		if err != nil {
			return &exitcode.Error{Code: exitcode.System, Err: fmt.Errorf("%w; choose another address with --listen", err)}
		}
		defer server.Close()
		if err := printText(stdout, fmt.Sprintf(`holdfast dev: an embedded server, for development only: it stores nothing on disk.
listening on %s; ^C ends it.

    export HOLDFAST_REDIS=redis://%[1]s
    holdfast run -v hello -- echo hello

`, server.Addr())); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
}
