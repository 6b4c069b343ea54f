package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// quorum is the locks of a quorum, with a client for each node.
type quorum struct {
	nodes []*locks
	all   *holdfast.Quorum
}

func openQuorum(s worker.Setting) (worker.Locks, error) {
	q := &quorum{}
	var clients []*holdfast.Client
	for _, addr := range s.Nodes {
		l, err := openAt(s, addr)
		if err != nil {
			return nil, err
		}
		q.nodes, clients = append(q.nodes, l), append(clients, l.client)
	}
	var err error
	q.all, err = holdfast.NewQuorum(clients...)
	return q, err
}

func (q *quorum) Acquire(ctx context.Context, w worker.Want) (worker.Lease, error) {
	return acquire(ctx, q.all.Mutex(w.Name, optionsOf(w)...), w)
}

func (q *quorum) Admit(ctx context.Context) error { return q.all.Init(ctx, false) }

func (q *quorum) NeedAdmission(err error) bool { return errors.Is(err, holdfast.ErrUninitialised) }

// Close closes all clients at once: a lease of several nodes ends when most of them do.
func (q *quorum) Close(ctx context.Context) error {
	closed := make(chan error, len(q.nodes))
	for _, l := range q.nodes {
		go func() { closed <- l.Close(ctx) }()
	}
	var errs []error
	for range q.nodes {
		errs = append(errs, <-closed)
	}
	return errors.Join(errs...)
}
