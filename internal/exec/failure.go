package exec

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/pipe"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var ErrClosed = errors.New("holdfast: client is closed")

// The kinds of failures of a server, or of the way to it.
var (
	ErrUnavailable   = errors.New("server is unavailable")
	ErrAuth          = errors.New("server refused the credentials")
	ErrPermission    = errors.New("server's ACL denies access")
	ErrWrongType     = errors.New("key holds another kind of value")
	ErrPermits       = errors.New("semaphore has another number of permits")
	ErrParties       = errors.New("another number of parties")
	ErrReadOnly      = errors.New("server is read-only")
	ErrLoading       = errors.New("server is loading its data")
	ErrOutOfMemory   = errors.New("server is out of memory")
	ErrBusy          = errors.New("server is busy with a script")
	ErrWritesRefused = errors.New("server refuses writes")
	ErrQuarantine    = errors.New("server is in quarantine")
	ErrUninitialised = errors.New("node has not been admitted to the quorum")
	ErrReplicas      = errors.New("too few replicas or disks confirmed")
	ErrUnsupported   = errors.New("server is not supported")
	ErrClientClosed  = errors.New("the program has closed its Redis client")
)

// Failure is the error of an operation that failed because of the server, or of the way to it. It unwraps to its Kind, to the driver's
// error and, if the caller's context ended before the server answered, to that context's error.
type Failure struct {
	Op     string // "acquire", "renew", "release", ...
	Name   string // what the operation was about
	Task   string // how the text describes an operation about several locks, instead of Op and Name; "" if it was about one
	Server string // its address, without credentials
	Kind   error  // one of the kinds above, or nil if none fits
	Err    error  // the driver's error, without arguments that the server repeated

	Ambiguous bool  // the server may have carried the operation out
	Ended     error // the error of the caller's context if it ended before the server answered
}

func (e *Failure) Error() string {
	what := Shown(strings.ReplaceAll(e.Err.Error(), "\n", "; ")) // joined errors, as of sentinels, have several lines
	if e.Kind != nil {
		what = e.Kind.Error() + ": " + what
	}
	if e.Ended != nil {
		what = e.Ended.Error() + "; " + what
	}
	if e.Ambiguous && e.Op != OpReach && e.Kind != ErrReplicas { // whose text says what was carried out
		what += "; the request may have been carried out"
	}
	return fmt.Sprintf("holdfast: %s on %s: %s%s", TaskOf(e.Task, e.Op, e.Name), e.Server, what, e.Advice())
}

// TaskOf returns how a text describes an operation: by its task if it has one, otherwise by op and, unless that is "", by name.
func TaskOf(task, op, name string) string {
	if task != "" || name == "" {
		return cmp.Or(task, op)
	}
	return fmt.Sprintf("%s %q", op, name)
}

// InTask returns a Failure as that of a task about many locks. It returns other errors unchanged.
func InTask(task string, err error) error {
	switch e := err.(type) {
	case *Failure:
		own := *e
		own.Task = task
		return &own
	case pipe.NotSent:
		return Unsent(InTask(task, e.Err))
	}
	return err
}

// Unwrap returns the kind, the driver's error and, if the caller's context has ended, its error.
func (e *Failure) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Kind, e.Err, e.Ended}, func(err error) bool { return err == nil })
}

// Code returns the server's error code, such as "LOADING"; "" if the server did not answer with an error.
func (e *Failure) Code() string {
	code, _, _ := strings.Cut(strings.TrimPrefix(e.answer(), "-"), " ")
	if code != strings.ToUpper(code) {
		return ""
	}
	return code
}

// answer returns the error that the server or a script answered with, or "".
func (e *Failure) answer() string {
	if caught, is := as[wire.ScriptError](e.Err); is {
		return string(caught)
	}
	reply, _ := as[driver.ReplyError](e.Err)
	return string(reply)
}

// Failure returns the driver's error for a request as a Failure.
func (s *Server) Failure(op, name string, err error) *Failure {
	_, kind := Classify(err)
	return &Failure{Op: op, Name: name, Server: s.Addr(), Kind: kind, Err: told(err)}
}

