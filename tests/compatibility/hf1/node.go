package hf1

// nodeKeys are the keys of a node of a quorum, besides those of a lock.
func (c *Client) nodeKeys() []string {
	return []string{c.o.Prefix + "fence", c.o.Prefix + "caughtup", c.Mark()}
}

func (l *Lock) nodeKeys() []string { return append([]string{l.Key(), l.queue()}, l.c.nodeKeys()...) }

// Vote asks a node for the lock. ticket is kept for so many ms, unless it is empty.
func (a *Attempt) Vote(ticket string, keptFor int) Reply {
	l := a.Lock
	l.c.tb.Helper()
	r := l.send("node_acquire", l.nodeKeys(), "", a.Token, a.TTL, l.c.notAfter(), l.c.Info.String(), ticket, keptFor)
	if r.Word == "granted" {
		a.Fence, a.granted = r.Int("FENCE"), r.Now
	}
	return r
}

// Fenced stores the fence of the quorum's grant on a node.
func (a *Attempt) Fenced(fence int64) Reply {
	a.Lock.c.tb.Helper()
	return a.Lock.send("node_fence", a.Lock.nodeKeys(), "", a.Token, fence)
}

// Counter reads a node's fence counter.
func (l *Lock) Counter() Reply {
	l.c.tb.Helper()
	return l.send("node_counter", l.nodeKeys(), "", "x")
}

// Raise raises a node's fence counter, which stood so when it was read.
func (l *Lock) Raise(counter int64, stands string) Reply {
	l.c.tb.Helper()
	return l.send("node_raise", l.nodeKeys(), "", "x", counter, stands)
}

// VoteBatch asks a node for all free locks of the attempts, and returns the numbers of the others, from 1.
func VoteBatch(attempts ...*Attempt) (left []int64) {
	c := attempts[0].Lock.c
	c.tb.Helper()
	return takeBatch("node_batch_acquire", append(locksAndQueues(attempts), c.nodeKeys()...), attempts)
}

// TakeBackTicket takes a ticket from a node.
func (l *Lock) TakeBackTicket(ticket string) Reply {
	l.c.tb.Helper()
	return l.send("release", l.c.marked(l.keys), "n", NewToken(), "t:"+ticket, 0)
}
