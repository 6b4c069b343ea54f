package bounds

import "bytes"

// line collects a line that arrives in pieces. It keeps only the beginning.
type line struct {
	start  [32]byte
	length int
}

// take consumes the line's bytes from p and reports whether the line is complete.
func (l *line) take(p []byte) (rest []byte, complete bool) {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		l.add(p)
		return nil, false
	}
	l.add(p[:end])
	return p[end+1:], true
}

func (l *line) add(p []byte) {
	if l.length < len(l.start) {
		copy(l.start[l.length:], p)
	}
	l.length += len(p)
}

// text returns the line without its type byte and line end. A line longer than start is cut short.
func (l *line) text() []byte {
	return bytes.TrimSuffix(l.start[min(1, l.length):min(l.length, len(l.start))], []byte("\r"))
}
