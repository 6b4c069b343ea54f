package quorum

import "time"

// timeout is how long a node is waited for at first: as NodeTimeout says, or several times as long as the slowest node
// takes to answer, so that there is time for a new connection, and for a script that the node does not know.
func (q *Quorum) timeout(l *lock) time.Duration {
	base, given := l.first().Timeout()
	if given {
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

// longer is how long a node is waited for after a round for which that was too short.
func (q *Quorum) longer(l *lock, timeout time.Duration) time.Duration {
	if _, given := l.first().Timeout(); given {
		return timeout
	}
	return max(timeout, min(2*timeout, longestTimeout(l)))
}

// longestTimeout bounds how long a node is waited for without a NodeTimeout.
func longestTimeout(l *lock) time.Duration {
	return min(l.first().TTL()/4, l.c.Config().CommandTimeout)
}

// observe notes how long a node took to answer. What is far longer than before is most likely no round trip.
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

// notAfter returns a node's time past which no copy of a vote that is asked for now is carried out.
func (q *Quorum) notAfter(i int, timeout time.Duration) int64 {
	return q.clients[i].Server().Time(0) + (timeout + time.Second).Microseconds()
}
