package campaign

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/tests/resp"
	"github.com/holdfast-go/holdfast/tests/server"
)

// queueLog follows the queues of a history's locks as the server's scripts change them,
// in the order in which they do, and finds grants that passed somebody who was queued.
// Locks without such queues show nothing here.
type queueLog struct {
	conn *resp.Conn
	done chan struct{}

	mu     sync.Mutex
	whole  bool // the log has no end yet
	lines  map[string]*queueLine
	passed []string // what is wrong: somebody was
	fell   []string // the same: fences did
	steps  int
}

// queueLine is the queue of one lock.
type queueLine struct {
	name    string
	entries map[string]entry // by member
	first   map[place]int    // when a place was first taken
	left    map[string]int   // the order of tokens that left the queue
	holds   map[string]bool  // by token, where several may hold the lock
	fence   uint64           // the highest that was granted there
}

func newQueueLine(name string) *queueLine {
	return &queueLine{name: name, entries: map[string]entry{}, first: map[place]int{}, left: map[string]int{}, holds: map[string]bool{}}
}

type entry struct {
	token string
	order int
}

// place is what a process keeps when it has to queue again.
type place struct {
	process int
	score   string
}

func followQueues(s *server.Server, p *Plan) *queueLog {
	q := &queueLog{done: make(chan struct{}), lines: map[string]*queueLine{}}
	for _, n := range p.Names {
		line := newQueueLine(n.Name)
		q.lines[n.Key], q.lines[n.Queue] = line, line
	}
	conn, err := resp.Dial(s.Addr(), 5*time.Minute)
	if err == nil {
		_, err = conn.Do("MONITOR")
	}
	if err != nil {
		close(q.done)
		return q
	}
	q.conn, q.whole = conn, true
	go q.read()
	return q
}

func (q *queueLog) read() {
	defer close(q.done)
	for {
		line, err := q.conn.Receive()
		q.mu.Lock()
		if err != nil {
			q.whole = false
			q.mu.Unlock()
			return
		}
		if text, ok := line.(string); ok {
			q.step(text)
		}
		q.mu.Unlock()
	}
}

// end returns the violations; whole says that the log was complete.
func (q *queueLog) end(s *server.Server) (passed, fell []string, whole bool) {
	if q.conn == nil {
		return nil, nil, false
	}
	// What the server did before this is in the log when the log shows this.
	mark := fmt.Sprintf("end of log %p", q)
	if _, err := s.Do("ECHO", mark); err == nil {
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && !q.seen(mark); time.Sleep(time.Millisecond) {
		}
	}
	q.mu.Lock()
	passed, fell, whole = q.passed, q.fell, q.whole && q.lines[mark] != nil
	q.mu.Unlock()
	q.conn.Close()
	<-q.done
	return passed, fell, whole
}

func (q *queueLog) seen(mark string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[mark] != nil || !q.whole
}

// step takes in a line of MONITOR: 1700000000.123456 [0 lua] "ZADD" "key" ...
func (q *queueLog) step(text string) {
	_, words, ok := strings.Cut(text, "] ")
	if !ok {
		return
	}
	q.steps++
	switch command, _, _ := strings.Cut(words, " "); strings.ToUpper(command) {
	case `"ZADD"`, `"ZREM"`, `"SET"`, `"DEL"`, `"HSET"`, `"HDEL"`:
	case `"ECHO"`:
		if args := unquote(words); len(args) == 2 {
			q.lines[args[1]] = &queueLine{}
		}
		return
	default:
		return
	}
	args := unquote(words)
	if len(args) < 2 {
		return
	}
	line := q.lines[args[1]]
	if line == nil {
		return
	}
	switch command := strings.ToUpper(args[0]); {
	case command == "ZADD" && len(args) == 4:
		line.enter(args[3], args[2], q.steps)
	case command == "ZREM" && len(args) == 3:
		line.leave(args[2])
	case command == "SET" && len(args) > 2:
		if token, ours := tokenOf(args[2]); ours {
			q.passed = append(q.passed, line.granted(token)...)
		}
	case command == "HSET":
		// A hold that is written again is not granted again.
		for i := 2; i+1 < len(args); i += 2 {
			token := args[i]
			fence, ok := fenceOf(args[i+1])
			if !ok || line.holds[token] {
				continue
			}
			// Readers that are there at the same time share a fence.
			if fence < line.fence || fence == line.fence && len(line.holds) == 0 {
				q.fell = append(q.fell, fmt.Sprintf("lock %q: %.6s was granted fence %d after fence %d", line.name, token, fence, line.fence))
			}
			line.holds[token], line.fence = true, max(fence, line.fence)
			q.passed = append(q.passed, line.granted(token)...)
		}
	case command == "HDEL":
		for _, token := range args[2:] {
			delete(line.holds, token)
		}
	case command == "DEL":
		clear(line.holds)
	}
}

// fenceOf reads the fence of a hold of a lock that several may have, EXPIRY:WEIGHT:FENCE:...
func fenceOf(value string) (fence uint64, ok bool) {
	part := strings.SplitN(value, ":", 4)
	if len(part) != 4 {
		return 0, false
	}
	fence, err := strconv.ParseUint(part[2], 10, 64)
	return fence, err == nil
}

func (l *queueLine) enter(member, score string, step int) {
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
	if l.first[at] == 0 {
		l.first[at] = step
	}
	l.entries[member] = entry{token, l.first[at]}
}

func (l *queueLine) leave(member string) {
	if e, ok := l.entries[member]; ok {
		l.left[e.token] = e.order
		delete(l.entries, member)
	}
}

// granted looks whom a grant passes. A token that was never queued is last.
func (l *queueLine) granted(token string) (passed []string) {
	order, queued := l.left[token]
	for _, e := range l.entries {
		if e.token != token && (!queued || e.order < order) {
			passed = append(passed, fmt.Sprintf("lock %q: granted to %.6s (queued %t, step %d) past %.6s, queued at step %d", l.name, token, queued, order, e.token, e.order))
		}
	}
	return passed
}

func tokenOf(value string) (token string, ours bool) {
	rest, ours := strings.CutPrefix(value, "hf1:")
	token, _, _ = strings.Cut(rest, ":")
	return token, ours
}

// unquote splits what MONITOR shows of a command.
func unquote(words string) (args []string) {
	for words != "" {
		quoted, err := strconv.QuotedPrefix(words)
		if err != nil {
			return args
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return args
		}
		args = append(args, arg)
		words = strings.TrimPrefix(words[len(quoted):], " ")
	}
	return args
}
