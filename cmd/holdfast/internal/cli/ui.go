package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/internal/access"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

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
			// Asking first reports a wrong address. Later, the pages wait for outages to end.
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
			return cmp.Or(serve(ctx, listener, handler, handler.Close), ctx.Err())
		})
	}
}

// serve serves HTTP until ctx ends, and then calls onEnd unless it is nil. It closes the listener.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, onEnd func()) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // clients' mistakes
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return exitcode.Errorf(exitcode.System, "cannot serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	if onEnd != nil {
		onEnd()
	}
	ending, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if server.Shutdown(ending) != nil {
		_ = server.Close()
	}
	<-ended
	return nil
}

// users are the users of the inspector: the hashes of their passwords, by name.
type users map[string][sha256.Size]byte

// readUsers reads a file with a line user:password for each user. It skips blank lines and lines that begin with #. Errors do not quote
// the file.
func readUsers(name string) (users, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, err
	}
	all := users{}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, password, is := strings.Cut(line, ":")
		if !is || user == "" || password == "" {
			return nil, fmt.Errorf("%s, line %d: want user:password", name, i+1)
		}
		if _, twice := all[user]; twice {
			return nil, fmt.Errorf("%s, line %d: the user comes twice", name, i+1)
		}
		all[user] = sha256.Sum256([]byte(password))
	}
	if len(all) == 0 {
		return nil, errors.New(name + " names no user: want lines user:password")
	}
	return all, nil
}

// has reports whether these are a user's name and password. Its running time depends on neither of them.
func (u users) has(user, password string) bool {
	given, name := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(user))
	found := 0
	for own, hash := range u {
		ownName := sha256.Sum256([]byte(own))
		found |= subtle.ConstantTimeCompare(name[:], ownName[:]) & subtle.ConstantTimeCompare(given[:], hash[:])
	}
	return found == 1
}
