// Package access lets other packages of this module reach what the API's types hide. The packages that have the types set the
// functions when the program starts. They import this package, so their types are any here.
package access

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/voting"
)

// Parts are what a *holdfast.Client consists of.
type Parts struct {
	Engine  *engine.Client
	Durable []kind.Option // of all its locks
	Poll    []kind.Option // of those that can poll
}

// Of package holdfast.
var (
	Client  func(c any) Parts                          // of a *holdfast.Client
	Lock    func(l any) engine.Lock                    // of a *holdfast.Lock
	NewLock func(l engine.Lock, wait option.Limit) any // a *holdfast.Lock
	Lease   func(l any) engine.Lease                   // of a *holdfast.Lease
	Status  func(s *lock.Status) any                   // a holdfast.Status
	Holder  func(h lock.Holder) any                    // a holdfast.Holder
	Error   func(err error) error                      // an error of the engine as one of package holdfast
	ErrorOf func(lease any, err error) error           // Error of a *holdfast.Lease, which knows its fence
)

// Of packages quorum and inspect.
var (
	// Quorum returns what a *quorum.Quorum is.
	Quorum func(q any) *voting.Quorum
	// QuorumError returns an error as package quorum has it.
	QuorumError func(e *voting.Error) error

	// Reach asks an *inspect.Inspector's server whether it answers. verb and pattern are what for, in errors: to "watch" all
	// locks, say.
	Reach func(ctx context.Context, inspector any, verb, pattern string) error
	// IsOfQuorum reports whether an *inspect.Inspector looks at the locks of a quorum, of which it is not known who waits.
	IsOfQuorum func(inspector any) bool
	// Absent returns the errors of a quorum's nodes that did not answer the latest List of its *inspect.Inspector as they should.
	Absent func(inspector any) []error
)
