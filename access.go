package holdfast

import (
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/quorum"
)

func init() {
	access.Client = func(c any) *engine.Client { return c.(*Client).e }
	access.Quorum = func(q any) *quorum.Quorum { return q.(*Quorum).e }
	access.Status = func(s *engine.Status) any { return newStatus(s) }
	access.Holder = func(h engine.Holder) any { return holder(h) }
	access.Error = leave
}
