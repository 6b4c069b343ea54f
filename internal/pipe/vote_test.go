package pipe

import (
	"strings"
	"testing"
	"time"
)

func TestWhichNodesCount(t *testing.T) {
	const now = 1_700_000_000_000_000
	zeros := strings.Repeat("0", 40)
	info := func(of, replicas, id, second string) string {
		return "# Replication\r\nrole:" + of + "\r\nconnected_slaves:" + replicas + "\r\nmaster_failover_state:no-failover\r\nmaster_replid:" + id +
			"\r\nmaster_replid2:" + second + "\r\nmaster_repl_offset:0\r\n"
	}
	usual := info("master", "0", "repl", zeros)
	for _, c := range []struct {
		what                 string
		caughtUp, mark, info string
		counts               bool
	}{
		{"a usual one", "run/repl", "hf2:run/repl:1699999999999999:60000", usual, true},
		{"one whose quarantine ends now", "run/repl", "hf2:run/repl:1700000000000000:90000", usual, true},
		{"one in quarantine", "run/repl", "hf2:run/repl:1700000000000001:60000", usual, false},
		{"one with a shorter quarantine", "run/repl", "hf2:run/repl:1699999999999999:59999", usual, false},
		{"one without marks", "", "", usual, false},
		{"one that is behind", "run/repl?1699999999999999", "hf2:run/repl:1699999999999999:60000", usual, false},
		{"one that is caught up for another incarnation", "old/repl", "hf2:run/repl:1699999999999999:60000", usual, false},
		{"one that is not caught up", "", "hf2:run/repl:1699999999999999:60000", usual, false},
		{"one with the mark of another protocol", "run/repl", "hf1:run/repl:1699999999999999:60000", usual, false},
		{"one with a mark that is cut", "run/repl", "hf2:run/repl:1699999999999999", usual, false},
		{"one with a mark without numbers", "run/repl", "hf2:run/repl:x:y", usual, false},
		{"one with a mark without a replication id", "run", "hf2:run:1699999999999999:60000", info("master", "0", "", zeros), false},
		{"one that has restarted", "run/repl", "hf2:run/repl:1699999999999999:60000", info("master", "0", "other", zeros), false},
		{"one whose id begins with the mark's", "run/repl", "hf2:run/repl:1699999999999999:60000", info("master", "0", "replid", zeros), false},
		{"one that was promoted", "run/repl", "hf2:run/repl:1699999999999999:60000", info("master", "0", "repl", zeros[1:]+"1"), false},
		{"a replica", "run/repl", "hf2:run/repl:1699999999999999:60000", info("slave", "0", "repl", zeros), false},
		{"one with a replica", "run/repl", "hf2:run/repl:1699999999999999:60000", info("master", "1", "repl", zeros), false},
		{"one with ten replicas", "run/repl", "hf2:run/repl:1699999999999999:60000", info("master", "10", "repl", zeros), false},
		{"one that tells nothing", "run/repl", "hf2:run/repl:1699999999999999:60000", "", false},
	} {
		if counts := (standing{[]byte(c.caughtUp), []byte(c.mark), []byte(c.info)}).counts(now, time.Minute); counts != c.counts {
			t.Errorf("%s counts: %t", c.what, counts)
		}
	}
}
