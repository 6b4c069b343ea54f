package job

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// borrowed takes leases out of a function that lends each to a callback: Once.Do, or Election.Run. The callback lasts until the lease
// is given back.
type borrowed struct {
	leases  chan *holdfast.Lease
	results chan error    // what the callback returns
	over    chan struct{} // closed when the function has returned err
	err     error
	lent    bool // the callback waits for its result
}

// borrow starts the function lend, whose callback calls use.
func borrow(lend func(use func(ctx context.Context, lease *holdfast.Lease) error) error) *borrowed {
	b := &borrowed{leases: make(chan *holdfast.Lease), results: make(chan error), over: make(chan struct{})}
	go func() {
		defer close(b.over)
		b.err = lend(func(ctx context.Context, lease *holdfast.Lease) error {
			select {
			case b.leases <- lease:
				return <-b.results
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return b
}

// next returns the next lease; nil, and the function's error, if the function has returned.
func (b *borrowed) next(ctx context.Context) (*holdfast.Lease, error) {
	select {
	case lease := <-b.leases:
		b.lent = true
		return lease, nil
	case <-b.over:
		return nil, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// giveBack makes the callback return result, if there is a lease to be given back.
func (b *borrowed) giveBack(result error) {
	if b.lent {
		b.lent = false
		b.results <- result
	}
}
