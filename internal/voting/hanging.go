package voting

// wish is a lock on one node.
type wish struct {
	node int
	key  string
}

// maxHanging bounds the unanswered votes for one lock on a node. A node with that many is no longer asked, since a node that hangs would
// cost a waiter more with every round. It is above 1 so that one lost message does not exclude a node.
const maxHanging = 4

// answers reports whether a node answers well enough to be asked for a lock.
func (q *Quorum) answers(w wish) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hanging[w] < maxHanging
}

// noteHanging adds n to the number of unanswered votes.
func (q *Quorum) noteHanging(w wish, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hanging[w] += n
	if q.hanging[w] == 0 {
		delete(q.hanging, w)
	}
}

// giveBack releases what a node granted or may have granted. Until that is done, the node may name this attempt as the holder.
func (q *Quorum) giveBack(v vote) {
	if v.a.IsOwed() {
		token := v.a.Token()
		q.returning.Store(token, nil)
		v.a.WhenSettled(func() { q.returning.Delete(token) })
	}
	v.a.Abandon()
}

// isReturning reports whether the grant with this token is being given back.
func (q *Quorum) isReturning(token string) bool {
	_, is := q.returning.Load(token)
	return is
}
