package worker

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
)

var pid = os.Getpid()

// resource is a connection to the guarded resource. A request is an Access; the answer is the same with OK and,
// for a read, Value.
type resource struct {
	socket string
	conn   net.Conn
	in     *bufio.Reader
}

func (r *resource) access(x *Access) error {
	if r.conn == nil {
		conn, err := net.Dial("unix", r.socket)
		if err != nil {
			return err
		}
		r.conn, r.in = conn, bufio.NewReader(conn)
	}
	request, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if _, err := r.conn.Write(append(request, '\n')); err != nil {
		return err
	}
	line, err := r.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, x)
}

func (r *resource) close() {
	if r.conn != nil {
		r.conn.Close()
	}
}
