// Package access lets other packages of this module, such as inspect, reach what the API's types hide. Package holdfast, and
// inspect, set the functions when the program starts. They import this package, so their types are any here.
package access

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/quorum"
)

var (
	// Client returns the engine's client of a *holdfast.Client.
	Client func(c any) *engine.Client
	// Quorum returns what a *holdfast.Quorum is.
	Quorum func(q any) *quorum.Quorum
	// Status returns the engine's status as a holdfast.Status.
	Status func(s *engine.Status) any
	// Holder returns the engine's holder as a holdfast.Holder.
	Holder func(h engine.Holder) any
	// Error returns an error of the engine as one of package holdfast.
	Error func(err error) error

	// Reach asks an *inspect.Inspector's server whether it answers. verb and pattern are what for, in errors: to "watch" all
	// locks, say.
	Reach func(ctx context.Context, inspector any, verb, pattern string) error
	// IsOfQuorum reports whether an *inspect.Inspector looks at the locks of a quorum, of which it is not known who waits.
	IsOfQuorum func(inspector any) bool
	// Absent returns the errors of a quorum's nodes that did not answer the latest List of its *inspect.Inspector as they should.
	Absent func(inspector any) []error
)
