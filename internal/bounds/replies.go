package bounds

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
)

// Limits on what a server sends. Replies to this library's requests stay far below them.
const (
	maxDepth    = 32       // nesting of arrays
	maxElements = 1 << 20  // elements of a reply, in all its arrays together
	maxBulk     = 64 << 20 // bytes of a bulk string
	maxLine     = 1 << 20  // bytes of an error or another one-line reply
)

var (
	errSurplus = violation("reply to no request")
	errDeep    = violation("arrays nested too deeply")
	errLong    = violation("length exceeds the limit")
	errKey     = violation("map key is an aggregate")
	errForm    = violation("malformed reply")
)

// violation returns an error that wraps two: go-redis replaces one that wraps a single error by that.
func violation(what string) error { return fmt.Errorf("%w: %w", ErrProtocol, errors.New(what)) }

// reply is a reply that is being read and checked.
type reply struct {
	in       *bufio.Reader
	awaited  *atomic.Int64
	text     []byte
	elements int64
}

// read reads a whole reply or element, and whatever has to come before it.
func (r *reply) read(depth int) error {
	begin := len(r.text)
	if err := r.line(); err != nil {
		return err
	}
	kind, rest := r.text[begin], bytes.TrimSpace(r.text[begin+1:])
	if depth == 0 && kind != '>' && kind != '|' && r.awaited.Add(-1) < 0 {
		return errSurplus
	}
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return nil
	case '$', '!', '=', '*', '~', '>', '%', '|':
	default:
		return errForm
	}
	n, err := strconv.ParseInt(string(rest), 10, 64)
	switch {
	case err != nil || n < -1:
		return errForm
	case n == -1:
		return nil
	case kind == '$' || kind == '!' || kind == '=':
		return r.bulk(n)
	case n > maxElements:
		return errLong
	case depth == maxDepth:
		return errDeep
	}
	pairs := kind == '%' || kind == '|'
	if pairs {
		n *= 2
	}
	if r.elements += n; r.elements > maxElements {
		return errLong
	}
	for i := range n {
		if pairs && i%2 == 0 {
			if next, err := r.in.Peek(1); err == nil && bytes.ContainsAny(next, "*~>%|") {
				return errKey
			}
		}
		if err := r.read(depth + 1); err != nil {
			return err
		}
	}
	if kind == '|' { // attributes precede the element that they describe
		return r.read(depth)
	}
	return nil
}

// line reads a line.
func (r *reply) line() error {
	for begin := len(r.text); ; {
		part, err := r.in.ReadSlice('\n')
		r.text = append(r.text, part...)
		switch {
		case len(r.text)-begin > maxLine:
			return errLong
		case err == nil:
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// bulk reads a string of n bytes and its end.
func (r *reply) bulk(n int64) error {
	if n > maxBulk {
		return errLong
	}
	text := bytes.NewBuffer(r.text)
	_, err := io.CopyN(text, r.in, n+2)
	r.text = text.Bytes()
	return err
}
