package bounds

import (
	"errors"
	"strconv"
)

// replies parses what a server sends.
type replies struct {
	line  line
	skip  int64   // bytes left of the current string, including its line end
	open  []array // arrays that are not complete, outermost first
	total int64   // elements left, in all open arrays together
}

type array struct {
	kind byte
	left int64 // elements not yet complete
}

var (
	errSurplus = errors.New("reply to no request")
	errDeep    = errors.New("arrays nested too deeply")
	errLong    = errors.New("length exceeds the limit")
	errKey     = errors.New("map key is an aggregate")
	errForm    = errors.New("malformed reply")
)

func (r *replies) scan(c *bounded, p []byte) error {
	for len(p) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(p)))
			p, r.skip = p[n:], r.skip-n
			if r.skip == 0 {
				r.complete()
			}
			continue
		}
		if r.line.length == 0 {
			if err := r.begin(c, p[0]); err != nil {
				return err
			}
		}
		rest, complete := r.line.take(p)
		if r.line.length > maxLine {
			return errLong
		}
		if !complete {
			return nil
		}
		p = rest
		if err := r.header(); err != nil {
			return err
		}
		r.line = line{}
	}
	return nil
}

// begin checks the first byte of a reply or of an element.
func (r *replies) begin(c *bounded, kind byte) error {
	aggregate := false
	switch kind {
	case '*', '~', '>', '%', '|':
		aggregate = true
	case '+', '-', ':', '_', ',', '#', '(', '$', '!', '=':
	default:
		return errForm
	}
	if len(r.open) > 0 {
		outer := r.open[len(r.open)-1]
		if aggregate && (outer.kind == '%' || outer.kind == '|') && outer.left%2 == 0 {
			return errKey
		}
		return nil
	}
	if kind == '>' || kind == '|' || c.awaited.Add(-1) >= 0 {
		return nil
	}
	if (kind == '*' || kind == '-') && c.subscribed.Load() { // about a subscription
		c.awaited.Add(1)
		return nil
	}
	return errSurplus
}

// header handles a complete line, which begins an array or a string, or is a whole element.
func (r *replies) header() error {
	kind := r.line.start[0]
	switch kind {
	case '$', '!', '=', '*', '~', '>', '%', '|':
	default: // a whole element
		r.complete()
		return nil
	}
	n, err := strconv.ParseInt(string(r.line.text()), 10, 64)
	switch {
	case err != nil || n < -1:
		return errForm
	case n == -1:
		r.complete()
		return nil
	}
	switch kind {
	case '$', '!', '=':
		if n > maxBulk {
			return errLong
		}
		r.skip = n + 2
		return nil
	case '%', '|':
		if n > maxElements {
			return errLong
		}
		n *= 2
	}
	switch {
	case r.total+n > maxElements:
		return errLong
	case len(r.open) >= maxDepth:
		return errDeep
	}
	r.open = append(r.open, array{kind, n})
	r.total += n
	if n == 0 {
		r.open = r.open[:len(r.open)-1]
		if kind != '|' { // attributes precede the element that they describe and are none themselves
			r.complete()
		}
	}
	return nil
}

// complete counts an element as received, and with it every array that it completes.
func (r *replies) complete() {
	for len(r.open) > 0 {
		inner := &r.open[len(r.open)-1]
		inner.left--
		r.total--
		if inner.left > 0 {
			return
		}
		kind := inner.kind
		r.open = r.open[:len(r.open)-1]
		if kind == '|' {
			return
		}
	}
}
