package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// answer is a script's reply, and when the request was sent that it answers.
type answer struct {
	wire.Reply
	sent clock.Instant
}

// request is a script to run on a lock.
type request struct {
	op     string // for errors
	lock   *Lock
	script driver.Script
	args   []string
	urgent bool

	more     []*Lock  // that the script takes, too: all three keys of each
	keys     []string // that the script takes instead of the lock's
	lockOnly bool     // the script needs neither the lock's queue nor fences
	durable  bool     // it counts only if it is as durable as the lock's options say

	began time.Time   // since when this is tried; zero: from now on
	met   func(error) // told what each sending meets that fails; or nil
}

// call sends a request until it is answered, while what it meets looks temporary, for
// RetryTimeout at most; ctx may end it sooner. unanswered says that some sending may
// have been carried out without our hearing of it, or may still be.
func (c *Client) call(ctx context.Context, rq request) (a answer, unanswered bool, err error) {
	began := rq.began
	if began.IsZero() {
		began = time.Now()
	}
	a, unanswered, err = persistSince(began, ctx, c, rq.op, rq.lock.name, func(ctx context.Context) (answer, error) {
		a, err := c.send(ctx, rq)
		if err != nil && rq.met != nil {
			rq.met(c.nodeError(rq.op, rq.lock.name, err))
		}
		return a, err
	})
	if err != nil && !rq.urgent && rq.keys == nil {
		c.explain(ctx, append([]*Lock{rq.lock}, rq.more...), err)
	}
	return a, unanswered, err
}

// callOnce sends a request that is carried out once, whatever becomes of its copies: under an id of
// its own, and not after the time until which the server remembers that. Between the two stands
// what it is about. It goes on when ctx ends: nobody would know whether it was carried out.
func (l *Lock) callOnce(ctx context.Context, rq request, about string) (answer, error) {
	rq.lock = l
	id := randomText()
	for range 3 {
		rq.args = []string{l.flags(""), id, about, strconv.FormatInt(l.c.notAfter(l), 10)}
		a, unanswered, err := l.c.call(context.WithoutCancel(ctx), rq)
		unheard := func(kind error) error {
			return &ServerError{Op: rq.op, Name: l.name, Server: l.c.driver.Addr(), ambiguous: true, Kind: kind,
				Err: errors.New("no copy of the request was answered in time")}
		}
		switch {
		case err == ErrClosed && unanswered:
			return answer{}, unheard(ErrClosed)
		case err != nil || a.Word != "late":
			return a, err
		case unanswered: // an earlier copy may have been carried out, and forgotten by now
			return answer{}, unheard(ErrUnavailable)
		}
	}
	return answer{}, l.clockJumps(rq.op)
}

// achieves has what durable requests are answered when they achieved what they are for.
var achieves = map[string]bool{"granted": true, "renewed": true, "weighed": true, "begun": true, "completed": true, "counted": true, "released": true, "reset": true, "tripped": true, "waiting": true}

// keysOf is what a script may need of a lock.
func (c *Client) keysOf(l *Lock) []string {
	k := []string{l.keys.Lock, l.keys.Queue, c.fenceOf(l)}
	if l.set.isShared() {
		k = append(k, l.keys.Expiries())
	}
	return k
}

// leastOf is what a script needs of a lock that touches neither its queue nor fences.
func leastOf(l *Lock) []string {
	if l.set.isShared() {
		return []string{l.keys.Lock, l.keys.Expiries()}
	}
	return []string{l.keys.Lock}
}

// fenceOf is the key of the counter that the lock's fences come from.
func (c *Client) fenceOf(l *Lock) string {
	if c.inCluster() {
		return l.keys.Fence()
	}
	return c.space.Fence()
}

// send sends a request once; again, for as long as the script has only cleared away what others
// have left.
func (c *Client) send(ctx context.Context, rq request) (answer, error) {
	k := c.keysOf(rq.lock)
	for _, l := range rq.more {
		k = append(k, c.keysOf(l)...)
	}
	switch {
	case rq.keys != nil:
		k = rq.keys
	case c.cfg.Strict:
		k = append(k, c.space.Incarnation())
	case rq.lockOnly:
		k = leastOf(rq.lock)
	}
	for {
		a, err := c.sendTo(ctx, rq, k)
		if !unfinished(err) || ctx.Err() != nil {
			return a, err
		}
	}
}

// sendTo sends a request once, with those keys.
func (c *Client) sendTo(ctx context.Context, rq request, k []string) (answer, error) {
	sent := clock.Now()
	text, safe, err := c.eval(ctx, rq, k)
	if err != nil {
		return answer{}, err
	}
	reply, err := wire.ParseReply(text)
	if err != nil {
		return answer{}, err
	}
	if safe != nil && achieves[reply.Word] {
		return answer{}, safe
	}
	c.rtt.observe(clock.Mono().Sub(sent.Mono))
	c.setClock(c.slot(rq.lock), sent, reply.Now)
	return answer{reply, sent}, nil
}

