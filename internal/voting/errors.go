package voting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Error says that too few nodes agreed, and what the others answered. It matches what any of the nodes' errors matches, such as
// ErrUnavailable, ErrQuarantine or ErrPermission. It does not match ErrHeld, which is returned if a majority names a holder.
type Error struct {
	Op    string // "acquire", "init", ...
	Name  string // the lock's
	Task  string // as in exec.Failure
	Nodes []NodeError
	Need  int // how many nodes have to agree
	Of    int // how many nodes there are

	ended error // the error of the caller's context, if it ended before a majority answered
}

// NodeError is the error of one node of a quorum.
type NodeError struct {
	Server string // address, without credentials
	Err    error
}

func (e *Error) Error() string {
	errs := make([]error, len(e.Nodes))
	for i, n := range e.Nodes {
		errs[i] = n.Err
	}
	return TextOf(e, errs)
}

// TextOf returns the text of e with these errors of its nodes. It says only once what was asked, and what advice several of them end with.
func TextOf[E error](e *Error, nodes []E) string {
	task := exec.TaskOf(e.Task, e.Op, e.Name)
	text := fmt.Sprintf("holdfast: %s: too few nodes answered as they should; %d of %d have to", task, e.Need, e.Of)
	before := ": "
	for i, err := range nodes {
		of := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "holdfast: "), task+" ")
		if advice := strings.LastIndex(of, " ("); advice >= 0 && strings.HasSuffix(of, ")") && i+1 < len(nodes) && strings.HasSuffix(nodes[i+1].Error(), of[advice:]) {
			of = of[:advice]
		}
		text += before + of
		before = "; "
	}
	if e.ended != nil {
		text += before + e.ended.Error()
	}
	return text
}

// endedBy returns the error of an acquire whose context has ended. why is the error of the latest rounds if too few nodes answered; last is
// the error of the latest round. Both may be nil.
func endedBy(ctx context.Context, why *Error, last error) error {
	if why == nil {
		return engine.EndedWhileHeld(ctx, last)
	}
	ended := *why
	ended.ended = ctx.Err()
	return &ended
}

// WithoutEnd returns the error without that of the caller's context.
func (e *Error) WithoutEnd() error {
	own := *e
	own.ended = nil
	return &own
}

// Unwrap returns the nodes' errors and, if the caller's context has ended, its error.
func (e *Error) Unwrap() []error {
	var all []error
	if e.ended != nil {
		all = append(all, e.ended)
	}
	for _, n := range e.Nodes {
		all = append(all, n.Err)
	}
	return all
}

// tooFew returns the error of a round in which too few nodes answered. errs are the errors by node.
func (q *Quorum) tooFew(op, name string, errs []error) *Error {
	e := &Error{Op: op, Name: name, Need: q.need, Of: len(q.clients)}
	for i, err := range errs {
		if err == nil || err == errUnasked {
			continue
		}
		if !errors.As(err, new(*exec.Failure)) && !errors.Is(err, exec.ErrClosed) {
			err = q.clients[i].Server.Failure(op, name, err)
		}
		e.Nodes = append(e.Nodes, NodeError{q.clients[i].Server.Addr(), err})
	}
	return e
}

// InTask is exec.InTask for errors of quorums and their nodes, too.
func InTask(task string, err error) error {
	e, is := err.(*Error)
	if !is {
		return exec.InTask(task, err)
	}
	own := *e
	own.Task, own.Nodes = task, slices.Clone(e.Nodes)
	for i := range own.Nodes {
		own.Nodes[i].Err = exec.InTask(task, own.Nodes[i].Err)
	}
	return &own
}

// curable reports whether a majority may agree later: not too many nodes refuse for good.
func (q *Quorum) curable(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	lost := 0
	for _, n := range e.Nodes {
		var se *exec.Failure
		kind := exec.KindOf(n.Err)
		switch {
		case errors.As(n.Err, &se) && se.Op == exec.OpReach && exec.Hopeless(n.Err), kind != exec.ErrQuarantine && !exec.Temporary(kind) && !errors.As(n.Err, new(contestedError)):
			lost++
		}
	}
	return lost <= len(q.clients)-q.need
}

// quarantined reports whether only quarantines, which end, keep a majority from granting.
func (q *Quorum) quarantined(err error) bool {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, exec.ErrUninitialised) {
		return false
	}
	away := 0
	for _, n := range e.Nodes {
		if !errors.Is(n.Err, exec.ErrQuarantine) {
			away++
		}
	}
	return away <= len(q.clients)-q.need && away < len(e.Nodes)
}

// refusal returns the error of a node that grants nothing at present.
func (q *Quorum) refusal(op string, l *mutex, i int, why codec.Refusal) error {
	if why.Stands != "" {
		return q.failure(op, l.name, i, exec.ErrQuarantine, errBehind)
	}
	return q.failure(op, l.name, i, exec.ErrQuarantine, &exec.Quarantine{Left: why.Quarantine})
}

// failure returns the error of node i. kind may be nil.
func (q *Quorum) failure(op, name string, i int, kind, err error) error {
	return &exec.Failure{Op: op, Name: name, Server: q.clients[i].Server.Addr(), Kind: kind, Err: err}
}

// late returns the error of a round that took longer than its grants last.
func (q *Quorum) late(l *mutex) error {
	return q.tooFew("acquire", l.name, []error{l.first().LateError()})
}

// refused returns why too few nodes granted the lock: a majority names its holder, or too few nodes answer or agree.
func (q *Quorum) refused(l *mutex, votes []vote) error {
	// mutants: named-by-a-majority
	if held, most := foremost(votes); most >= q.need {
		return &lock.HeldError{Name: l.name, Holder: *held}
	}
	errs := make([]error, len(q.clients))
	for _, v := range votes {
		errs[v.node] = v.err
		if v.said && !v.a.IsGranted() {
			errs[v.node] = q.contested("acquire", l.name, v.node, v.holder)
		}
	}
	return q.tooFew("acquire", l.name, errs)
}

// contestedError is the error of a node that has given its vote to another contender, or keeps it for one, while no majority names a
// holder.
type contestedError struct{ text string }

func (e contestedError) Error() string { return e.text }

// Is matches ErrUnavailable, not ErrHeld, since perhaps nobody holds the lock.
func (contestedError) Is(target error) bool { return target == exec.ErrUnavailable }

// contested returns the error of node i, which names this holder or, if holder is nil, none.
func (q *Quorum) contested(op, name string, i int, holder *lock.Holder) error {
	text := "others want the lock, too, and no majority has it yet"
	switch {
	case holder == nil:
	case holder.Foreign:
		text = "another program has the lock there, and too few others name it"
	default:
		text = fmt.Sprintf("it names %s as the holder, and too few others do", holder.Who())
	}
	return q.failure(op, name, i, nil, contestedError{text})
}

// What is wrong with nodes.
var (
	errUnconnected = errors.New("it was not reached yet")
	errUnasked     = errors.New("not asked") // no error: marks a node that was not asked
	errHangs       = errors.New("earlier requests for the lock are unanswered still")
	errBehind      = errors.New("it has restarted, and has not been told yet which fences the others have granted")
	errTogether    = errors.New("it has restarted together with a majority, and is told the fences once all nodes answer")
	errNew         = errors.New("it is new or has lost its data, or it restarted together with a majority, one of which has lost its data")
	errTwice       = errors.New("it is the same server as another node, which counts once")
	errGone        = errors.New("it granted the lock, and has it no more")
)
