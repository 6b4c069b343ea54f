package server

import (
	"fmt"
	"strings"
)

// Move is the move of a slot from one master of a cluster to another, in the steps of redis-cli --cluster
// reshard.
type Move struct {
	From, To *Server

	c    *Cluster
	slot int
}

// StartMove begins to move a slot. From now on keys that do not exist are looked for at the new owner.
func (c *Cluster) StartMove(slot int, to *Server) *Move {
	c.tb.Helper()
	m := &Move{From: c.Owner(slot), To: to, c: c, slot: slot}
	must(c.tb, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(m.From))
	must(c.tb, m.From, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(to))
	return m
}

// Keys moves up to n keys, one by one, and returns them.
func (m *Move) Keys(n int) []string {
	m.c.tb.Helper()
	reply, err := m.From.Do("CLUSTER", "GETKEYSINSLOT", m.slot, n)
	if err != nil {
		m.c.tb.Fatal(err)
	}
	var moved []string
	for _, key := range reply.([]any) {
		moved = append(moved, key.(string))
		m.Key(key.(string))
	}
	return moved
}

// Key moves one key, if it exists.
func (m *Move) Key(key string) {
	m.c.tb.Helper()
	must(m.c.tb, m.From, "MIGRATE", "127.0.0.1", m.To.port, key, 0, 5000)
}

// Finish moves the remaining keys, and tells all masters of the new owner.
func (m *Move) Finish() {
	m.c.tb.Helper()
	for len(m.Keys(10)) > 0 {
	}
	id := m.c.id(m.To)
	must(m.c.tb, m.To, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	must(m.c.tb, m.From, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	m.c.Owner(m.slot)
}

// MovesAtomically reports whether the server can move slots by itself.
func (b Binary) MovesAtomically() bool { return b.Valkey && b.Major >= 9 }

// MoveAtomically makes a slot's owner move it with CLUSTER MIGRATESLOTS, which copies it as to a replica and
// then hands it over at one moment, and waits until that is done.
func (c *Cluster) MoveAtomically(slot int, to *Server) {
	c.tb.Helper()
	from := c.Owner(slot)
	must(c.tb, from, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", c.id(to))
	err := from.awaitFor(agreeTimeout, "the end of the migration", func() error {
		reply, err := from.Do("CLUSTER", "GETSLOTMIGRATIONS")
		if err != nil {
			return err
		}
		all, _ := reply.([]any)
		if len(all) == 0 {
			return fmt.Errorf("no migration")
		}
		switch state := fmt.Sprint(all[0]); {
		case strings.Contains(state, "success"):
			return nil
		case strings.Contains(state, "state failed"), strings.Contains(state, "state cancel"):
			return permanent{fmt.Errorf("the migration ended: %s", state)}
		default:
			return fmt.Errorf("it stands at %s", state)
		}
	})
	if err != nil {
		c.tb.Fatal(err)
	}
	c.Owner(slot)
}
