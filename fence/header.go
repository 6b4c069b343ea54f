package fence

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The headers of a fenced request. Names are percent-encoded, as in the path of a URL.
const (
	HeaderFence  = "Holdfast-Fence"  // the fence, in decimal
	HeaderLock   = "Holdfast-Lock"   // the lock's name
	HeaderOwner  = "Holdfast-Owner"  // the lease's owner
	HeaderBeside = "Holdfast-Beside" // "shared" for a reader's lease: others may hold the lock with the same fence; else absent
)

// The headers of a refusal: the mark that refused it.
const (
	HeaderMark      = "Holdfast-Mark"
	HeaderMarkOwner = "Holdfast-Mark-Owner"
)

// maxLock bounds lock names, as the library does.
const maxLock = 512

// write puts the stamp into a request's header, instead of any that is there.
func (s Stamp) write(h http.Header) {
	h.Set(HeaderFence, strconv.FormatUint(s.Fence, 10))
	h.Set(HeaderLock, url.PathEscape(s.Lock))
	h.Set(HeaderOwner, url.PathEscape(s.Owner))
	h.Del(HeaderBeside)
	if s.Shared {
		h.Set(HeaderBeside, s.beside())
	}
}

// readStamp reads the stamp of a request. found is false when there is none at all; one
// that is not complete, or cannot be, is an error.
func readStamp(h http.Header) (s Stamp, found bool, err error) {
	if len(h.Values(HeaderFence))+len(h.Values(HeaderLock))+len(h.Values(HeaderOwner))+len(h.Values(HeaderBeside)) == 0 {
		return Stamp{}, false, nil
	}
	fence, err := single(h, HeaderFence)
	if err != nil {
		return Stamp{}, true, err
	}
	if s.Fence, err = parseFence(fence); err != nil {
		return Stamp{}, true, fmt.Errorf("%s: %w", HeaderFence, err)
	}
	if s.Lock, err = name(h, HeaderLock, maxLock); err != nil {
		return Stamp{}, true, err
	}
	if strings.ContainsFunc(s.Lock, unicode.IsControl) {
		return Stamp{}, true, fmt.Errorf("%s has control characters", HeaderLock)
	}
	if s.Owner, err = name(h, HeaderOwner, maxOwner); err != nil {
		return Stamp{}, true, err
	}
	if len(h.Values(HeaderBeside)) > 0 {
		beside, err := single(h, HeaderBeside)
		if err == nil && beside != "shared" {
			err = fmt.Errorf("%s is %.32q; shared is possible", HeaderBeside, beside)
		}
		if err != nil {
			return Stamp{}, true, err
		}
		s.Shared = true
	}
	if err := s.check(); err != nil {
		return Stamp{}, true, err
	}
	return s, true, nil
}

// single returns the value of a header that is there once.
func single(h http.Header, key string) (string, error) {
	values := h.Values(key)
	if len(values) != 1 {
		return "", fmt.Errorf("%s is there %d times, not once", key, len(values))
	}
	return values[0], nil
}

// name returns the name in a header.
func name(h http.Header, key string, limit int) (string, error) {
	escaped, err := single(h, key)
	if err != nil {
		return "", err
	}
	text, err := url.PathUnescape(escaped)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s is not percent-encoded", key)
	case text == "" || len(text) > limit:
		return "", fmt.Errorf("%s has %d bytes; 1 to %d are allowed", key, len(text), limit)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%s is not UTF-8", key)
	}
	return text, nil
}
