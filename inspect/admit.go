package inspect

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/access"
)

// Admit admits a new server to Strict mode, so that it grants locks at once. Run it before the first acquire,
// which puts a new server in quarantine. Run it once for a server, by hand: a server that lost its data looks like a new one, so do not run it whenever a
// server starts. A server in quarantine makes it return [holdfast.ErrQuarantine], which says for how long. A client whose
// [holdfast.Config.Strict] is false gets [holdfast.ErrInvalid].
//
// Of a quorum it admits new nodes: all of them have to be there. Run it once for a new quorum, and again after a majority has
// restarted and lost its data, for which the others cannot vouch. A node that is replaced, or comes back empty, while a
// majority goes on, needs a quarantine, but no Admit. If another node was admitted earlier, a node that looks new may have lost its
// locks. Admit leaves it in quarantine, does not wait for the end of that, and returns a [*quorum.Error] that matches ErrQuarantine
// and names the node: call it again then.
func (i *Inspector) Admit(ctx context.Context) error { return access.Error(i.of.Init(ctx, false)) }

// ForceAdmit is Admit, and ends a quarantine: use it only if no holder can still rely on an earlier lease.
func (i *Inspector) ForceAdmit(ctx context.Context) error { return access.Error(i.of.Init(ctx, true)) }
