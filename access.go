package holdfast

import (
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
)

func init() {
	access.Client = func(c any) access.Parts {
		own := c.(*Client)
		return access.Parts{Engine: own.e(), Durable: own.durable, Poll: own.poll}
	}
	access.Lock = func(l any) engine.Lock { return l.(*Lock).e() }
	access.NewLock = func(l engine.Lock, wait option.Limit) any { return newLock(l, wait) }
	access.Lease = func(l any) engine.Lease { return l.(*Lease).e() }
	access.NewLease = func(l engine.Lease) any { return &Lease{printable.NewHandle(l)} }
	access.Status = func(s *lock.Status) any { return newStatus(s) }
	access.Holder = func(h lock.Holder) any { return holder(h) }
	access.Error = leave
	access.ErrorOf = func(l any, err error) error { return l.(*Lease).leave(err) }
}
