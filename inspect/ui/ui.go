// Package ui is the web inspector, an http.Handler: its pages show, live, who holds which lock, since when, and who waits. A
// program mounts it in its own server; the command holdfast ui serves it alone.
//
// The pages change nothing unless Options.AllowBreak is set. They show names of locks, owners, hosts and notes to everyone whom the
// handler answers: set Options.Authenticate, or mount it behind whatever guards the program's other pages for operators.
package ui

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	// Pattern selects the locks that the pages list, by their names, as inspect's List does. It hides nothing: the page of any
	// lock can be opened. Default "": all.
	Pattern string
	// Prefix is the path below which the handler is mounted, such as "/locks", if that has not been removed from the
	// requests' paths. The pages use relative addresses only, so that a proxy may put them under any path. Default "".
	Prefix string
}

// Handler serves the inspector. It is safe for concurrent use. It asks the server only while somebody looks: at most once a second
// for all locks, and once a second for each lock whose page is open, however many look. It remembers the latest list.
type Handler struct {
	opts   Options
	in     source
	quorum bool            // of a quorum, it is not known who waits
	absent func() []string // of a quorum: why nodes did not answer the latest List
	origin *http.CrossOriginProtection
	record atomic.Pointer[record]

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu      sync.Mutex
	last    *look
	looking chan struct{}            // closed when the look that is under way has ended; nil if none is
	singles map[string]func() report // looks at single locks of the last second, by name
}

// source is what the handler needs of an inspect.Inspector.
type source interface {
	Get(ctx context.Context, name string) (holdfast.Status, error)
	List(ctx context.Context, pattern string) iter.Seq2[holdfast.Status, error]
	Deadlocks(ctx context.Context) ([]*holdfast.DeadlockError, error)
	History(ctx context.Context) iter.Seq2[inspect.Broken, error]
	Break(ctx context.Context, h holdfast.Holder, reason string) (inspect.Broken, error)
	Revoke(ctx context.Context, h holdfast.Holder, reason string) error
}

// New returns a handler. Nothing is sent before somebody looks. An option that makes no sense is [holdfast.ErrInvalid].
func New(in *inspect.Inspector, opts *Options) (*Handler, error) {
	h, err := newHandler(in, opts)
	if err != nil {
		return nil, err
	}
	_, h.quorum = access.Absent(in)
	h.absent = func() (all []string) {
		errs, _ := access.Absent(in)
		for _, err := range errs {
			all = append(all, errorText(err))
		}
		return all
	}
	return h, nil
}

func newHandler(in source, opts *Options) (*Handler, error) {
	h := &Handler{
		in: in, origin: http.NewCrossOriginProtection(), absent: func() []string { return nil },
		last: &look{Locks: []row{}}, singles: map[string]func() report{},
	}
	h.record.Store(&record{})
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Logger == nil {
		h.opts.Logger = slog.Default()
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
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h, nil
}

// Close ends what the handler asks the server. From then on requests get 503.
func (h *Handler) Close() { h.stop() }

// serveTime bounds an answer: the wait for it, and how slowly the client may read it.
const serveTime = time.Minute

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(serveTime)) // not possible in tests
	if !h.admit(w, r) {
		return
	}
	place, ours := strings.CutPrefix(r.URL.Path, h.opts.Prefix)
	file, isFile := strings.CutPrefix(place, "/assets/")
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
		serveFile(w, r, "index.html")
	case place == "/list":
		h.serveList(w, r)
	case place == "/lock":
		h.serveLock(w, r)
	case place == "/metrics":
		h.serveMetrics(w, r)
	case isFile:
		serveFile(w, r, file)
	default:
		http.NotFound(w, r)
	}
}

//go:embed assets
var files embed.FS

// mediaTypes are set here because what the system says of them differs.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// serveFile answers with a file of the pages.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	text, err := files.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaTypes[path.Ext(name)])
	_, _ = w.Write(text) // The client does not listen any more.
}

// about is what a page has to know of the handler.
type about struct {
	Label  string `json:"label,omitempty"`
	Breaks bool   `json:"breaks,omitempty"` // locks can be broken
	Quorum bool   `json:"quorum,omitempty"` // it is not known who waits
	User   string `json:"user,omitempty"`
}

func (h *Handler) about(r *http.Request) about {
	a := about{Label: h.opts.Label, Breaks: h.opts.AllowBreak, Quorum: h.quorum}
	if h.opts.Authenticate != nil {
		a.User, _, _ = r.BasicAuth()
	}
	return a
}

// answer answers with a value as JSON, which it compresses if the browser allows that.
func answer(w http.ResponseWriter, r *http.Request, value any) {
	w.Header().Set("Content-Type", "application/json")
	to := io.Writer(w)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level exists
		defer zip.Close()
		to = zip
	}
	_ = json.NewEncoder(to).Encode(value) // The client does not listen any more.
}
