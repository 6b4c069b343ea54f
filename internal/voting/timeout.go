package voting

import "time"

// timeout returns how long to wait for a node at first: NodeTimeout, or several times as long as the slowest node takes to answer, which
// leaves time for a new connection and for a script that the node does not know.
func (q *Quorum) timeout(l *mutex) time.Duration {
	base := l.first().Set.NodeWait()
	if l.first().Set.NodeTimeout > 0 {
		return base
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	slowest := time.Duration(0)
	for i := range q.nodes {
		slowest = max(slowest, q.nodes[i].trip)
	}
	return max(base, min(6*slowest, longestTimeout(l)))
}

// longer returns how long to wait for a node after a round for which timeout was too short.
func (q *Quorum) longer(l *mutex, timeout time.Duration) time.Duration {
	if l.first().Set.NodeTimeout > 0 {
		return timeout
	}
	return max(timeout, min(2*timeout, longestTimeout(l)))
}

// longestTimeout bounds how long to wait for a node without NodeTimeout.
func longestTimeout(l *mutex) time.Duration {
	return min(l.first().Set.TTL/4, l.c.Config.CommandTimeout)
}

// observe notes how long a node took to answer. A time far longer than before hardly counts, since it is most likely no round trip.
func (q *Quorum) observe(i int, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &q.nodes[i]
	if n.trip == 0 {
		n.trip = d
		return
	}
	n.trip += (min(d, 4*n.trip) - n.trip) / 4
}

// notAfter returns the time, by the node's clock in µs, after which the node carries out no copy of a request sent now.
func (q *Quorum) notAfter(i int, timeout time.Duration) int64 {
	return q.clients[i].Server.Time(0) + (timeout + time.Second).Microseconds()
}
