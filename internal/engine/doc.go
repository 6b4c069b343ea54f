// Package engine implements the locks behind package holdfast, which is a facade: waiting, granting, renewal, loss and release, for
// all kinds of locks. docs/ARCHITECTURE.md says which file has what, and tells the story of one acquire.
package engine