func KindOf(err error) error {
	if f, is := as[*Failure](err); is {
		return f.Kind
	}
	return nil
}

// EndedBy returns the error of an operation whose context ended before the server answered. met is the operation's last error until then,
// or nil.
func EndedBy(ctx context.Context, met error) error {
	f, is := as[*Failure](met)
	if !is {
		return ctx.Err()
	}
	ended := *f
	ended.Ended = ctx.Err()
	return &ended
}

// Quarantine says for how long the server will grant nothing, because it may have lost earlier grants.
type Quarantine struct{ Left time.Duration }

func (e *Quarantine) Error() string {
	return fmt.Sprintf("it may have lost locks, and grants none for another %s", e.Left)
}

// Advice returns the next step in parentheses, after a space, or "" if none is obvious or the error says everything. An error with such a
// method knows the next step better than its kind does.
func (e *Failure) Advice() string {
	var adviser interface{ Advice() string }
	var dns *net.DNSError
	var addr *net.AddrError
	var plain tls.RecordHeaderError
	short, isShort := as[unconfirmed](e.Err)
	_, isReply := as[driver.ReplyError](e.Err)
	switch {
	case errors.As(e.Err, &adviser):
		return adviser.Advice()
	case e.Kind == ErrUnavailable && isUntrusted(e.Err):
		return " (it runs: check its certificate, and the name and the authorities that this client expects)"
	case e.Kind == ErrUnavailable && errors.As(e.Err, &dns) && dns.IsNotFound:
		return " (check the host's name)"
	case e.Kind == ErrUnavailable && errors.As(e.Err, &plain):
		return " (it runs, but does not speak TLS on this port)"
	case e.Kind == ErrUnavailable && errors.As(e.Err, &addr):
		return " (give the address as HOST:PORT)"
	case e.Kind == ErrUnavailable && e.Op == OpReach && (errors.Is(e.Err, io.EOF) || errors.Is(e.Err, bounds.ErrProtocol)):
		return " (is it a Redis or Valkey server, and does it want TLS on this port?)"
	case e.Kind == ErrUnavailable && e.Op == OpReach && !isReply && !errors.Is(e.Err, driver.ErrNotSent): // silence, or a connection cut
		return " (is it running, and reachable from here? Is it a Redis or Valkey server, and does it want TLS on this port?)"
	case strings.HasPrefix(e.Err.Error(), "NOSTRICT"), strings.HasPrefix(e.Err.Error(), "BADFENCE") && strings.Contains(e.Err.Error(), "delete it"):
		return "" // the error says what to do
	case e.Kind == ErrUnsupported && isShort:
		return " (Durability.Fsync needs Redis 7.2 or Valkey)"
	case e.Kind == ErrReplicas && isShort && short.disk:
		return " (check appendonly and appendfsync of the master and its replicas: INFO persistence)"
	case e.Kind == ErrPermission && strings.Contains(e.Err.Error(), "can't run this command"):
		return " (Redis 7.0 does not say which command; ACL LOG on the server does. docs/SECURITY.md has the ACL that locks need)"
	}
	return cmp.Or(refusalOf(e.answer()).advice, advice[e.Kind])
}

// advice has the next step for each kind of error.
var advice = map[error]string{
	ErrUnavailable:   " (is it running, and reachable from here?)",
	ErrAuth:          " (check user and password)",
	ErrPermission:    " (see docs/SECURITY.md for the ACL that locks need)",
	ErrWrongType:     " (choose another name or prefix)", // not "delete it": others may hold it
	ErrPermits:       " (ask for no more permits than there are, and have all programs name the same number; Resize changes it)",
	ErrParties:       " (have all programs name the same number; a latch gets another by Reset, a barrier once nobody is at it)",
	ErrReadOnly:      " (connect to the master, or through Sentinel or Cluster)",
	ErrUnsupported:   " (Redis 7.0 or Valkey 7.2 is needed; for a Cluster, a Cluster client)",
	ErrQuarantine:    " (Acquire waits for its end; if the server is new and has never granted a lock, \"holdfast init --force\" or inspect.Inspector.ForceAdmit ends it)",
	ErrUninitialised: " (inspect.Inspector.Admit admits it)",
	ErrReplicas:      " (check the replicas: INFO replication)",
	ErrOutOfMemory:   " (raise maxmemory or free some)",
	ErrWritesRefused: " (check its replicas and its disk)",
	ErrClientClosed:  " (close the holdfast.Client first)",
}

