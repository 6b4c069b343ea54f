package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/internal/access"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

const uiHelp = `Serves the inspector until ^C: web pages that show the locks as they change, who holds
them, who waits, and what has happened to each while somebody looked. It prints its
address. With PATTERN, as for holdfast ls, it lists only locks whose names match.

  holdfast ui
  holdfast ui --http :8080 'orders/*'
  holdfast ui --http 10.1.2.3:4041 --auth-file /etc/holdfast/users --allow-break

Everyone who can reach ADDRESS can see the pages, or with --auth-file the users it names. On
an address that is not loopback, --auth-file is required. Passwords are sent in clear: put a
proxy with TLS before it, on loopback, and name the proxy's host with --http-host. Requests
for other host names are refused (421): otherwise a web page could read the locks through
its visitor's browser. The pages load nothing from elsewhere.

Without --allow-break the pages only look. With it, the page of a lock can take it from the
holder whose grant id the operator types. The server's user then needs the role breaker in
docs/SECURITY.md instead of inspector. On loopback without --auth-file, every user of this
machine can do it.

/metrics has the numbers of locks, holders and waiters, the oldest hold and the longest
wait, by kind, for Prometheus. Of a quorum it is not known who waits.
`

func serveUI(f *pflag.FlagSet) action {
	const example = "127.0.0.1:4041"
	o := &serverFlags{role: "inspector"}
	opts := &ui.Options{}
	listen := f.String("http", example, "serve on this `ADDRESS`: HOST:PORT, or :PORT on 127.0.0.1; port 0 is a free one")
	authFile := f.String("auth-file", "", "ask for a name and password, from this `FILE` with a line user:password for each user, "+
		"which others may not read")
	f.BoolVar(&opts.AllowBreak, "allow-break", false, "let those who see the pages break and revoke locks")
	f.StringArrayVar(&opts.Hosts, "http-host", nil, "also answer requests for this host `NAME`, such as a proxy's; may be repeated")
	f.StringVar(&opts.Prefix, "path", "", "serve below this `PATH`, such as /locks, if a proxy does not remove it")
	o.define(f)
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		address, ip, err := listenAddress("http", *listen, example)
		if err != nil {
			return err
		}
		if *authFile != "" {
			users, err := readUsers(*authFile)
			if err != nil {
				return exitcode.Configf("--auth-file: %w", err)
			}
			opts.Authenticate = users.has
		} else if !ip.IsLoopback() {
			return exitcode.Usagef("--http %s: others can reach it: name users with --auth-file, or listen on 127.0.0.1", address)
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return exitcode.Errorf(exitcode.System, "%w; choose another address with --http", err)
		}
		defer listener.Close()
		o.by = operator()
		opts.Pattern, opts.Logger = f.Arg(0), slog.New(slog.NewTextHandler(stderr, nil))
		return o.inspect(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
			opts.Label = o.servers.Addr()
			handler, err := ui.New(in, opts)
			if err != nil {
				return err
			}
			defer handler.Close()
			// Asking first tells of a wrong address. Later, the pages wait for outages to end.
			if err := access.Reach(ctx, in, "list", opts.Pattern); err != nil {
				return err
			}
			if err := printText(stdout, fmt.Sprintf("http://%s%s/\n", listener.Addr(), strings.TrimSuffix(opts.Prefix, "/"))); err != nil {
				return err
			}
			switch {
			case !ip.IsLoopback():
				o.console.Warnf("passwords are sent to %s as they are: put a proxy with TLS before it", listener.Addr())
			case opts.AllowBreak && *authFile == "":
				o.console.Warnf("every user of this machine can break locks: --auth-file names those who may")
			}
			return serveUntil(ctx, listener, handler)
		})
	}
}

// serveUntil serves the pages until ctx ends. It closes the listener.
func serveUntil(ctx context.Context, listener net.Listener, handler *ui.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // what clients do wrong
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return exitcode.Errorf(exitcode.System, "cannot serve: %w", err)
	case <-ctx.Done():
	}
	handler.Close()
	ending, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if server.Shutdown(ending) != nil {
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}
