// Package access lets other packages of this module, such as inspect, reach what the API's types hide. Package holdfast sets
// the functions when the program starts. It imports this package, so its types are any here.
package access

import (
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
)