// Fate says what is known of an attempt that failed.
type Fate int

const (
	Unknown   Fate = iota // the server may have carried it out, or may still do so
	NeverSent             // it did not leave this process
	Refused               // the server answered with an error
)

// Classify returns what a driver's error says about the attempt, and the error's kind.
func Classify(err error) (fate Fate, kind error) {
	var reply driver.ReplyError
	var caught wire.ScriptError
	var quarantine *Quarantine
	var short unconfirmed
	switch {
	case errors.As(err, &short):
		// The server may have refused to wait after it had carried out the script.
		if errors.As(short.err, &reply) && refusalOf(string(reply)).kind != nil {
			return Unknown, refusalOf(string(reply)).kind
		}
		return Unknown, ErrReplicas
	case errors.As(err, &reply):
		return Refused, refusalOf(string(reply)).kind
	case errors.As(err, &quarantine):
		return Refused, ErrQuarantine
	case errors.As(err, &caught):
		return Refused, refusalOf(string(caught)).kind
	case errors.Is(err, driver.ErrClientClosed):
		return NeverSent, ErrClientClosed
	case errors.Is(err, driver.ErrNotSent):
		return NeverSent, ErrUnavailable
	case errors.Is(err, wire.ErrMalformed):
		return Unknown, nil
	case errors.Is(err, sentinel.ErrSentinel):
		return Refused, ErrUnsupported
	}
	return Unknown, ErrUnavailable
}

// MayBeDone reports whether the server may have carried out a request that failed with err, or may still do so.
func MayBeDone(err error) bool {
	fate, _ := Classify(err)
	return fate == Unknown
}

// IsLacking reports whether an error says that a command cannot be used, now or later. A refusal of no known kind, by a server or a proxy,
// counts as one, unless it says which server of a Cluster has the key.
func IsLacking(err error) bool {
	if err == nil {
		return false
	}
	if fate, kind := Classify(err); fate == Refused {
		// mutants: lacking-elsewhere
		return !resp.Is(err, elsewhere...) && (kind == nil || kind == ErrPermission || kind == ErrUnsupported)
	}
	return false
}

// refusal is an error that servers send, known by its prefix. advice is the next step, or "" if it is that of the kind.
type refusal struct {
	prefix string
	kind   error
	advice string
}

var refusals = []refusal{
	{"NOAUTH", ErrAuth, ""},
	{"WRONGPASS", ErrAuth, ""},
	{"ERR invalid password", ErrAuth, ""},
	{"ERR Client sent AUTH", ErrAuth, ""},
	{"ERR AUTH", ErrAuth, ""},
	{"NOPERM", ErrPermission, ""},
	{"WRONGTYPE", ErrWrongType, ""},
	{"BADFENCE", ErrWrongType, " (if no other program uses that key, delete it, and fences follow the server's clock again; if one does, choose another prefix)"},
	{"BADKIND", ErrWrongType, ""},
	{"BADLIMIT", ErrPermits, ""},
	{"BADPARTIES", ErrParties, ""},
	{"READONLY", ErrReadOnly, ""},
	{"LOADING", ErrLoading, ""},
	{"OOM", ErrOutOfMemory, ""},
	{"BUSY", ErrBusy, ""},
	{again, ErrBusy, ""},
	{"NOREPLICAS", ErrWritesRefused, ""},
	{"MISCONF", ErrWritesRefused, ""},
	{"MASTERDOWN", ErrUnavailable, " (it runs, but has lost its master: INFO replication)"},
	{"CLUSTERDOWN", ErrUnavailable, " (it runs, but its Cluster has no master for this slot, or too few: CLUSTER INFO, CLUSTER NODES)"},
	{tryAgain, ErrUnavailable, " (the slot is on the move; try again)"},
	{nonLocal, ErrUnavailable, " (the slot is on the move; try again)"},
	{"ERR max number of clients", ErrUnavailable, " (it runs: raise maxclients, or open fewer connections)"},
	{"ERR unknown command", ErrUnsupported, ""},
	{"NOSTRICT", ErrUnsupported, ""},
	{"MOVED", ErrUnsupported, ""}, // a client for one server met a Cluster
	{"ERR This instance has cluster support disabled", ErrUnsupported, " (it is a single server: leave out +cluster, or use a client for one server)"},
	{"ERR DB index is out of range", ErrUnsupported, " (name a database that it has: CONFIG GET databases)"},
	{"ERR SELECT is not allowed in cluster mode", ErrUnsupported, " (it is part of a Cluster, which has only database 0)"},
}

