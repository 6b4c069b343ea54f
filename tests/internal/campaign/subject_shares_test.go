package campaign

import "testing"

// shares sets how much of its lock the latest hold is.
func (r *Record) shares(n int) *Record {
	r.Events[len(r.Events)-1].Share = n
	return r
}

func TestJudgeOfShares(t *testing.T) {
	readers := func(second uint64) *Record {
		return tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, second, 150, 210, 400).shares(1)
	}
	for name, c := range map[string]struct {
		subject Subject
		record  *Record
		want    []Rule
	}{
		"two readers":             {ReadWrite{}, readers(10), nil},
		"a writer after readers":  {ReadWrite{}, readers(10).holds(3, 20, 220, 410, 500), nil},
		"readers after a writer":  {ReadWrite{}, tell().holds(3, 5, 50, 60, 90).holds(1, 10, 100, 200, 300).shares(1).holds(2, 10, 150, 210, 400).shares(1), nil},
		"three permits of three":  {Permits{}, tell().holds(1, 10, 100, 200, 300).shares(2).holds(2, 11, 150, 210, 400).shares(1), nil},
		"permits one after other": {Permits{}, tell().holds(1, 10, 100, 200, 300).shares(2).holds(2, 11, 150, 310, 400).shares(2), nil},
		"a late permit":           {Permits{}, tell().holds(1, 11, 100, 200, 300).shares(1).holds(2, 10, 250, 310, 400).shares(1), nil},

		"a reader joins one that a server has brought back": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).shares(1).holds(3, 10, 410, 420, 500).shares(1), nil},
		"a late write before a reader joins one that a server has brought back": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).holds(3, 10, 330, 340, 500).shares(1).access(3, 10, read, 0, true, 350).access(2, 20, write, 7, true, 360), nil},

		"a write after a reader that has joined again what was deleted": {ReadWrite{}, tell("lock-deleted").holds(1, 10, 100, 200, 300).shares(1).access(1, 10, read, 0, true, 210).
			holds(2, 20, 310, 320, 400).access(2, 20, read, 0, true, 325).holds(1, 10, 330, 340, 500).shares(1).since(100).access(1, 10, read, 0, false, 345).access(2, 20, write, 7, true, 360), nil},
		"a write after an access of a reader that has joined what was deleted": {ReadWrite{}, tell("lock-deleted").holds(1, 10, 100, 200, 400).shares(1).
			holds(2, 20, 210, 220, 400).holds(1, 10, 230, 240, 400).shares(1).since(100).access(1, 10, read, 0, true, 250).access(2, 20, write, 7, true, 260), nil},

		"an owner's holds": {Owned{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 10, 150, 210, 400).shares(1).holds(3, 11, 250, 410, 500).shares(2), nil},
		"an owner's turns": {Owned{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 11, 250, 310, 400).shares(1), nil},

		"a reader joins one that is gone": {ReadWrite{}, tell("flushall").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).shares(1).holds(3, 10, 410, 420, 500).shares(1), []Rule{Fences}},
		"a stale write after a reader that joins what is gone": {ReadWrite{}, tell("lock-deleted").holds(1, 10, 100, 200, 300).shares(1).access(1, 10, read, 0, true, 210).
			holds(2, 20, 310, 320, 400).holds(1, 10, 330, 340, 500).shares(1).access(1, 10, read, 0, true, 345).access(2, 20, write, 7, true, 360), []Rule{Fences, StaleWrite}},
		"a reader's fence goes back after a restart": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).shares(1).holds(3, 15, 410, 420, 500).shares(1), []Rule{Fences}},
		"a late write before a reader comes anew after a restart": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).holds(3, 15, 330, 340, 500).shares(1).access(3, 15, read, 0, true, 350).access(2, 20, write, 7, true, 360), []Rule{Fences, StaleWrite}},
		"a writer's fence goes back after a restart": {ReadWrite{}, tell("older-restart").holds(1, 10, 100, 200, 300).shares(1).
			holds(2, 20, 310, 320, 400).holds(3, 15, 410, 420, 500), []Rule{Fences}},

		"two owners":                           {Owned{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 11, 150, 210, 400).shares(2), []Rule{Overlap, Sequential}},
		"two owners with one fence":            {Owned{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 10, 250, 310, 400).shares(2), []Rule{Fences, Sequential}},
		"an owner's fence goes back":           {Owned{}, tell().holds(1, 11, 100, 200, 300).shares(1).holds(2, 10, 320, 330, 400).shares(2), []Rule{Fences, Sequential}},
		"a writer beside a reader":             {ReadWrite{}, readers(10).holds(3, 20, 220, 390, 500), []Rule{Overlap, Sequential}},
		"a reader beside a writer":             {ReadWrite{}, tell().holds(1, 10, 100, 200, 300).holds(2, 20, 150, 290, 400).shares(1), []Rule{Overlap, Sequential}},
		"two writers":                          {ReadWrite{}, tell().holds(1, 10, 100, 200, 300).holds(2, 20, 150, 290, 400), []Rule{Overlap, Sequential}},
		"a writer's fence goes back":           {ReadWrite{}, tell().holds(1, 20, 100, 200, 300).holds(2, 10, 150, 310, 400), []Rule{Fences, Sequential}},
		"a reader has the writer's fence":      {ReadWrite{}, tell().holds(1, 10, 100, 200, 300).holds(2, 10, 150, 310, 400).shares(1), []Rule{Fences, Sequential}},
		"a reader's fence is below a writer's": {ReadWrite{}, tell().holds(1, 20, 100, 200, 300).holds(2, 10, 320, 330, 400).shares(1), []Rule{Fences, Sequential}},
		"four permits of three":                {Permits{}, tell().holds(1, 10, 100, 200, 300).shares(2).holds(2, 11, 150, 210, 400).shares(2), []Rule{Overlap, Sequential}},
		"one fence for two permits":            {Permits{}, tell().holds(1, 10, 100, 200, 300).shares(1).holds(2, 10, 150, 210, 400).shares(1), []Rule{Fences}},
	} {
		judges(t, name, c.record, c.subject, c.want...)
	}
}
