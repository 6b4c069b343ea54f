// Package ui is the web inspector, an http.Handler: its pages show, live, who holds which lock, since when, and who waits. A
// program mounts it in its own server; the command holdfast ui serves it alone.
//
// The pages change nothing unless Options.AllowBreak is set. They show names of locks, owners, hosts and notes to everyone whom the
// handler answers: set Options.Authenticate, or mount it behind whatever guards the program's other pages for operators.
package ui

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/access"
)

// Options are what a Handler is made with. A nil *Options means the defaults.
type Options struct {
	// AllowBreak lets those who see the pages break and revoke locks. The client of the inspector then also needs the rights of
	// the role "breaker" in docs/SECURITY.md. Default false: the handler only looks.
	AllowBreak bool
	// Authenticate reports whether these are the name and password of a user; a request without them gets 401. It is called for
	// every request, by several at a time, and should compare in constant time. Default nil: everyone is answered.
	Authenticate func(user, password string) bool
	// Hosts are the host names, without a port, under which people open the pages, besides localhost and IP addresses. Other
	// names are refused: an attacker's page could make its own name resolve to this server, and read everything as its
	// visitor. "*" allows every name; use it only if something in front of the handler checks them. Default none.
	Hosts []string
	// Label names the server on the pages, such as its address, without credentials. Default "".
	Label string
	// Logger is told who broke or revoked which lock. Default slog.Default().
	Logger *slog.Logger
	// MaxViewers bounds how many pages are kept up to date at a time; one more gets 503. Default 100.
	MaxViewers int
	// Pattern selects the locks that the pages list, by their names, as inspect's List does. It hides nothing: the page of any
	// lock can be opened. Default "": all.
	Pattern string
	// Prefix is the path below which the handler is mounted, such as "/locks", if that has not been removed from the
	// requests' paths. The pages use relative addresses only, so that a proxy may put them under any path. Default "".
	Prefix string
}

// Handler serves the inspector. It is safe for concurrent use. It asks the server while somebody looks, and for half a minute
// longer: once a second for all locks, however many look. Close ends that.
type Handler struct {
	opts    Options
	in      source
	breaker breaker // nil unless breaking is allowed
	quorum  bool    // of a quorum, it is not known who waits
	board   *board
	guard   guard
	scrapes scrapes
	details details

	ctx  context.Context // ends with Close
	stop context.CancelFunc
}

// source is what the handler needs of an inspect.Inspector.
type source interface {
	Get(ctx context.Context, name string) (holdfast.Status, error)
	List(ctx context.Context, pattern string) iter.Seq2[holdfast.Status, error]
	History(ctx context.Context) iter.Seq2[inspect.Broken, error]
}

// New returns a handler. Nothing is sent before somebody looks. An option that makes no sense is [holdfast.ErrInvalid].
func New(in *inspect.Inspector, opts *Options) (*Handler, error) {
	h, err := newHandler(in, opts)
	if err != nil {
		return nil, err
	}
	if h.opts.AllowBreak {
		h.breaker = in
	}
	h.quorum = access.IsOfQuorum(in)
	h.board.absent = func() []error { return access.Absent(in) }
	return h, nil
}

func newHandler(in source, opts *Options) (*Handler, error) {
	h := &Handler{in: in}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Logger == nil {
		h.opts.Logger = slog.Default()
	}
	switch {
	case h.opts.MaxViewers == 0:
		h.opts.MaxViewers = 100
	case h.opts.MaxViewers < 0:
		return nil, fmt.Errorf("%w: MaxViewers is negative: %d", holdfast.ErrInvalid, h.opts.MaxViewers)
	}
	if _, err := path.Match(h.opts.Pattern, ""); err != nil {
		return nil, fmt.Errorf("%w: Pattern %.64q: %w", holdfast.ErrInvalid, h.opts.Pattern, err)
	}
	h.opts.Prefix = strings.TrimSuffix(h.opts.Prefix, "/")
	if p := h.opts.Prefix; p != "" && (!strings.HasPrefix(p, "/") || path.Clean(p) != p) {
		return nil, fmt.Errorf("%w: Prefix %.64q: want a path such as /locks", holdfast.ErrInvalid, h.opts.Prefix)
	}
	for _, host := range h.opts.Hosts {
		if host == "" || strings.ContainsAny(host, ":/@ ") {
			return nil, fmt.Errorf("%w: Hosts has %.64q: want a name without a port", holdfast.ErrInvalid, host)
		}
	}
	h.guard = newGuard(&h.opts)
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.board = newBoard(h.ctx, in, h.opts.Pattern, h.opts.MaxViewers)
	h.details.in, h.details.of = in, map[string]*detail{}
	return h, nil
}

// Close ends all streams to browsers, and stops asking the server. From then on requests get 503.
// http.Server.Shutdown waits for pages that are kept up to date: call Close before it, or by RegisterOnShutdown.
func (h *Handler) Close() { h.stop() }

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.guard.admit(w, r) {
		return
	}
	place, ours := strings.CutPrefix(r.URL.Path, h.opts.Prefix)
	switch {
	case h.ctx.Err() != nil:
		http.Error(w, "the inspector is closed", http.StatusServiceUnavailable)
	case !ours:
		http.NotFound(w, r)
	case place == "" && h.opts.Prefix != "":
		// Relative addresses need the slash.
		w.Header().Set("Location", path.Base(h.opts.Prefix)+"/")
		w.WriteHeader(http.StatusMovedPermanently)
	case place == "/break" || place == "/revoke":
		h.serveVerb(w, r, strings.TrimPrefix(place, "/"))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are served here", http.StatusMethodNotAllowed)
	case place == "/" || place == "":
		serveAsset(w, r, "index.html")
	case place == "/events" && r.Method == http.MethodGet:
		h.serveEvents(w, r)
	case place == "/metrics":
		h.serveMetrics(w, r)
	default:
		name, is := strings.CutPrefix(place, "/assets/")
		if !is {
			http.NotFound(w, r)
			return
		}
		serveAsset(w, r, name)
	}
}
