package codec

import (
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Announce makes watchers of a lock look who holds it: announce.lua.
type Announce struct {
	Lock    Lock
	Channel string
}

func (q *Announce) Call() driver.Call { return urgent(q.Lock.byKey(script.Announce(), "", q.Channel)) }

// The count is that of connections that were told.
var announced = forms{{Told, []field{count}}}

func (q *Announce) Parse(text string) (Reply, error) { return announced.parse(text) }
