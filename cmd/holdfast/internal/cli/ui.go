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

// uiFlags are the flags and arguments of holdfast ui.
type uiFlags struct {
	lookFlags
	listen     string
	hosts      []string
	authFile   string
	path       string
	allowBreak bool
}

// defaultListen is where the inspector is served.
const defaultListen = "127.0.0.1:4041"

const uiHelp = `Usage: holdfast ui [flags] [PATTERN]

Serves the inspector until ^C: web pages that show the locks as they change, who holds
them, who waits, and what has happened to each while somebody looked. It prints its
address. With PATTERN, as for holdfast ls, it lists only locks whose names match.

  holdfast ui
  holdfast ui --http :8080 'orders/*'
  holdfast ui --http 10.1.2.3:4041 --auth-file /etc/holdfast/users --allow-break

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.

Who can see them: everyone who can reach ADDRESS, or with --auth-file the users it names.
  On an address that is not loopback, --auth-file is required. Passwords are sent in clear:
  put a proxy with TLS before it, on loopback, and name the proxy's host with --http-host.
  Requests for other host names are refused (421): otherwise a web page could read the
  locks through its visitor's browser. The pages load nothing from elsewhere.

Breaking: without --allow-break the pages only look. With it, the page of a lock can take
  it from the holder whose grant id the operator types. The server's user then needs the role
  breaker in docs/SECURITY.md instead of inspector. On loopback without --auth-file, every
  user of this machine can do it.

Metrics: /metrics has the numbers of locks, holders and waiters, the oldest hold and the
  longest wait, by kind, for Prometheus. Of a quorum it is not known who waits.

Exit codes: 64 wrong usage, 69 unavailable, 71 the address cannot be used, 77 refused,
78 wrong configuration, 130 interrupted (INT; also 129, 131, 143).
`

func serveUI(f *pflag.FlagSet) action {
	o := &uiFlags{}
	f.StringVar(&o.listen, "http", defaultListen, "serve on this `ADDRESS`: HOST:PORT, or :PORT on 127.0.0.1; port 0 is a\nfree one")
	f.StringVar(&o.authFile, "auth-file", "", "ask for a name and password, from this `FILE` with a line user:password\nfor each user, which others may not read")
	f.BoolVar(&o.allowBreak, "allow-break", false, "let those who see the pages break and revoke locks")
	f.StringArrayVar(&o.hosts, "http-host", nil, "also answer requests for this host `NAME`, such as a proxy's; may be\nrepeated")
	f.StringVar(&o.path, "path", "", "serve below this `PATH`, such as /locks, if a proxy does not remove it")
	o.serverFlags.define(f, oneOrMore)
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.checkAddress(); err != nil {
			return err
		}
		return o.serve(ctx, stdout, stderr)
	}
}

// checkAddress completes --http, and refuses an address that others can reach without a password.
func (o *uiFlags) checkAddress() error {
	address, ip, err := listenAddress("http", o.listen, defaultListen)
	if err != nil {
		return err
	}
	if o.listen = address; !ip.IsLoopback() && o.authFile == "" {
		return exitcode.Usagef("--http %s: others can reach it: name users with --auth-file, or listen on 127.0.0.1", o.listen)
	}
	return nil
}

func (o *uiFlags) serve(ctx context.Context, stdout, stderr io.Writer) error {
	opts := &ui.Options{AllowBreak: o.allowBreak, Hosts: o.hosts, Pattern: o.flags.Arg(0), Prefix: o.path, Logger: slog.New(slog.NewTextHandler(stderr, nil))}
	if o.authFile != "" {
		users, err := readUsers(o.authFile)
		if err != nil {
			return &exitcode.Error{Code: exitcode.Config, Err: fmt.Errorf("--auth-file: %w", err)}
		}
		opts.Authenticate = users.has
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return &exitcode.Error{Code: exitcode.System, Err: fmt.Errorf("%w; choose another address with --http", err)}
	}
	defer listener.Close()
	o.by = operator()
	return o.look(ctx, stderr, func(ctx context.Context, in *inspect.Inspector) error {
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
		if err := printText(stdout, fmt.Sprintf("http://%s%s/\n", listener.Addr(), strings.TrimSuffix(o.path, "/"))); err != nil {
			return err
		}
		o.warn(listener.Addr())
		return serveUntil(ctx, listener, handler)
	})
}

// warn says who can see the pages, if that is more than it seems.
func (o *uiFlags) warn(at net.Addr) {
	addr, is := at.(*net.TCPAddr)
	switch {
	case is && !addr.IP.IsLoopback():
		o.console.Warnf("passwords are sent to %s as they are: put a proxy with TLS before it", at)
	case o.allowBreak && o.authFile == "":
		o.console.Warnf("every user of this machine can break locks: --auth-file names those who may")
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
		return &exitcode.Error{Code: exitcode.System, Err: fmt.Errorf("cannot serve: %w", err)}
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
