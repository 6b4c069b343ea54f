package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

// Append appends a command as it is sent.
func Append(b []byte, words ...string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(words))
	for _, word := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(word), word)
	}
	return b
}

// Limits on what a server sends. What a subscription or a test gets is far below them.
const (
	maxLine  = 1 << 20
	maxBulk  = 64 << 20
	maxDepth = 32
	maxItems = 1 << 20 // in all arrays of a reply together
)

// ErrProtocol is wrapped by the errors of a server that violates the protocol or exceeds a limit.
var ErrProtocol = errors.New("server violated the protocol")

var errMalformed = fmt.Errorf("%w: it sent what is no reply", ErrProtocol)

// Read reads a reply in version 2 of the protocol: a string, an int64, nil, a driver.ReplyError, or a []any of these.
func Read(in *bufio.Reader) (any, error) {
	left := int64(maxItems)
	return read(in, maxDepth, &left)
}

func read(in *bufio.Reader, depth int, left *int64) (any, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	switch line[0] {
	case '+':
		return line[1:], nil
	case '-':
		return driver.ReplyError(line[1:]), nil
	}
	n, err := strconv.ParseInt(line[1:], 10, 64)
	switch {
	case err != nil:
		return nil, errMalformed
	case line[0] == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case line[0] == '$' && n <= maxBulk:
		body := make([]byte, n+2)
		_, err := io.ReadFull(in, body)
		return string(body[:n]), err
	case line[0] == '*' && depth > 0 && n <= *left:
		*left -= n
		items := []any{}
		for range n {
			item, err := read(in, depth-1, left)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	}
	return nil, errMalformed
}

// readLine returns the next line, which is not empty, without its end.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil && len(line) > 2 && line[len(line)-2] == '\r':
			return string(line[:len(line)-2]), nil
		case err == nil, len(line) > maxLine:
			return "", errMalformed
		case err != bufio.ErrBufferFull:
			return "", err
		}
	}
}
