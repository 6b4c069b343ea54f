// Package access lets other packages of this module reach what the API's types hide. The packages that declare the types set these
// functions when the program starts. They import this package, so it cannot name their types: here they are any.
package access

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/voting"
)

// Parts are the parts of a *holdfast.Client.
type Parts struct {
	Engine  *engine.Client
	Durable []kind.Option // for all its locks
	Poll    []kind.Option // for locks that can poll
}

// Set by package holdfast.
var (
	Client   func(c any) Parts                          // of a *holdfast.Client
	Lock     func(l any) engine.Lock                    // of a *holdfast.Lock
	NewLock  func(l engine.Lock, wait option.Limit) any // a *holdfast.Lock
	Lease    func(l any) engine.Lease                   // of a *holdfast.Lease
	NewLease func(l engine.Lease) any                   // a *holdfast.Lease
	Status   func(s *lock.Status) any                   // a holdfast.Status
	Holder   func(h lock.Holder) any                    // a holdfast.Holder
	Error    func(err error) error                      // converts an error of the engine to one of package holdfast
	ErrorOf  func(lease any, err error) error           // Error for a *holdfast.Lease, whose fence the error then has
)

// Set by packages quorum and inspect.
var (
	// Quorum returns the parts of a *quorum.Quorum.
	Quorum func(q any) *voting.Quorum
	// QuorumError converts an error to one of package quorum.
	QuorumError func(e *voting.Error) error

	// Reach asks an *inspect.Inspector's server whether it answers. Errors name the purpose by verb and pattern: to "watch" all locks, for
	// example.
	Reach func(ctx context.Context, inspector any, verb, pattern string) error
	// Absent returns the errors of the nodes that failed during the latest List of an *inspect.Inspector. isQuorum reports whether it
	// inspects the locks of a quorum, whose waiters are not known.
	Absent func(inspector any) (errs []error, isQuorum bool)
)
