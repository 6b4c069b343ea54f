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

// The headers of a fenced request. Locks and owners are percent-encoded, as in the path of a URL.
const (
	HeaderFence  = "Holdfast-Fence"  // the fence, in decimal
	HeaderLock   = "Holdfast-Lock"   // the lock's name
	HeaderOwner  = "Holdfast-Owner"  // the lease's owner
	HeaderShared = "Holdfast-Shared" // "true" if others may hold the lock with the same fence, as readers do; otherwise absent
)

// The headers of a refusal, which have the mark.
const (
	HeaderMark      = "Holdfast-Mark"
	HeaderMarkOwner = "Holdfast-Mark-Owner"
)

// isShared is the value of HeaderShared.
const isShared = "true"

// maxLock bounds lock names, as the library does.
const maxLock = 512

// write sets the headers of the stamp, replacing those of any other.
func (s Stamp) write(h http.Header) {
	h.Set(HeaderFence, strconv.FormatUint(s.Fence, 10))
	h.Set(HeaderLock, url.PathEscape(s.Lock))
	h.Set(HeaderOwner, url.PathEscape(s.Owner))
	h.Del(HeaderShared)
	if s.Shared {
		h.Set(HeaderShared, isShared)
	}
}

// readStamp reads the stamp from a request's header. found is false if the request has none of the headers. A stamp that
// is incomplete or invalid is an error.
func readStamp(h http.Header) (s Stamp, found bool, err error) {
	if len(h.Values(HeaderFence))+len(h.Values(HeaderLock))+len(h.Values(HeaderOwner))+len(h.Values(HeaderShared)) == 0 {
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
		return Stamp{}, true, fmt.Errorf("%s contains control characters", HeaderLock)
	}
	if s.Owner, err = name(h, HeaderOwner, maxOwner); err != nil {
		return Stamp{}, true, err
	}
	if len(h.Values(HeaderShared)) > 0 {
		shared, err := single(h, HeaderShared)
		if err == nil && shared != isShared {
			err = fmt.Errorf("%s is %.32q, not %q", HeaderShared, shared, isShared)
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

// single returns the value of a header that must appear once.
func single(h http.Header, key string) (string, error) {
	values := h.Values(key)
	if len(values) != 1 {
		return "", fmt.Errorf("%s appears %d times, not once", key, len(values))
	}
	return values[0], nil
}

// name returns the percent-decoded value of a header that must appear once.
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
		return "", fmt.Errorf("%s has %d bytes, not 1 to %d", key, len(text), limit)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%s is not UTF-8", key)
	}
	return text, nil
}
