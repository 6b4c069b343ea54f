package pipe

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// packet is a group of calls that share commands and are answered together.
type packet struct {
	calls   []*Call
	end     int // line.wrote once all of the packet is written
	replies int // still to come
	read    func(l *line, r replies, calls []*Call)
}

// compose turns the queue into the bytes to write next.
func (l *line) compose() {
	// mutants: answered-kept
	if l.head > len(l.flight)/2 { // drop answered packets, which a line that is never idle would keep
		l.flight, l.head = slices.Delete(l.flight, 0, l.head), 0
	}
	b := l.buffer
	for i, c := range l.queue {
		switch {
		// mutants: left-unsent
		case c.left || c.sent:
		case c.Kind == Command:
			c.sent = true
			b = appendCommand(b, c.Words)
			l.flight = append(l.flight, packet{c.alone(), l.wrote + len(b), 1, readCommand})
		case c.Kind == Delete:
			c.sent = true
			b = appendValue(appendWords(appendArray(b, 3), "DELIFEQ", c.Lock), c)
			l.flight = append(l.flight, packet{c.alone(), l.wrote + len(b), 1, readDeleted})
		case c.Kind == Release:
			b = l.composeReleases(b, l.gather(i))
		default:
			b = l.composeAcquires(b, l.gather(i))
		}
	}
	clear(l.queue)
	l.queue = l.queue[:0]
	l.out, l.buffer = b, l.spent.kept(b)
}

// maxShared bounds how many calls share commands, and so how long the server does nothing else.
const maxShared = 128

// gather returns the queued call at that index, and later ones that share its commands.
func (l *line) gather(at int) []*Call {
	first := l.queue[at]
	first.sent = true
	calls, ahead := first.alone(), l.queue[at+1:]
	// mutants: sharers-ahead
	if l.pipe.InCluster { // most calls belong to other groups, and searching all of them for each call would take too long
		ahead = ahead[:min(len(ahead), maxShared)]
	}
	for _, c := range ahead {
		if len(calls) == maxShared {
			break
		}
		// mutants: shared-commands
		if c.Kind == first.Kind && c.Fences == first.Fences && !c.left && !c.sent {
			c.sent = true
			calls = append(calls, c)
		}
	}
	return calls
}

func (l *line) composeReleases(b []byte, calls []*Call) []byte {
	b = appendArray(b, 3+2*len(calls))
	if l.knows {
		b = appendWords(b, "EVALSHA", script.BatchRelease().SHA1)
	} else {
		b = appendWords(b, "EVAL", script.BatchRelease().Source)
	}
	b = appendNumber(b, int64(len(calls)))
	for _, c := range calls {
		b = appendWord(b, c.Lock)
	}
	for _, c := range calls {
		b = appendWord(b, c.Head)
	}
	l.flight = append(l.flight, packet{calls, l.wrote + len(b), 1, readReleased})
	return b
}

func (l *line) composeAcquires(b []byte, calls []*Call) []byte {
	b = append(b, "*1\r\n$5\r\nMULTI\r\n"...)
	sent := clock.Now()
	now := l.clock.at(sent)
	for _, c := range calls {
		c.Sent, c.Granted, c.Expiry, c.Others = sent, now/1000, (now+c.TTL.Microseconds())/1000, len(calls)-1
		// mutants: set-words
		b = append(b, "*6\r\n$3\r\nSET\r\n"...)
		// mutants: set-nx
		b = append(appendValue(appendWord(b, c.Lock), c), "$2\r\nNX\r\n$4\r\nPXAT\r\n"...)
		// mutants: set-expiry
		b = appendNumber(b, c.Expiry)
	}
	// mutants: vote-counter
	if calls[0].Kind == Vote {
		b = append(appendWord(append(b, "*9\r\n$4\r\nXADD\r\n"...), calls[0].Fences), noCounter...)
	} else {
		b = appendWord(append(b, "*8\r\n$4\r\nXADD\r\n"...), calls[0].Fences)
	}
	b = append(b, l.pipe.trim()...)
	// mutants: queues-asked
	b = appendWord(appendArray(b, 1+len(calls)), "EXISTS")
	for _, c := range calls {
		// mutants: queue-asked
		b = appendWord(b, c.Queue)
	}
	if calls[0].Kind == Vote {
		b = appendWords(appendArray(b, 3), "MGET", calls[0].CaughtUp, calls[0].Mark)
		b = append(b, "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"...)
	}
	b = append(b, "*1\r\n$4\r\nTIME\r\n*1\r\n$4\r\nEXEC\r\n"...)
	l.flight = append(l.flight, packet{calls, l.wrote + len(b), commandsOf(calls) + 2, readAcquired})
	return b
}

// commandsOf returns how many commands the transaction of these calls has between MULTI and EXEC.
func commandsOf(calls []*Call) int {
	if calls[0].Kind == Vote {
		return len(calls) + 5
	}
	return len(calls) + 3
}

// In a Cluster, which has many counters, a counter keeps no entry. Otherwise it keeps one, so that scripts can read its id.
const (
	trimToOne  = "$6\r\nMAXLEN\r\n$1\r\n~\r\n$1\r\n1\r\n$1\r\n*\r\n$1\r\ng\r\n$0\r\n\r\n"
	trimToNone = "$6\r\nMAXLEN\r\n$1\r\n~\r\n$1\r\n0\r\n$1\r\n*\r\n$1\r\ng\r\n$0\r\n\r\n"
)

// noCounter keeps XADD from creating a counter: a missing counter shows that a node has lost it.
const noCounter = "$10\r\nNOMKSTREAM\r\n"

