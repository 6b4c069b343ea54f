package pipe

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// standing is what a node of a quorum says about itself: its two marks, and the section "replication" of INFO.
type standing struct{ caughtUp, mark, info []byte }

func (r *replies) standing() standing {
	var s standing
	if kind, text := r.next(); kind == '*' && string(text) == "2" {
		_, s.caughtUp = r.skip()
		_, s.mark = r.skip()
	}
	_, s.info = r.skip()
	return s
}

var (
	// lonelyMaster and noSecondID describe a master that has no replicas and no second replication id. Any other has a longer quarantine,
	// which a script judges.
	lonelyMaster = []byte("# Replication\r\nrole:master\r\nconnected_slaves:0\r\n")
	noSecondID   = "\r\nmaster_replid2:" + strings.Repeat("0", 40) + "\r\n"
)

// counts reports whether node.lua and incarnation.lua would let the node vote at server time now, in µs: its mark names its present
// incarnation, it has caught up in that incarnation, and its quarantine, which lasts at least that long, is over. Its run_id need not be
// read, since a master gets a new replication id at each restart.
func (s standing) counts(now int64, quarantine time.Duration) bool {
	mark := bytes.Split(s.mark, []byte(":"))
	if len(mark) != 4 || string(mark[0]) != "hf2" {
		return false
	}
	_, replication, _ := bytes.Cut(mark[1], []byte("/"))
	ready, err1 := strconv.ParseInt(string(mark[2]), 10, 64)
	longest, err2 := strconv.ParseInt(string(mark[3]), 10, 64)
	switch {
	// mutants: vote-marks
	case err1 != nil, err2 != nil, len(replication) == 0, !bytes.Equal(s.caughtUp, mark[1]):
		return false
	// mutants: vote-quarantine
	case ready > now, longest < quarantine.Milliseconds():
		return false
	}
	// mutants: vote-master
	return bytes.HasPrefix(s.info, lonelyMaster) &&
		// mutants: vote-incarnation
		bytes.Contains(s.info, []byte("\nmaster_replid:"+string(replication)+noSecondID))
}
