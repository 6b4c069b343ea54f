package fence

import (
	"errors"
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

// errHeader says that the headers of a stamp are incomplete or invalid.
var errHeader = errors.New("holdfast: invalid fence in the request's header")

// readStamp reads the stamp from a request's header. If the request has none of the headers, the error is ErrNoLease.
func readStamp(h http.Header) (Stamp, error) {
	if len(h.Values(HeaderFence))+len(h.Values(HeaderLock))+len(h.Values(HeaderOwner))+len(h.Values(HeaderShared)) == 0 {
		return Stamp{}, ErrNoLease
	}
	s, err := parseStamp(h)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return Stamp{}, fmt.Errorf("%w: %w", errHeader, err)
	}
	return s, nil
}

func parseStamp(h http.Header) (s Stamp, err error) {
	fail := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	single := func(key string) string {
		values := h.Values(key)
		if len(values) != 1 {
			fail("%s appears %d times, not once", key, len(values))
			return ""
		}
		return values[0]
	}
	name := func(key string, limit int) string {
		text, invalid := url.PathUnescape(single(key))
		switch {
		case invalid != nil:
			fail("%s is not percent-encoded", key)
		case text == "" || len(text) > limit:
			fail("%s has %d bytes, not 1 to %d", key, len(text), limit)
		case !utf8.ValidString(text):
			fail("%s is not UTF-8", key)
		}
		return text
	}
	fence, invalid := parseFence(single(HeaderFence))
	if invalid != nil {
		fail("%s: %w", HeaderFence, invalid)
	}
	s = Stamp{Lock: name(HeaderLock, maxLock), Fence: fence, Owner: name(HeaderOwner, maxOwner), Shared: len(h.Values(HeaderShared)) > 0}
	if strings.ContainsFunc(s.Lock, unicode.IsControl) {
		fail("%s contains control characters", HeaderLock)
	}
	if s.Shared {
		if shared := single(HeaderShared); shared != isShared {
			fail("%s is %.32q, not %q", HeaderShared, shared, isShared)
		}
	}
	return s, err
}
