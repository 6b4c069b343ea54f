package resp

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Reply is the reply to a command: nil, a string, an int64, or a slice or a map of these; other types are of no use to locks. Err is a
// driver.ReplyError if the server sent one.
type Reply struct {
	Value any
	Err   error
}

// Text returns the reply to a script, which is a string, or to a command, which may be a number.
func (r Reply) Text() (string, error) {
	switch value := r.Value.(type) {
	case string:
		return value, r.Err
	case int64:
		return strconv.FormatInt(value, 10), r.Err
	}
	if r.Err != nil {
		return "", r.Err
	}
	return "", fmt.Errorf("a reply is of type %T, not text", r.Value)
}

// numbers returns the count numbers that a reply consists of. They are 0 if there is an error.
func (r Reply) numbers(count int) ([]int64, error) {
	all := make([]int64, count)
	items, is := r.Value.([]any)
	if !is {
		items = []any{r.Value}
	}
	if r.Err != nil {
		return all, r.Err
	}
	if len(items) != count {
		return all, fmt.Errorf("a reply has %d numbers, not %d", len(items), count)
	}
	for i, item := range items {
		n, err := strconv.ParseInt(fmt.Sprint(item), 10, 64)
		if err != nil {
			return make([]int64, count), fmt.Errorf("a reply has %T where a number belongs", item)
		}
		all[i] = n
	}
	return all, nil
}

// Fields returns the fields of a reply's value, or of a part of it, that consists of names and values.
func Fields(value any) map[string]string {
	fields := map[string]string{}
	switch all := value.(type) {
	case map[string]any: // RESP3
		for name, value := range all {
			fields[name] = fmt.Sprint(value)
		}
	case map[any]any: // RESP3 in go-redis
		for name, value := range all {
			fields[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any: // RESP2
		for i := 0; i+1 < len(all); i += 2 {
			fields[fmt.Sprint(all[i])] = fmt.Sprint(all[i+1])
		}
	}
	return fields
}

// Info returns what the replies to HELLO and to TIME say of a server.
func Info(hello, now Reply) (driver.ServerInfo, error) {
	fields := Fields(hello.Value)
	n, err := now.numbers(2)
	if hello.Err != nil {
		err = hello.Err
	}
	if err != nil {
		return driver.ServerInfo{}, err
	}
	return driver.ServerInfo{
		Server:  fields["server"],
		Version: fields["version"],
		Cluster: fields["mode"] == "cluster",
		Time:    time.UnixMicro(n[0]*1e6 + n[1]),
	}, nil
}

// ErrReplica is the error of a connection to a replica, on which no call is sent. A sentinel that has missed a failover, or a client with
// an old map of the Cluster, still takes the former master for the master, and a replica accepts subscriptions on which nothing arrives.
var ErrReplica error = replicaError{}

type replicaError struct{}

func (replicaError) Error() string { return "the server is a replica, no longer the master" }

func (replicaError) Is(target error) bool { return target == driver.ErrNotSent }

// CheckMaster returns an error if a reply to HELLO, which every user may send, comes from a replica.
func CheckMaster(hello Reply) error {
	if hello.Err == nil && Fields(hello.Value)["role"] == "replica" {
		return ErrReplica
	}
	return hello.Err
}

// Is reports whether err is an error that a server sent, with one of these codes, or with any if none is given.
func Is(err error, codes ...string) bool {
	if err == nil { // errors.As below makes reply escape, which allocates
		return false
	}
	var reply driver.ReplyError
	begins := func(code string) bool { return strings.HasPrefix(string(reply), code) }
	return errors.As(err, &reply) && (len(codes) == 0 || slices.ContainsFunc(codes, begins))
}
