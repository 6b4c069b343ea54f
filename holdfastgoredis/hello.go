package holdfastgoredis

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/redis/go-redis/v9"
)

// checkMaster returns an error if a reply to HELLO, which every user may send, comes from a replica. A sentinel that has
// missed a failover, or a client with an old map of the Cluster, still takes the former master for the master, and a
// replica accepts subscriptions on which nothing arrives.
func checkMaster(hello *redis.Cmd) error {
	reply, err := hello.Result()
	if err == nil && fields(reply)["role"] == "replica" {
		return replicaError{}
	}
	return err
}

// replicaError is the error of a connection to a replica. No call was sent on it.
type replicaError struct{}

func (replicaError) Error() string { return "the server is a replica, no longer the master" }

func (replicaError) Is(target error) bool { return target == driver.ErrNotSent }

// fields returns the fields of a reply that consists of names and values.
func fields(reply any) map[string]string {
	all := map[string]string{}
	switch reply := reply.(type) {
	case map[any]any: // RESP3
		for k, v := range reply {
			all[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any: // RESP2
		for i := 0; i+1 < len(reply); i += 2 {
			all[fmt.Sprint(reply[i])] = fmt.Sprint(reply[i+1])
		}
	}
	return all
}
