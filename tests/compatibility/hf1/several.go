package hf1

import "strconv"

func number64(n int64) string { return strconv.FormatInt(n, 10) }

// TakeAll takes the locks of all attempts, or none.
func TakeAll(attempts ...*Attempt) Reply {
	first := attempts[0]
	c := first.Lock.c
	c.tb.Helper()
	var keys []string
	args := []any{first.Token, first.TTL, c.notAfter(), c.Info.String()}
	for i, a := range attempts {
		keys = append(keys, a.Lock.keys...)
		if i > 0 {
			args = append(args, a.Token)
		}
	}
	r := first.Lock.send("multi_acquire", c.marked(keys), "", args...)
	if r.Word == "granted" {
		fences := r.Ints("FENCES")
		if len(fences) != len(attempts) {
			c.tb.Fatalf("%d locks are granted with the fences %d", len(attempts), fences)
		}
		for i, a := range attempts {
			a.Fence, a.granted = fences[i], r.Now
		}
	}
	return r
}

// TakeBatch takes all free locks of the attempts, and returns the numbers of the others, from 1.
func TakeBatch(attempts ...*Attempt) (left []int64) {
	c := attempts[0].Lock.c
	c.tb.Helper()
	keys := append(locksAndQueues(attempts), attempts[0].Lock.keys[2])
	return takeBatch("batch_acquire", keys, attempts)
}

func locksAndQueues(attempts []*Attempt) (keys []string) {
	for i := range 2 {
		for _, a := range attempts {
			keys = append(keys, a.Lock.keys[i])
		}
	}
	return keys
}

func takeBatch(script string, keys []string, attempts []*Attempt) []int64 {
	first := attempts[0]
	c := first.Lock.c
	c.tb.Helper()
	args := append([]any{c.notAfter()}, heads(attempts)...)
	r := first.Lock.send(script, keys, "", append(args, first.TTL, c.Info.String())...).Want("taken")
	left := r.Ints("LEFT")
	for i, a := range attempts {
		a.Fence, a.granted = r.Int("FENCE")+int64(i), r.Now
	}
	for _, i := range left {
		attempts[i-1].Fence = 0
	}
	return left
}

// heads are the beginnings of the values that the attempts' locks have, or are to have.
func heads(attempts []*Attempt) (heads []any) {
	for _, a := range attempts {
		heads = append(heads, "hf1:"+a.Token+":")
	}
	return heads
}

// RenewBatch renews the leases of the attempts, and returns the numbers of those that it did not, from 1.
func RenewBatch(attempts ...*Attempt) (left []int64) {
	first := attempts[0]
	first.Lock.c.tb.Helper()
	var keys []string
	var args []any
	for _, a := range attempts {
		keys = append(keys, a.Lock.Key())
		args = append(args, "hf1:"+a.Token+":"+number64(a.Fence)+":")
	}
	return first.Lock.send("batch_renew", keys, "", append(args, first.TTL)...).Want("kept").Ints("LEFT")
}

// ReleaseBatch gives up all locks of the attempts without waiters, and returns the numbers of the others, from 1.
func ReleaseBatch(attempts ...*Attempt) (left []int64) {
	c := attempts[0].Lock.c
	c.tb.Helper()
	var keys []string
	for _, a := range attempts {
		keys = append(keys, a.Lock.Key())
	}
	return c.send("batch_release", keys, heads(attempts)...).Want("freed").Ints("LEFT")
}