func (p *Pipe) trim() string {
	if p.InCluster {
		return trimToNone
	}
	return trimToOne
}

// appendValue adds the value of a new lock, which has no fence yet.
func appendValue(b []byte, c *Call) []byte {
	var digits [20]byte
	granted := strconv.AppendInt(digits[:0], c.Granted, 10)
	const begin, end = "0:", ":0:"
	b = append(strconv.AppendInt(append(b, '$'), int64(len(c.Head)+len(begin)+len(granted)+len(end)+len(c.Info)), 10), "\r\n"...)
	b = append(append(append(b, c.Head...), begin...), granted...)
	return append(append(append(b, end...), c.Info...), "\r\n"...)
}

func appendCommand(b []byte, words []string) []byte {
	return appendWords(appendArray(b, len(words)), words...)
}

func appendArray(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, '*'), int64(n), 10), "\r\n"...)
}

func appendWords(b []byte, words ...string) []byte {
	for _, word := range words {
		b = appendWord(b, word)
	}
	return b
}

func appendWord(b []byte, word string) []byte {
	b = append(strconv.AppendInt(append(b, '$'), int64(len(word)), 10), "\r\n"...)
	return append(append(b, word...), "\r\n"...)
}

func appendNumber(b []byte, n int64) []byte {
	var digits [20]byte
	return appendWord(b, string(strconv.AppendInt(digits[:0], n, 10)))
}

func readCommand(_ *line, r replies, calls []*Call) {
	switch kind, text := r.next(); kind {
	case '-':
		calls[0].err = driver.ReplyError(text)
	case '*', 0:
		calls[0].err = errForm
	default:
		calls[0].Text = string(text)
	}
}

func readDeleted(_ *line, r replies, calls []*Call) {
	kind, text := r.next()
	// mutants: deleted-answer
	calls[0].Done, calls[0].err = string(text) == "1", unless(kind == ':', kind, text)
}

// unless returns nil if a reply fits, or its error.
func unless(fits bool, kind byte, text []byte) error {
	switch {
	case fits:
		return nil
	case kind == '-':
		return driver.ReplyError(text)
	}
	return errForm
}

// readReleased reads "freed", followed by the numbers of the locks, from 1, that were not freed.
func readReleased(l *line, r replies, calls []*Call) {
	kind, text := r.next()
	left, fits := bytes.CutPrefix(text, []byte("freed"))
	err := unless(kind == '$' && fits, kind, text)
	l.knows = kind != '-' // after NOSCRIPT, or any other error, the source is sent next time
	for _, c := range calls {
		c.Done, c.err = err == nil, err
	}
	for _, field := range bytes.Fields(left) {
		if i, err := strconv.Atoi(string(field)); err == nil && 0 < i && i <= len(calls) {
			// mutants: left-answer
			calls[i-1].Done = false
		}
	}
}

func readAcquired(l *line, r replies, calls []*Call) {
	commands, isVote := commandsOf(calls), calls[0].Kind == Vote
	multi, refused := r.next()
	begun := multi == '+'     // without MULTI, each command was carried out by itself
	for i := range commands { // each reply is QUEUED or an error; the first error counts
		kind, text := r.skip()
		// mutants: set-alone
		if i < len(calls) {
			calls[i].Done = string(text) == "OK"
		}
		if kind == '-' && multi == '+' {
			multi, refused = kind, text
		}
	}
	kind, text := r.next()
	if kind != '*' || string(text) != strconv.Itoa(commands) {
		// A server without EXEC would queue all that it is sent.
		// mutants: no-exec
		l.queues = begun && (kind == '+' || bytes.HasPrefix(text, []byte("ERR unknown command")))
		executed := multi == '-' && kind == '*'
		if multi == '-' {
			kind, text = multi, refused
		}
		for _, c := range calls {
			// A server that goes on without the refused command may have set the locks.
			// mutants: transaction-in-part
			c.Done, c.err = c.Done || executed, unless(false, kind, text)
		}
		return
	}
	for _, c := range calls {
		kind, text := r.skip()
		// mutants: set-answer
		c.Done, c.err = kind == '+', unless(kind == '+' || kind == 0, kind, text)
	}
	idKind, idText := r.skip()
	id, fits := parseID(idText)
	counted := !isVote || idKind != 0
	err := unless(idKind == '$' && fits || !counted, idKind, idText)
	existKind, existText := r.skip()
	queues, wrong := strconv.Atoi(string(existText))
	if err == nil {
		err = unless(existKind == ':' && wrong == nil, existKind, existText)
	}
	var node standing
	if isVote {
		node = r.standing()
	}
	now := r.time()
	if err == nil && now == 0 {
		err = errForm
	}
	heard := clock.Now()
	if now != 0 {
		l.clock.heard(calls[0].Sent, heard, now)
	}
	// mutants: vote-counts
	counts := isVote && counted && node.counts(now, calls[0].Quarantine)
	for _, c := range calls {
		c.Fence, c.Queues, c.Counts, c.Now, c.Heard = id, queues, counts, now, heard
		if c.err == nil {
			c.err = err
		}
	}
}

// parseID parses the id of a stream's entry.
func parseID(text []byte) (ID, bool) {
	ms, seq, _ := bytes.Cut(text, []byte("-"))
	m, err1 := strconv.ParseUint(string(ms), 10, 63)
	s, err2 := strconv.ParseUint(string(seq), 10, 63)
	return ID{m, s}, err1 == nil && err2 == nil
}
