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

func dev(f *pflag.FlagSet) action {
	const example = "127.0.0.1:6379"
	listen := f.String("listen", example, "loopback `ADDRESS` to listen on; port 0 takes a free one")
	return func(ctx context.Context, _ io.Reader, stdout, _ io.Writer) error {
		addr, ip, err := listenAddress("listen", *listen, example)
		if err != nil {
			return err
		}
		if !ip.IsLoopback() {
			return exitcode.Usagef("--listen %s: want a loopback address, such as %s, because the server has no passwords", addr, example)
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: addr})
		if err != nil {
			return exitcode.Errorf(exitcode.System, "%w; choose another address with --listen", err)
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
