package campaign

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// findings are what is wrong with the grants.
type findings struct {
	passed []string // grants that overtook somebody in the queue
	fell   []string // grants whose fence was not above the previous one
	whole  bool     // the server has shown everything; if not, more may be wrong
}

// queueLog judges grants by what the server shows of its queues, not by what clients saw: whether grants overtook somebody in the
// queue, and whether fences rose. It follows the queues as the server's scripts change them, in order, and sees nothing of locks
// without such queues.
type queueLog struct {
	server *server.Server
	conn   *resp.Conn
	done   chan struct{}

	mu    sync.Mutex
	lines map[string]*line
	found findings
	steps int
	adopt bool // the script under way is adopt.lua, by which the lock of a ticket goes past the queue
}

// line is the queue of one lock.
type line struct {
	name    string
	owned   bool               // an owner that has the lock is admitted again past its waiters
	entries map[string]entry   // by member
	first   map[place]int      // when each place was first taken
	left    map[string]int     // the order in which tokens left the queue
	holds   map[string]bool    // by token, if several may hold the lock
	holder  string             // the token of a mutex in Redisson's form, which is written again to mark it
	fence   uint64             // the highest that was granted
	past    map[string][]entry // who was queued when a token's SET came, which does not see that and may have done nothing
}

type entry struct {
	token string
	order int
}

// place is what a process keeps if it has to queue again.
type place struct {
	process int
	score   string
}

// followOn begins to follow locks on a server.
func followOn(s *server.Server, locks []Name) *queueLog {
	l := follow(locks)
	l.server, l.done = s, make(chan struct{})
	conn, err := resp.Dial(s.Addr(), 5*time.Minute)
	if err == nil {
		_, err = conn.Do("MONITOR")
	}
	if err != nil {
		close(l.done)
		return l
	}
	l.conn, l.found.whole = conn, true
	go l.read()
	return l
}

func follow(locks []Name) *queueLog {
	l := &queueLog{lines: map[string]*line{}}
	for _, of := range locks {
		q := &line{name: of.Name, owned: strings.HasSuffix(of.Queue, ":own"), entries: map[string]entry{}, first: map[place]int{}, left: map[string]int{}, holds: map[string]bool{}, past: map[string][]entry{}}
		l.lines[of.Key], l.lines[of.Queue] = q, q
	}
	return l
}

func (l *queueLog) read() {
	defer close(l.done)
	for {
		reply, err := l.conn.Receive()
		l.mu.Lock()
		if err != nil {
			l.found.whole = false
			l.mu.Unlock()
			return
		}
		if text, ok := reply.(string); ok {
			l.step(text)
		}
		l.mu.Unlock()
	}
}

// end stops following, and returns what is wrong.
func (l *queueLog) end() findings {
	if l.conn == nil {
		return findings{}
	}
	// When this mark appears in the log, everything that the server did earlier has appeared.
	mark := fmt.Sprintf("end of log %p", l)
	if _, err := l.server.Do("ECHO", mark); err == nil {
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && !l.seen(mark); time.Sleep(time.Millisecond) {
		}
	}
	l.mu.Lock()
	found := l.found
	found.whole = found.whole && l.lines[mark] != nil
	l.mu.Unlock()
	l.conn.Close()
	<-l.done
	return found
}

func (l *queueLog) seen(mark string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[mark] != nil || !l.found.whole
}

// step processes a line of MONITOR: 1700000000.123456 [0 lua] "ZADD" "key" ...
func (l *queueLog) step(text string) {
	_, words, ok := strings.Cut(text, "] ")
	if !ok {
		return
	}
	l.steps++
	if command, rest, _ := strings.Cut(words, " "); strings.HasPrefix(strings.ToUpper(command), `"EVAL`) {
		l.adopt = strings.HasPrefix(rest, `"`+script.Adopt().SHA1) || strings.Contains(rest[:min(len(rest), len(script.Adopt().Source))], "'adopted '")
		if slices.ContainsFunc(ofHolders, func(s script.Script) bool { return strings.HasPrefix(rest, `"`+s.SHA1) }) {
			l.hold(unquote(words))
		}
		return
	}
	switch command, _, _ := strings.Cut(words, " "); strings.ToUpper(command) {
	case `"ZADD"`, `"ZREM"`, `"SET"`, `"DEL"`, `"HSET"`, `"HDEL"`:
	case `"DELIFEQ"`:
		l.hold(unquote(words))
		return
	case `"ECHO"`:
		if args := unquote(words); len(args) == 2 {
			l.lines[args[1]] = &line{}
		}
		return
	default:
		return
	}
	args := unquote(words)
	if len(args) < 2 {
		return
	}
	q := l.lines[args[1]]
	if q == nil {
		return
	}
	switch command := strings.ToUpper(args[0]); {
	case command == "ZADD" && len(args) == 4:
		q.enter(args[3], args[2], l.steps)
	case command == "ZADD" && len(args) == 5 && args[2] == "NX":
		if _, known := q.entries[args[4]]; !known {
			q.enter(args[4], args[3], l.steps)
		}
	case command == "ZREM":
		for _, member := range args[2:] {
			q.leave(member)
		}
	case command == "SET" && len(args) > 2:
		switch token, ours := tokenOf(args[2]); {
		case ours && len(args) > 3 && args[3] == "KEEPTTL": // a renewal writes the fence
		case ours && len(args) > 3 && args[3] == "NX":
			for _, e := range q.entries {
				q.past[token] = append(q.past[token], e)
			}
		case ours:
			if !l.adopt {
				l.found.passed = append(l.found.passed, q.granted(token)...)
			}
		}
	case command == "HSET":
		// A hold that is written again is not granted again.
		for i := 2; i+1 < len(args); i += 2 {
			token := args[i]
			if holder, ours := tokenOf(args[i+1]); token == "holdfast" && ours {
				if holder != q.holder {
					q.holder = holder
					l.found.passed = append(l.found.passed, q.granted(holder)...)
				}
				continue
			}
			fence, ok := fenceOf(args[i+1])
			if !ok || q.holds[token] {
				continue
			}
			// Readers that hold the lock at the same time share a fence.
			if fence < q.fence || fence == q.fence && len(q.holds) == 0 {
				l.found.fell = append(l.found.fell, fmt.Sprintf("lock %q: %.6s was granted fence %d after fence %d", q.name, token, fence, q.fence))
			}
			again := len(q.holds) > 0
			q.holds[token], q.fence = true, max(fence, q.fence)
			if passed := q.granted(token); !q.owned || !again {
				l.found.passed = append(l.found.passed, passed...)
			}
		}
	case command == "HDEL":
		for _, token := range args[2:] {
			delete(q.holds, token)
		}
	case command == "DEL":
		clear(q.holds)
		q.holder = ""
	}
}

