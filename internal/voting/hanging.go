package voting

// wish is a lock that one node is asked for.
type wish struct {
	node int
	key  string
}

// maxHanging bounds the unanswered votes for one lock on a node. A node with that many is not asked any more, since one that
// hangs would cost a waiter more with every round. It is above 1 so that one lost message does not exclude a node.
const maxHanging = 4

// answers reports whether it makes sense to ask a node for a lock.
func (q *Quorum) answers(w wish) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hanging[w] < maxHanging
}

// noteHanging counts votes that are not answered.
func (q *Quorum) noteHanging(w wish, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hanging[w] += n
	if q.hanging[w] == 0 {
		delete(q.hanging, w)
	}
}

// giveBack releases what a node granted or may have granted. Until then the node may name this attempt as the holder.
func (q *Quorum) giveBack(v vote) {
	if v.a.IsOwed() {
		token := v.a.Token()
		q.noteReturning(token, true)
		v.a.WhenSettled(func() { q.noteReturning(token, false) })
	}
	v.a.Abandon()
}

// noteReturning notes that the grant with this token is being given back, or no longer is.
func (q *Quorum) noteReturning(token string, is bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if is {
		q.given[token] = struct{}{}
	} else {
		delete(q.given, token)
	}
}

// isReturning reports whether the grant with this token is being given back.
func (q *Quorum) isReturning(token string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, is := q.given[token]
	return is
}