const (
	tryAgain = "TRYAGAIN"
	nonLocal = "ERR Script attempted to access a non local key"
)

// refusalOf returns the refusal with the prefix of a server's error; zero if there is none.
func refusalOf(text string) refusal {
	text = strings.TrimPrefix(text, "-")
	text = strings.TrimPrefix(text, "EXECABORT Transaction discarded because of: ") // EXEC repeats the error of one of its commands
	// ACL errors inside scripts begin with ERR. Redis up to 7.0 has one text, later versions another.
	if strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ERR ACL failure in script") {
		return refusal{kind: ErrPermission}
	}
	for _, r := range refusals {
		if strings.HasPrefix(text, r.prefix) {
			return r
		}
	}
	return refusal{}
}

// IsDivided reports whether a server says that it does not have all keys of a request, because their slot is on the move.
func IsDivided(err error) bool { return resp.Is(err, tryAgain) }

// RefusesAll reports whether any other request to the same server would now fail in the same way.
func RefusesAll(err error) bool {
	fate, kind := Classify(err)
	if fate == NeverSent {
		return true
	}
	return fate == Refused && Temporary(kind) && !resp.Is(err, tryAgain, nonLocal) // which are about the keys
}

// Temporary reports whether a request that failed in this way is worth trying again at once.
func Temporary(kind error) bool {
	switch kind {
	case ErrUnavailable, ErrLoading, ErrBusy, ErrReadOnly:
		return true
	}
	return false
}

// Passing reports whether a waiter should go on waiting after an error of this kind. A server that refuses all writes usually does so for a
// while only.
func Passing(kind error) bool {
	return Temporary(kind) || kind == ErrWritesRefused || kind == ErrOutOfMemory
}

// Hopeless reports whether waiting cannot mend an error of the first contact: the server's certificate is wrong, its host does not exist,
// its address has no port, or no address is that of a sentinel that knows the master. It does not apply to later errors: a name may be
// missing for a moment while a server restarts.
func Hopeless(err error) bool {
	var dns *net.DNSError
	return isUntrusted(err) || errors.As(err, &dns) && dns.IsNotFound || errors.As(err, new(*net.AddrError)) || sentinel.IsHopeless(err)
}

// isUntrusted reports whether this client refused the server's certificate.
func isUntrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// told returns a driver's error as a Failure contains it.
func told(err error) error {
	if reply, ok := err.(driver.ReplyError); ok {
		return driver.ReplyError(Shown(string(reply)))
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return overtime{err}
	}
	return err
}

// overtime is the error of a command that its own timeout ended, not the caller's context. It does not match a context's errors, which
// errors of the net package do.
type overtime struct{ err error }

func (e overtime) Error() string {
	return strings.ReplaceAll(e.err.Error(), context.DeadlineExceeded.Error(), "no answer in time")
}

func (e overtime) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

func (e overtime) As(target any) bool { return errors.As(e.err, target) }

// maxShown bounds, in bytes, how much of a server's error is shown.
const maxShown = 512

// Shown returns the part of a server's error that may be shown. A server that does not know a command, such as EVALSHA or AUTH, repeats its
// arguments, which may be tokens or the password.
func Shown(text string) string {
	if before, _, echoes := strings.Cut(text, "with args beginning with"); echoes {
		text = strings.TrimRight(before, ", ")
	}
	return printable.Line(text, maxShown)
}
