package simulation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// wired is a driver that gives connections away, on which another request leaves than the one that was written.
type wired struct {
	drivertest.Driver
	edit  func(request []byte) []byte
	later time.Duration // if not zero, what edit has changed is sent once more then, on a connection of its own
}

func (d *wired) Connects() driver.Driver { return d }
func (d *wired) Ready() error            { return d.Driver.(driver.Connector).Ready() }
func (d *wired) Failed(err error)        { d.Driver.(driver.Connector).Failed(err) }

func (d *wired) Connect(ctx context.Context, node string) (driver.Connection, error) {
	conn, err := d.Driver.(driver.Connector).Connect(ctx, node)
	if conn.Conn != nil {
		conn.Conn = edited{conn.Conn, d, node}
	}
	return conn, err
}

type edited struct {
	net.Conn
	by   *wired
	node string
}

// Write writes all or nothing, as the connections of a simulation do.
func (c edited) Write(b []byte) (int, error) {
	other := c.by.edit(bytes.Clone(b))
	if c.by.later > 0 && !bytes.Equal(b, other) {
		time.AfterFunc(c.by.later, func() { c.by.again(c.node, other) })
	}
	if _, err := c.Conn.Write(other); err != nil {
		return 0, err
	}
	return len(b), nil
}

// again sends a copy of a request.
func (d *wired) again(node string, request []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := d.Driver.(driver.Connector).Connect(ctx, node)
	if conn.Free != nil {
		defer conn.Free()
	}
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write(request)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// onTheWay replaces texts in what is sent natively: old, new, old, new, ...
func onTheWay(texts ...string) func(drivertest.Driver) drivertest.Driver {
	edit := func(b []byte) []byte {
		if !bytes.Contains(b, []byte("\r\nPXAT\r\n")) {
			return b
		}
		for i := 0; i < len(texts); i += 2 {
			b = bytes.ReplaceAll(b, []byte(texts[i]), []byte(texts[i+1]))
		}
		return b
	}
	return func(d drivertest.Driver) drivertest.Driver { return &wired{d, edit, 0} }
}

var (
	expiry  = regexp.MustCompile(`:0:(\d{12,13}):0:[^\r]*\r\n\$2\r\nNX\r\n\$4\r\nPXAT\r\n\$\d+\r\n(\d+)\r\n`)
	native  = regexp.MustCompile(`\$3\r\nSET\r\n\$\d+\r\n[^\r]*\r\n\$\d+\r\nhf2:([^:]{22}):0:`)
	deletes = regexp.MustCompile(`\*3\r\n\$7\r\nDELIFEQ\r\n`)
)

// sooner has the server let a lock that is set expire after half its time.
func sooner(d drivertest.Driver) drivertest.Driver {
	return &wired{d, func(b []byte) []byte {
		for _, at := range expiry.FindAllSubmatchIndex(b, -1) {
			granted, _ := strconv.ParseInt(string(b[at[2]:at[3]]), 10, 64)
			expires, _ := strconv.ParseInt(string(b[at[4]:at[5]]), 10, 64)
			copy(b[at[4]:at[5]], strconv.FormatInt(granted+(expires-granted)/2, 10))
		}
		return b
	}, 0}
}

// unended has each release by script of a token that was set release another token, which nobody has.
func unended(d drivertest.Driver) drivertest.Driver {
	var mu sync.Mutex
	set := map[string]bool{}
	release := "EVALSHA\r\n$40\r\n" + script.Release().SHA1
	return &wired{d, func(b []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range native.FindAllSubmatch(b, -1) {
			set[string(m[1])] = true
		}
		if bytes.Contains(b, []byte(release)) {
			for token := range set {
				b = bytes.ReplaceAll(b, []byte("$22\r\n"+token+"\r\n"), []byte("$22\r\n"+strings.Repeat("0", 22)+"\r\n"))
			}
		}
		return b
	}, 0}
}

// deletesBy has the server carry out a script in place of DELIFEQ.
func deletesBy(source string, later time.Duration) func(drivertest.Driver) drivertest.Driver {
	eval := fmt.Sprintf("*5\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n1\r\n", len(source), source)
	return func(d drivertest.Driver) drivertest.Driver {
		return &wired{d, func(b []byte) []byte { return deletes.ReplaceAllLiteral(b, []byte(eval)) }, later}
	}
}

// scriptOnTheWay replaces something in a script that is sent natively.
func scriptOnTheWay(s driver.Script, old, new string, later time.Duration) func(drivertest.Driver) drivertest.Driver {
	source := strings.ReplaceAll(s.Source, old, new)
	eval := fmt.Sprintf("$4\r\nEVAL\r\n$%d\r\n%s\r\n", len(source), source)
	return func(d drivertest.Driver) drivertest.Driver {
		return &wired{d, func(b []byte) []byte {
			b = bytes.ReplaceAll(b, fmt.Appendf(nil, "$4\r\nEVAL\r\n$%d\r\n%s\r\n", len(s.Source), s.Source), []byte(eval))
			return bytes.ReplaceAll(b, []byte("$7\r\nEVALSHA\r\n$40\r\n"+s.SHA1+"\r\n"), []byte(eval))
		}, later}
	}
}