// ofHolders are scripts that are sent only for tokens whose process believes that it has, or had, the lock. release.lua also ends a
// token whose SET was no grant.
var ofHolders = []script.Script{script.Renew(), script.BatchRenew(), script.BatchRelease()}

// hold processes a command of holders. If a SET was taken for a grant, those who were queued then, and still are, have been passed.
func (l *queueLog) hold(args []string) {
	for _, q := range l.lines {
		if len(q.past) == 0 {
			continue
		}
		for _, arg := range args {
			token, ours := tokenOf(arg)
			if !ours {
				token = arg
			}
			for _, e := range q.past[token] {
				for _, still := range q.entries {
					if still == e {
						l.found.passed = append(l.found.passed, fmt.Sprintf("lock %q: %.6s set it past %.6s, queued at step %d, and believes in it", q.name, token, e.token, e.order))
					}
				}
			}
			delete(q.past, token)
		}
	}
}

// fenceOf reads the fence of a hold in a lock that several may hold, EXPIRY:WEIGHT:FENCE:...
func fenceOf(value string) (fence uint64, ok bool) {
	part := strings.SplitN(value, ":", 4)
	if len(part) != 4 {
		return 0, false
	}
	if _, err := strconv.ParseUint(part[0], 10, 64); err != nil { // for instance a barrier's record of who broke it
		return 0, false
	}
	fence, err := strconv.ParseUint(part[2], 10, 64)
	return fence, err == nil
}

func (q *line) enter(member, score string, step int) {
	token, rest, ok := strings.Cut(member, "\n")
	if !ok {
		return // a tombstone
	}
	var info struct {
		Process int `json:"p"`
	}
	if i := strings.LastIndexByte(rest, '\n'); i >= 0 {
		_ = json.Unmarshal([]byte(rest[i+1:]), &info)
	}
	at := place{info.Process, score}
	if q.first[at] == 0 {
		q.first[at] = step
	}
	q.entries[member] = entry{token, q.first[at]}
}

func (q *line) leave(member string) {
	if e, ok := q.entries[member]; ok {
		q.left[e.token] = e.order
		delete(q.entries, member)
	}
}

// granted returns whom a grant overtook. A token that was never queued is last.
func (q *line) granted(token string) (passed []string) {
	order, queued := q.left[token]
	for _, e := range q.entries {
		if e.token != token && (!queued || e.order < order) {
			passed = append(passed, fmt.Sprintf("lock %q: granted to %.6s (queued %t, step %d) past %.6s, queued at step %d", q.name, token, queued, order, e.token, e.order))
		}
	}
	return passed
}

func tokenOf(value string) (token string, ours bool) {
	rest, ours := strings.CutPrefix(value, "hf2:")
	token, _, _ = strings.Cut(rest, ":")
	return token, ours
}

// unquote splits a command as MONITOR shows it. Valkey 8.1 does not escape quotes in an argument; the arguments
// behind it must still be found.
func unquote(words string) (args []string) {
	words, ok := strings.CutPrefix(words, `"`)
	if !ok {
		return nil
	}
	for _, quoted := range strings.Split(strings.TrimSuffix(words, `"`), `" "`) {
		quoted = quotes.ReplaceAllStringFunc(quoted, func(s string) string {
			if s == `"` {
				return `\"`
			}
			return s
		})
		arg, err := strconv.Unquote(`"` + quoted + `"`)
		if err != nil {
			return args
		}
		args = append(args, arg)
	}
	return args
}

// quotes matches escaped characters, and quotes that are not escaped.
var quotes = regexp.MustCompile(`\\.|"`)
