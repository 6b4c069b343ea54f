package sentinel

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// mistake is the error of an address that is not a sentinel's, or of a name that is not a master's. Retrying is no use.
type mistake struct{ what, advice string }

func (m *mistake) Error() string { return m.what }

// Advice is the next step.
func (m *mistake) Advice() string { return m.advice }

// UnknownMaster returns the error of a sentinel that watches no master of this name. known are the names that it does know, or nil.
func UnknownMaster(name string, known []string) error {
	const most = 5 // named
	what := fmt.Sprintf("no master is called %q", name)
	advice := " (SENTINEL MASTERS lists the masters' names)"
	if len(known) > 0 {
		quoted := make([]string, min(len(known), most))
		for i, other := range slices.Sorted(slices.Values(known))[:len(quoted)] {
			quoted[i] = fmt.Sprintf("%q", other)
		}
		what += "; there is " + strings.Join(quoted, ", ")
		if len(known) > most {
			what += fmt.Sprintf(" and %d more", len(known)-most)
		}
		advice = " (correct the master's name)"
	}
	return &mistake{what, advice}
}

// Names returns the names in a reply to SENTINEL MASTERS.
func Names(masters []any) (names []string) {
	for _, master := range masters {
		if name := resp.Fields(master)["name"]; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// errServer is the error of the address of a server with data.
var errServer = &mistake{"a Redis server, not a sentinel", " (give the addresses of sentinels; by default their port is 26379)"}

// Refused returns the error for an address that answered SENTINEL, or AUTH before it, with err.
func Refused(err error) error {
	text := err.Error()
	if strings.HasPrefix(text, "ERR unknown command") {
		return errServer
	}
	for _, code := range []string{"NOAUTH", "WRONGPASS", "ERR AUTH"} {
		if strings.HasPrefix(text, code) {
			return denial{driver.ReplyError(text)}
		}
	}
	return err
}

// denial is the error of a sentinel that refused the credentials. The client library's error would look like the server's.
type denial struct{ driver.ReplyError }

func (d denial) Unwrap() error { return d.ReplyError }

// Advice is the next step.
func (denial) Advice() string {
	return " (check the user and password for sentinels, which are not those for the server)"
}

// ErrSentinel is the error of a sentinel that was taken for a server with data.
var ErrSentinel error = &mistake{
	"it is a sentinel, which has no locks",
	" (connect through it: redis+sentinel://...?master_name=NAME in a URL, or the adapter's constructor for Sentinel)",
}

// IsMistake reports whether err is that of UnknownMaster, or one that Refused found.
func IsMistake(err error) bool {
	var mistaken *mistake
	return errors.As(err, &mistaken)
}

// Mistakes returns the faults of the sentinels' addresses, or of the master's name, that their latest answers show; "" for none.
func (g *Group) Mistakes() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := faults{}
	for _, m := range g.members {
		if m.mistake != "" {
			found[m.mistake] = append(found[m.mistake], m.addr)
		}
	}
	return found.String()
}

// noMaster is the error of a round in which no sentinel named the master.
type noMaster struct {
	failed []reply
	silent bool // some sentinels did not answer
}

func (e *noMaster) Error() string {
	found := faults{}
	for _, r := range e.failed {
		found[r.err.Error()] = append(found[r.err.Error()], r.from.addr)
	}
	all := found.String()
	switch {
	case all == "":
		all = fmt.Sprintf("none answered within %s", Timeout)
	case e.silent:
		all += fmt.Sprintf("; others did not answer within %s", Timeout)
	}
	return "no sentinel named the master: " + all
}

// Unwrap returns the sentinels' errors. People are told the next step of the first, so those of servers' addresses come last.
func (e *noMaster) Unwrap() (all []error) {
	for _, r := range e.failed {
		at := 0
		if r.err == errServer {
			at = len(all)
		}
		all = slices.Insert(all, at, r.err)
	}
	return all
}

// IsHopeless reports whether err says that no sentinel named the master, and that waiting does not help, since each address or the
// master's name is a mistake.
func IsHopeless(err error) bool {
	var e *noMaster
	return errors.As(err, &e) && !e.silent && !slices.ContainsFunc(e.failed, func(r reply) bool { return !IsMistake(r.err) })
}

// faults has the addresses with which something is wrong, by what it is.
type faults map[string][]string

func (f faults) String() string {
	var all []string
	for what, addrs := range f {
		all = append(all, strings.Join(slices.Sorted(slices.Values(addrs)), ", ")+": "+what)
	}
	return strings.Join(slices.Sorted(slices.Values(all)), "; ") // they have answered in any order
}
