package bounds

import (
	"bytes"
	"strconv"
)

// requests parses what a client sends: arrays of strings.
type requests struct {
	line     line
	skip     int64 // bytes left of the current string, including its line end
	first    bool  // the next string is the command's name
	name     []byte
	nameLeft int64 // bytes left of the name
}

func (r *requests) scan(c *bounded, p []byte) {
	for len(p) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(p)))
			if r.nameLeft > 0 {
				m := min(r.nameLeft, n)
				r.name = append(r.name, p[:m]...)
				r.nameLeft -= m
				switch {
				case r.nameLeft > 0:
				case bytes.HasSuffix(bytes.ToLower(r.name), []byte("subscribe")):
					c.subscribed.Store(true) // answered in other ways than with one reply
				default:
					c.awaited.Add(1)
				}
			}
			p, r.skip = p[n:], r.skip-n
			continue
		}
		rest, complete := r.line.take(p)
		p = rest
		if !complete {
			return
		}
		n, _ := strconv.ParseInt(string(r.line.text()), 10, 64)
		switch r.line.start[0] {
		case '*':
			r.first = true
		case '$':
			r.skip = n + 2
			if r.first {
				r.first, r.name, r.nameLeft = false, r.name[:0], min(n, 16)
			}
		}
		r.line = line{}
	}
}
