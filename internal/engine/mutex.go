package engine

import (
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// mutex is the kind of lock that has one holder at a time.
var mutex = single(kind{
	form: codec.HoldsMutex, place: byName(""), native: true, reserves: true, reasserted: true, carried: true,
})

// keyed is a mutex under a key of the user's choice, shared with programs that use SET key token NX
// PX ttl. If it has disappeared, its holder does not claim it again: such a program may have held
// it meanwhile, and nothing would show it.
var keyed = single(kind{
	form: codec.HoldsMutex, flags: codec.Shared, carried: true,
	place: func(space keys.Space, _ string, s *settings) (keys.Set, error) { return space.Exact(s.key) },
})
