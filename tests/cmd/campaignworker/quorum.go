package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/options"
)

// quorum is the locks of a quorum, with a client for each node.
type quorum struct {
	nodes   []*locks
	clients []*holdfast.Client

	mu  sync.Mutex
	all map[time.Duration]*holdfast.Quorum // by node timeout
}

func openQuorum(s worker.Setting) (worker.Locks, error) {
	q := &quorum{all: map[time.Duration]*holdfast.Quorum{}}
	for _, addr := range s.Nodes {
		l, err := openAt(s, addr)
		if err != nil {
			return nil, err
		}
		q.nodes, q.clients = append(q.nodes, l), append(q.clients, l.client)
	}
	return q, nil
}

// waiting returns the quorum with that node timeout.
func (q *quorum) waiting(nodeTimeout time.Duration) (*holdfast.Quorum, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.all[nodeTimeout]; known != nil {
		return known, nil
	}
	made, err := holdfast.NewQuorum(q.clients, &holdfast.QuorumConfig{NodeTimeout: nodeTimeout})
	if err == nil {
		q.all[nodeTimeout] = made
	}
	return made, err
}

func (q *quorum) Acquire(ctx context.Context, w worker.Want) (worker.Lease, error) {
	all, err := q.waiting(w.NodeTimeout)
	if err != nil {
		return nil, err
	}
	return acquire(ctx, all.Mutex(w.Name, options.For[holdfast.QuorumOption](waitingOptionsOf(w))...), w)
}

func (q *quorum) Admit(ctx context.Context) error {
	all, err := q.waiting(0)
	if err != nil {
		return err
	}
	return all.Admit(ctx)
}

func (q *quorum) NeedAdmission(err error) bool { return errors.Is(err, holdfast.ErrNotAdmitted) }

// Close closes all clients at once, since a lease of several nodes ends when most of them do.
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
