package pipe

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// packet is a group of calls that share commands and are answered together.
type packet struct {
	calls    []*Call
	end      int // line.wrote once all of the packet is written
	commands int // of the transaction, between MULTI and EXEC
	replies  int // still to come
}

// serverClock estimates a server's clock from replies on one connection. After a failover, the new server's clock counts.
type serverClock struct {
	read   clock.Instant
	server int64 // server time at read, µs
}

// at returns the server's time at t, in µs.
func (c *serverClock) at(t clock.Instant) int64 { return c.server + t.Sub(c.read).Microseconds() }

// compose turns the queue into the bytes to write next.
func (l *line) compose() {
	// mutants: answered-kept
	if l.head > len(l.flight)/2 { // drop answered packets, which a line that is never idle would keep
		l.flight, l.head = slices.Delete(l.flight, 0, l.head), 0
	}
	b := l.buffer
	for i, c := range l.queue {
		// mutants: left-unsent
		if c.left || c.sent {
			continue
		}
		p := packet{calls: l.gather(i), replies: 1}
		switch c.Kind {
		case Command:
			b = appendWords(b, len(c.Words), c.Words...)
		case Delete:
			b = appendValue(appendWords(b, 3, "DELIFEQ", c.Lock), c)
		case Release:
			b = l.composeReleases(b, p.calls)
		default:
			p.commands = len(p.calls) + 3
			if c.Kind == Vote {
				p.commands += 2
			}
			p.replies = p.commands + 2
			b = l.composeAcquires(b, p.calls)
		}
		p.end = l.wrote + len(b)
		l.flight = append(l.flight, p)
	}
	clear(l.queue)
	l.queue = l.queue[:0]
	l.out, l.buffer = b, l.spent.kept(b)
}

// maxShared bounds how many calls share commands, and so how long the server does nothing else.
const maxShared = 128

// gather returns the queued call at that index, and later ones that share its commands. They count as sent.
func (l *line) gather(at int) []*Call {
	first := l.queue[at]
	first.sent = true
	calls, ahead := first.self[:], l.queue[at+1:]
	if first.Kind == Command || first.Kind == Delete {
		return calls
	}
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
	command, source := "EVAL", script.BatchRelease().Source
	if l.knows {
		command, source = "EVALSHA", script.BatchRelease().SHA1
	}
	b = appendNumber(appendWords(b, 3+2*len(calls), command, source), int64(len(calls)))
	for _, c := range calls {
		b = appendWord(b, c.Lock)
	}
	for _, c := range calls {
		b = appendWord(b, c.Head)
	}
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
	if calls[0].Kind == Vote { // NOMKSTREAM keeps XADD from creating a counter: a missing one shows that a node has lost it
		b = append(appendWord(append(b, "*9\r\n$4\r\nXADD\r\n"...), calls[0].Fences), "$10\r\nNOMKSTREAM\r\n"...)
	} else {
		b = appendWord(append(b, "*8\r\n$4\r\nXADD\r\n"...), calls[0].Fences)
	}
	entries := byte('1') // so that scripts can read its id
	if l.pipe.InCluster {
		entries = '0' // there are many counters
	}
	b = append(append(append(b, "$6\r\nMAXLEN\r\n$1\r\n~\r\n$1\r\n"...), entries), "\r\n$1\r\n*\r\n$1\r\ng\r\n$0\r\n\r\n"...)
	// mutants: queues-asked
	b = appendWords(b, 1+len(calls), "EXISTS")
	for _, c := range calls {
		// mutants: queue-asked
		b = appendWord(b, c.Queue)
	}
	if calls[0].Kind == Vote {
		b = appendWords(b, 3, "MGET", calls[0].CaughtUp, calls[0].Mark)
		b = append(b, "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"...)
	}
	return append(b, "*1\r\n$4\r\nTIME\r\n*1\r\n$4\r\nEXEC\r\n"...)
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

// appendWords begins an array of n elements, of which words are the first.
func appendWords(b []byte, n int, words ...string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(n), 10), "\r\n"...)
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

// readOne reads the reply to a Command or a Delete.
func readOne(r replies, c *Call) {
	kind, text := r.next()
	if kind == '-' || kind == '*' || kind == 0 || c.Kind == Delete && kind != ':' {
		c.err = errorOf(kind, text)
		return
	}
	c.Text = string(text)
	// mutants: deleted-answer
	c.Done = string(text) == "1"
}

// errorOf returns the error of a reply that does not fit.
func errorOf(kind byte, text []byte) error {
	if kind == '-' {
		return driver.ReplyError(text)
	}
	return errForm
}

// readReleased reads "freed", followed by the numbers of the locks, from 1, that were not freed.
func (l *line) readReleased(r replies, calls []*Call) {
	kind, text := r.next()
	left, fits := bytes.CutPrefix(text, []byte("freed"))
	l.knows = kind != '-' // after NOSCRIPT, or any other error, the source is sent next time
	for _, c := range calls {
		if c.Done = kind == '$' && fits; !c.Done {
			c.err = errorOf(kind, text)
		}
	}
	for _, field := range bytes.Fields(left) {
		if i, err := strconv.Atoi(string(field)); err == nil && 0 < i && i <= len(calls) {
			// mutants: left-answer
			calls[i-1].Done = false
		}
	}
}

func (l *line) readAcquired(r replies, p *packet) {
	calls, isVote := p.calls, p.calls[0].Kind == Vote
	multi, refused := r.next()
	begun := multi == '+'       // without MULTI, each command was carried out by itself
	for i := range p.commands { // each reply is QUEUED or an error; the first error counts
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
	if kind != '*' || string(text) != strconv.Itoa(p.commands) {
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
			c.Done, c.err = c.Done || executed, errorOf(kind, text)
		}
		return
	}
	for _, c := range calls {
		kind, text := r.skip()
		// mutants: set-answer
		if c.Done = kind == '+'; kind != '+' && kind != 0 {
			c.err = errorOf(kind, text)
		}
	}
	var err error
	kind, text = r.skip() // the id of the stream's entry
	counted := !isVote || kind != 0
	ms, seq, _ := bytes.Cut(text, []byte("-"))
	m, err1 := strconv.ParseUint(string(ms), 10, 63)
	s, err2 := strconv.ParseUint(string(seq), 10, 63)
	if counted && (kind != '$' || err1 != nil || err2 != nil) {
		err = errorOf(kind, text)
	}
	kind, text = r.skip()
	queues, wrong := strconv.Atoi(string(text))
	if err == nil && (kind != ':' || wrong != nil) {
		err = errorOf(kind, text)
	}
	var node standing
	if isVote {
		node = r.standing()
	}
	now := r.time()
	if err == nil && now == 0 {
		err = errForm
	}
	sent, heard := calls[0].Sent, clock.Now()
	if now != 0 { // the server has read its clock between sent and heard
		// mutants: pipe-clock
		l.clock = serverClock{heard, min(max(l.clock.at(heard), now), now+heard.Sub(sent).Microseconds())}
	}
	// mutants: vote-counts
	counts := isVote && counted && node.counts(now, calls[0].Quarantine)
	for _, c := range calls {
		c.Fence, c.Queues, c.Counts, c.Now, c.Heard = ID{m, s}, queues, counts, now, heard
		c.Left = time.Duration(c.Expiry*1000-now) * time.Microsecond
		if c.err == nil {
			c.err = err
		}
	}
}