// persist calls f, which sends something once, until it succeeds, as call says. Each
// try is given up after CommandTimeout, and at once when ctx ends, even if f does not
// return then. While the client closes only releases are sent again.
func persist[T any](ctx context.Context, c *Client, op, name string, f func(context.Context) (T, error)) (result T, unanswered bool, err error) {
	return persistSince(time.Now(), ctx, c, op, name, f)
}

// persistSince is persist of something that has been tried since then.
func persistSince[T any](start time.Time, ctx context.Context, c *Client, op, name string, f func(context.Context) (T, error)) (result T, unanswered bool, err error) {
	closing := c.closing
	if op == "release" {
		closing = nil
	}
	var failure *ServerError // of the latest try
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		tried := time.Now()
		result, err := try(ctx, c, c.cfg.CommandTimeout, f)
		if err == nil {
			return result, unanswered, nil
		}
		outcome, kind := classify(err)
		unanswered = unanswered || outcome == unknown
		if over := ctx.Err(); over != nil && (err == over || err == notSent{over}) {
			if failure == nil {
				return result, unanswered, c.unheard(ctx, op, name, tried)
			}
			failure.ambiguous = unanswered
			return result, unanswered, endedBy(ctx, failure)
		}
		failure = &ServerError{Op: op, Name: name, Server: c.driver.Addr(), Kind: kind, Err: told(err), ambiguous: unanswered}
		if ctx.Err() != nil && outcome != refused {
			return result, unanswered, endedBy(ctx, failure)
		}
		left := c.cfg.RetryTimeout - time.Since(start)
		wait := min(pause/2+rand.N(pause/2), left)
		end, bounded := ctx.Deadline()
		if !temporary(kind) || op == opReach && hopeless(err) || kind == ErrReadOnly && c.staysReadOnly() || left <= 0 || bounded && time.Until(end) < wait {
			return result, unanswered, failure
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return result, unanswered, endedBy(ctx, failure)
		case <-closing:
			return result, unanswered, ErrClosed
		}
	}
}

// unheard returns the error of a request that was sent then, and not answered before ctx ended. Whoever
// cancels it does not wait for the answer; whose deadline passed has waited in vain.
func (c *Client) unheard(ctx context.Context, op, name string, sent time.Time) error {
	if ctx.Err() != context.DeadlineExceeded {
		return ctx.Err()
	}
	return endedBy(ctx, &ServerError{
		Op: op, Name: name, Server: c.driver.Addr(), Kind: ErrUnavailable, ambiguous: true,
		Err: fmt.Errorf("no answer for %s", time.Since(sent).Round(time.Millisecond)),
	})
}

// isSilent reports whether a server that has answered before has left a request, sent then, unanswered for
// so long that something is wrong with it, or with the way to it.
func (c *Client) isSilent(sent time.Time) bool {
	return time.Since(sent) > max(100*time.Millisecond, 4*c.rtt.mean())
}

// told is an error of a Driver as a ServerError has it.
func told(err error) error {
	if reply, ok := err.(driver.ReplyError); ok {
		return driver.ReplyError(shown(string(reply)))
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return overtime{err}
	}
	return err
}

// overtime is an error of a command whose own time was over, not that of the caller's context: it does not
// match a context's errors, as those of the net package do, too.
type overtime struct{ err error }

func (e overtime) Error() string {
	return strings.ReplaceAll(e.err.Error(), context.DeadlineExceeded.Error(), "no answer in time")
}

func (e overtime) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

func (e overtime) As(target any) bool { return errors.As(e.err, target) }

// try calls f once, within timeout and ctx.
func try[T any](ctx context.Context, c *Client, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, notSent{err}
	}
	// Cancelling the driver's context would tear down its connection; the reply is
	// wanted by nobody then, but the connection is.
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	c.tasks.run(func() {
		value, err := f(work)
		results <- result{value, err}
		cancel()
	})
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-work.Done():
		select {
		case r := <-results: // whose end ended work
			return r.value, r.err
		default:
			return none, work.Err()
		}
	}
}

// notSent marks an error of something that was certainly not sent.
type notSent struct{ error }

func (e notSent) Is(target error) bool { return target == driver.ErrNotSent }
func (e notSent) Unwrap() error        { return e.error }

// outcome says what is known of a sending that failed.
type outcome int

const (
	unknown outcome = iota // it may have been carried out, or may still be
	unsent                 // it did not leave this process
	refused                // the server answered with an error
)

// classify finds what an error of a Driver tells of the request, and the sentinel for
// the error.
func classify(err error) (o outcome, kind error) {
	var reply driver.ReplyError
	var caught wire.ScriptError
	var quarantine *QuarantineError
	var short unconfirmed
	switch {
	case errors.As(err, &short):
		// The server may have refused to wait, after it had carried out the script.
		if errors.As(short.err, &reply) && kindOf(string(reply)) != nil {
			return unknown, kindOf(string(reply))
		}
		return unknown, ErrReplicas
	case errors.As(err, &reply):
		return refused, kindOf(string(reply))
	case errors.As(err, &quarantine):
		return refused, ErrQuarantine
	case errors.As(err, &caught):
		return refused, kindOf(string(caught))
	case errors.Is(err, driver.ErrNotSent):
		return unsent, ErrUnavailable
	case errors.Is(err, wire.ErrMalformed):
		return unknown, nil
	}
	return unknown, ErrUnavailable
}

