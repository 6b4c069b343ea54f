package holdfastgoredis

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/redis/go-redis/v9"
)

// mustBeMaster reads a reply to HELLO, which every user may send, and refuses a replica.
// A sentinel that has not heard of a failover yet, or a client that has not asked the
// Cluster, takes the old master for the master; and replicas accept subscriptions, on
// which a waiter would never be heard.
func mustBeMaster(hello *redis.Cmd) error {
	reply, err := hello.Result()
	if err == nil && fields(reply)["role"] == "replica" {
		return notMaster{}
	}
	return err
}

// notMaster is the error of a connection that led to a replica. Nothing was sent on it.
type notMaster struct{}

func (notMaster) Error() string { return "the server was the master, and is a replica by now" }

func (notMaster) Is(target error) bool { return target == driver.ErrNotSent }

// fields reads a reply of names and values.
func fields(reply any) map[string]string {
	field := map[string]string{}
	switch reply := reply.(type) {
	case map[any]any: // RESP3
		for k, v := range reply {
			field[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any: // RESP2
		for i := 0; i+1 < len(reply); i += 2 {
			field[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	return field
}
