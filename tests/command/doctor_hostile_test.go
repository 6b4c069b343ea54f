package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Whatever a server says, the report's texts can be printed, and its errors show no part of a password that
// they repeat.
func TestDoctorReportsWhatServersSayEscaped(t *testing.T) {
	t.Parallel()
	password := strings.Repeat(canary+"-", 16) // a server repeats its first 128 characters
	s := server.Start(t, server.One(t), server.Conf("requirepass", password))
	addr := accepting(t, "127.0.0.1", func(client net.Conn) {
		server, err := net.Dial("tcp", s.Addr())
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		}()
		for requests := bufio.NewReader(client); ; {
			raw, err := resp.ReadRequest(requests)
			switch {
			case err != nil:
				return
			case bytes.Contains(raw, []byte("\r\nconfig\r\n")):
				_, err = fmt.Fprintf(client, "-ERR unknown \x1b[31m\a\u202e command 'HELLO', with args beginning with: '3' 'AUTH' '%.128s'\r\n", password)
			default:
				_, err = server.Write(raw)
			}
			if err != nil {
				return
			}
		}
	})
	doctor(t, "redis://default:"+password+"@"+addr, func(d *diagnosis) {
		d.expect("busy-limit", isUnchecked, `CONFIG GET: ERR unknown \x1b[31m\a\u202e command`)
		for _, f := range d.Findings {
			if text := f.Saw + f.Consequence + f.Remedy; strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				d.complain("%s: it is shown as %q", f.ID, text)
			}
		}
	})
}

// Fault: A server announces a reply for which go-redis would allocate gigabytes. The command closes the connection.
func TestRepliesThatDoNotFitInMemory(t *testing.T) {
	t.Parallel()
	addr := accepting(t, "127.0.0.1", func(client net.Conn) {
		for requests := bufio.NewReader(client); ; {
			if _, err := resp.ReadRequest(requests); err != nil {
				return
			}
			// Few enough for a command that takes them.
			if _, err := io.WriteString(client, "*2000000\r\n"); err != nil {
				return
			}
		}
	})
	for _, args := range [][]string{{"doctor"}, {"run", "--wait=1s", "x", "--", "true"}, {"ls"}, {"ls", "--redis=redis+cluster://" + addr}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			code, _, stderr := invoke(t, []string{"HOLDFAST_REDIS=redis://" + addr}, args...)
			if code != 69 || !strings.Contains(stderr, "length exceeds the limit") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}
