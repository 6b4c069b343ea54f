package printable

import "fmt"

// Handle prints as what it is a handle of does, whatever the verb: fmt would otherwise print its fields, and so a lock's token. A type
// embeds it.
type Handle[T fmt.Stringer] struct{ of T }

// NewHandle returns the handle of something.
func NewHandle[T fmt.Stringer](of T) Handle[T] { return Handle[T]{of} }

// Of returns what it is a handle of. It is no method, which users of the type that embeds it could call.
func Of[T fmt.Stringer](h Handle[T]) T { return h.of }

// String returns the text of what it is a handle of.
func (h Handle[T]) String() string { return h.of.String() }

// Format prints String.
func (h Handle[T]) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, h.of.String()) }

// Name returns a handle that prints as its kind and its name.
func Name(kind string, of interface{ Name() string }) Handle[Named] {
	return Handle[Named]{Named{kind, of}}
}

// Named is the text of a handle that has a name.
type Named struct {
	Kind string
	Of   interface{ Name() string }
}

// String names the handle, for people.
func (n Named) String() string { return fmt.Sprintf("%s(%q)", n.Kind, n.Of.Name()) }