// kinds maps how errors of servers begin to sentinels.
var kinds = []struct {
	prefix string
	kind   error
}{
	{"NOAUTH", ErrAuth},
	{"WRONGPASS", ErrAuth},
	{"ERR invalid password", ErrAuth},
	{"ERR Client sent AUTH", ErrAuth},
	{"ERR AUTH", ErrAuth},
	{"NOPERM", ErrPermission},
	{"WRONGTYPE", ErrWrongType},
	{"BADFENCE", ErrWrongType},
	{"BADKIND", ErrWrongType},
	{"BADLIMIT", ErrPermits},
	{"BADPARTIES", ErrParties},
	{"READONLY", ErrReadOnly},
	{"LOADING", ErrLoading},
	{"OOM", ErrOutOfMemory},
	{"BUSY", ErrBusy},
	{again, ErrBusy},
	{"NOREPLICAS", ErrWritesRefused},
	{"MISCONF", ErrWritesRefused},
	{"MASTERDOWN", ErrUnavailable},
	{"CLUSTERDOWN", ErrUnavailable},
	{"TRYAGAIN", ErrUnavailable},
	{nonLocal, ErrUnavailable}, // its slot is on the move
	{"ERR max number of clients", ErrUnavailable},
	{"ERR unknown command", ErrUnsupported},
	{"NOSTRICT", ErrUnsupported},
	{"MOVED", ErrUnsupported}, // a client for one server met a Cluster
}

const nonLocal = "ERR Script attempted to access a non local key"

func kindOf(text string) error {
	text = strings.TrimPrefix(text, "-")
	// The ACL's refusals inside scripts begin with ERR: up to Redis 7.0, and later.
	if strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ERR ACL failure in script") {
		return ErrPermission
	}
	for _, k := range kinds {
		if strings.HasPrefix(text, k.prefix) {
			return k.kind
		}
	}
	return nil
}

// divided reports whether a server says that the keys of a lock are not all with it: their
// slot is on the move.
func divided(err error) bool {
	var reply driver.ReplyError
	return errors.As(err, &reply) && strings.HasPrefix(string(reply), "TRYAGAIN")
}

// refusesAll reports whether what a request met would meet any other that is sent to the same server now.
func refusesAll(err error) bool {
	var reply driver.ReplyError
	outcome, kind := classify(err)
	switch {
	case outcome == unsent:
		return true
	case errors.As(err, &reply) && kind == ErrUnavailable: // not if it is about the keys
		return !divided(err) && !strings.HasPrefix(string(reply), nonLocal)
	}
	return outcome == refused && temporary(kind)
}

// again is how the error of a script begins that has only cleared away what others have left: as much as
// one may, so that it keeps nobody waiting.
const again = "AGAIN "

// unfinished reports whether that is what a script says.
func unfinished(err error) bool {
	var caught wire.ScriptError
	return errors.As(err, &caught) && strings.HasPrefix(string(caught), again)
}

// temporary reports whether it is worth trying again.
func temporary(kind error) bool {
	switch kind {
	case ErrUnavailable, ErrLoading, ErrBusy, ErrReadOnly:
		return true
	}
	return false
}

// opReach is the operation of the first contact.
const opReach = "reach"

// hopeless reports whether an error of the first contact does not go away by waiting: a server that cannot
// show that it is who it should be, or a host that does not exist. Later, a name may be missing for a moment while a
// server restarts.
func hopeless(err error) bool {
	var dns *net.DNSError
	return untrusted(err) || errors.As(err, &dns) && dns.IsNotFound
}

// untrusted reports whether a server's certificate was refused.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// staysReadOnly reports whether a server that refuses writes is most likely a replica, and not a master that
// was replaced: it has never taken one from this client, and the driver finds no other.
func (c *Client) staysReadOnly() bool {
	info := c.info.Load()
	return info != nil && !info.Cluster && !info.Sentinel && !c.written.Load()
}

// hasWritten notes that the server has taken a write.
func (c *Client) hasWritten() {
	if !c.written.Load() {
		c.written.Store(true)
	}
}

// roundTrip is a running mean of how long the server takes to answer.
type roundTrip struct{ ns atomic.Int64 }

func (r *roundTrip) observe(d time.Duration) {
	old := r.ns.Load()
	if old == 0 {
		r.ns.Store(int64(d))
		return
	}
	r.ns.Store(old + (int64(d)-old)/8)
}

func (r *roundTrip) mean() time.Duration { return time.Duration(r.ns.Load()) }
