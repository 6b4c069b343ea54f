package report

import "slices"

// Check is something that is examined. Its ID does not change between versions.
type Check struct {
	ID, About string
	// Vital says that a server is not known to be safe for locks without this check. What the other checks look at
	// shows in vital ones, or is good to know.
	Vital bool
}

// The checks.
var (
	Version      = Check{"version", "is the server's version known, and supported", true}
	Trial        = Check{"trial", "acquire, renew, release and hand over a lock on a throwaway name", true}
	Replication  = Check{"replication", "is it a master; can a failover lose locks; min-replicas-to-write", true}
	Topology     = Check{"topology", "are all slots served (Cluster); do sentinels have a quorum (Sentinel)", true}
	Failover     = Check{"failover", "does the TTL outlast a failover (Sentinel, Cluster)", false}
	Identity     = Check{"identity", "do all connections lead to the same server", true}
	Quorum       = Check{"quorum", "several servers: how many, separate, admitted, not in quarantine", true}
	Eviction     = Check{"eviction", "can the server delete locks when its memory is full", true}
	Memory       = Check{"memory", "is it nearly full", false}
	Persistence  = Check{"persistence", "what does a restart forget; do saves fail", true}
	Clock        = Check{"clock", "does its clock jump, run at another rate, differ between servers", true}
	PubSub       = Check{"pubsub", "does a notification arrive; does the server know its subscribers", true}
	ACL          = Check{"acl", "may this user send all commands that locks need", false}
	Latency      = Check{"latency", "PING, and acquire and release, compared with the TTL", false}
	BusyLimit    = Check{"busy-limit", "when is a script that hangs reported as BUSY", false}
	Connections  = Check{"connections", "is maxclients near", false}
	PubSubBuffer = Check{"pubsub-buffer", "are slow subscribers disconnected early", false}
	Transport    = Check{"transport", "is the connection encrypted, and the server's certificate verified", false}
	Password     = Check{"password", "can anybody use the server without a password", false}
	Native       = Check{"native", "commands that compare: DELEX, DELIFEQ, SET IFEQ", false}
)

// Checks lists all checks, in the order in which findings of the same severity are reported.
var Checks = []Check{
	Version, Trial, Replication, Topology, Failover, Identity, Quorum, Eviction, Memory, Persistence, Clock, PubSub, ACL, Latency,
	BusyLimit, Connections, PubSubBuffer, Transport, Password, Native,
}

func checkOf(id string) (c Check, order int) {
	order = slices.IndexFunc(Checks, func(c Check) bool { return c.ID == id })
	return Checks[order], order
}

// OK returns a finding that everything is as it should be.
func (c Check) OK(saw string) Finding { return Finding{ID: c.ID, Severity: OK, Saw: saw} }

// Note returns a finding that is good to know.
func (c Check) Note(saw, consequence, remedy string) Finding {
	return Finding{ID: c.ID, Severity: Note, Saw: saw, Consequence: consequence, Remedy: remedy}
}

// Warning returns a finding that a fault can break what locks promise.
func (c Check) Warning(saw, consequence, remedy string) Finding {
	return Finding{ID: c.ID, Severity: Warning, Saw: saw, Consequence: consequence, Remedy: remedy}
}

// Problem returns a finding that locks do not work, or do not hold.
func (c Check) Problem(saw, consequence, remedy string) Finding {
	return Finding{ID: c.ID, Severity: Problem, Saw: saw, Consequence: consequence, Remedy: remedy}
}

// Unchecked returns a finding that the check was impossible, because a command failed.
func (c Check) Unchecked(command string, err error) Finding {
	return Finding{ID: c.ID, Severity: Unchecked, Saw: Because(command, err)}
}
