package pipe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	minBuffer = 4 << 10
	maxBulk   = 64 << 20
	maxLine   = 64 << 10
)

var (
	errSurplus = errors.New("the server sent more than the replies")
	errForm    = errors.New("the server sent what is no reply")
	errLong    = errors.New("the server sent too long a reply")
)

// input buffers what was read and not yet taken.
type input struct {
	b    []byte
	from int // where the next reply to take begins
	seen int // the end of the replies seen so far
	used use // of b
	open int // how many elements of arrays are still to be seen in the reply at seen
}

// fill reads from a connection.
func (in *input) fill(conn io.Reader) (n int, err error) {
	if in.from == len(in.b) {
		in.b, in.from, in.seen = in.used.kept(in.b), 0, 0
	}
	if len(in.b) == cap(in.b) {
		if in.from > 0 {
			n := copy(in.b, in.b[in.from:])
			in.b, in.seen, in.from = in.b[:n], in.seen-in.from, 0
		}
		if len(in.b)*2 >= cap(in.b) {
			in.b = append(make([]byte, 0, max(minBuffer, 2*cap(in.b))), in.b...)
		}
	}
	n, err = conn.Read(in.b[len(in.b):cap(in.b)])
	in.b = in.b[:len(in.b)+n]
	return n, err
}

// take returns replies that have arrived in full, or false. missing is how many were not seen yet in an earlier call. The replies are valid
// until fill is called.
func (in *input) take(missing *int) (r replies, whole bool, err error) {
	for *missing > 0 {
		end := bytes.IndexByte(in.b[in.seen:], '\n')
		if end < 0 {
			if len(in.b)-in.seen > maxLine {
				return r, false, errLong
			}
			return r, false, nil
		}
		if end < 2 {
			return r, false, errForm
		}
		elements := 0
		line := in.b[in.seen : in.seen+end-1]
		next := in.seen + end + 1
		switch line[0] {
		case '+', '-', ':':
		case '$', '*':
			n, err := strconv.Atoi(string(line[1:]))
			switch {
			case err != nil || n < -1:
				return r, false, fmt.Errorf("%w: %.20q", errForm, line)
			case n > maxBulk:
				return r, false, errLong
			case line[0] == '$' && n >= 0:
				next += n + 2
				if len(in.b) < next {
					return r, false, nil
				}
			case line[0] == '*' && n > 0:
				elements = n
			}
		default:
			return r, false, fmt.Errorf("%w: %.20q", errForm, line)
		}
		in.seen = next
		in.open = max(in.open-1, 0) + elements
		if in.open == 0 {
			*missing--
		}
	}
	r = replies{in.b[in.from:in.seen]}
	in.from = in.seen
	return r, true, nil
}

// replies are whole replies, read in order.
type replies struct{ rest []byte }

// next returns the kind and the text of the next reply. The text of an array is the number of its elements, which follow. A null reply has
// the kind 0.
func (r *replies) next() (kind byte, text []byte) {
	if len(r.rest) == 0 {
		return 0, nil
	}
	end := bytes.IndexByte(r.rest, '\n')
	kind, text = r.rest[0], r.rest[1:end-1]
	r.rest = r.rest[end+1:]
	if kind == '$' || kind == '*' {
		if text[0] == '-' {
			return 0, nil
		}
		if kind == '$' {
			n, _ := strconv.Atoi(string(text))
			text, r.rest = r.rest[:n], r.rest[n+2:]
		}
	}
	return kind, text
}

// skip is next, but also skips the elements of an array.
func (r *replies) skip() (kind byte, text []byte) {
	kind, text = r.next()
	if kind == '*' {
		n, _ := strconv.Atoi(string(text))
		for range n {
			r.skip()
		}
	}
	return kind, text
}

// time reads the reply to TIME. It returns server time in µs, or 0 if the reply is no time.
func (r *replies) time() int64 {
	kind, text := r.next()
	if kind != '*' || string(text) != "2" {
		return 0
	}
	_, seconds := r.skip()
	_, rest := r.skip()
	s, err1 := strconv.ParseInt(string(seconds), 10, 64)
	us, err2 := strconv.ParseInt(string(rest), 10, 64)
	if err1 != nil || err2 != nil || s <= 0 || s > 1e11 || us < 0 {
		return 0
	}
	return s*1e6 + us
}
