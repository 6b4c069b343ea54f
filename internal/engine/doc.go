// Package engine implements the locks behind package holdfast, which is a facade for it: waiting, granting, renewal, loss and release, for
// all kinds of locks. docs/ARCHITECTURE.md says what is in which file, and tells the story of one acquire.
package engine
