package codec

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// reader reads the fields of a reply from left to right. After one that is not as it must be, the reply is malformed,
// and what is read does not matter.
type reader struct {
	rest string
	bad  bool
}

// begin reads the beginning of a reply.
func begin(text string) (Head, reader, error) {
	r, err := wire.ParseReply(text)
	return Head{Word(r.Word), r.Now}, reader{rest: r.Rest()}, err
}

// field reads what is left up to the next space.
func (r *reader) field() (field string) {
	field, r.rest, _ = strings.Cut(r.rest, " ")
	return field
}

// number reads a number that is at least that.
func (r *reader) number(least int64) int64 {
	n, err := strconv.ParseInt(r.field(), 10, 64)
	if err != nil || n < least {
		r.bad = true
		return 0
	}
	return n
}

// count reads a number of something, which is at least that. More than an int32 has is as many as that.
func (r *reader) count(least int64) int { return int(min(r.number(least), math.MaxInt32)) }

// fence reads a fence, which is at least that.
func (r *reader) fence(least int64) uint64 { return uint64(r.number(least)) }

// ttl reads ms that are left, or a negative number.
func (r *reader) ttl() time.Duration { return duration(r.number(math.MinInt64)) }

// is reads a field that is one of two words, and reports whether it is the first.
func (r *reader) is(word, other string) bool {
	field := r.field()
	r.bad = r.bad || field != word && field != other
	return field == word
}

// text reads a field, which is not empty.
func (r *reader) text() string {
	field := r.field()
	r.bad = r.bad || field == ""
	return field
}

// all reads what is left, which may be anything.
func (r *reader) all() string {
	rest := r.rest
	r.rest = ""
	return rest
}

// left reads the rest of a reply to a batch of n: the numbers of the items that it leaves, from 0 and ascending.
func (r *reader) left(n int) []int {
	var all []int
	for last := int64(0); r.rest != "" && !r.bad; {
		i := r.number(last + 1)
		r.bad = r.bad || i > int64(n)
		all = append(all, int(i-1))
		last = i
	}
	if r.bad {
		return nil
	}
	return all
}

// holder reads what is left of a lock, who waits for it, and its value.
func (r *reader) holder() Holder {
	h := Holder{TTL: r.ttl(), Waiters: r.count(0)}
	h.Value, h.Ours = wire.ParseValue(r.all())
	return h
}

// refusal reads why nothing is granted, of a reply with that word; it is malformed if that is another.
func (r *reader) refusal(word Word) (refused Refusal) {
	switch word {
	case Quarantined:
		refused.Quarantine = r.ttl()
	case Behind:
		refused.Stands = r.text()
	default:
		r.bad = true
	}
	return refused
}

// finish returns the reply, all of which was read, or says that it is malformed.
func finish[R any](r *reader, reply R) (R, error) {
	if r.bad || r.rest != "" {
		var none R
		return none, wire.ErrMalformed
	}
	return reply, nil
}

// parseWord reads a reply that is one of those words.
func parseWord(text string, of ...Word) (Head, error) {
	head, r, err := begin(text)
	if err != nil {
		return Head{}, err
	}
	r.bad = !slices.Contains(of, head.Word)
	return finish(&r, head)
}
