package server

import "testing"

func TestStartSentinels(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	for _, bin := range Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			g := StartSentinels(t, bin, 2, 3)
			old := g.Servers[0]
			Forsake(old, g.Servers[1:]...)
			expect(t, old, "OK", "SET", "missed", "1")
			old.Kill()
			for _, s := range g.Servers[1:] {
				s.Resume()
			}
			master := g.NextMaster(old)
			if reply, err := master.Do("GET", "missed"); reply != nil || err != nil {
				t.Errorf("the new master has the write that it should miss: %v, %v", reply, err)
			}
			old.Restart()
			g.AwaitReplica(old)
			g.Failover()
			g.NextMaster(master)
		})
	}
}

func TestStartReplicatedCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	for _, bin := range Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			const slot = 12182 // of "foo"
			c := StartReplicatedCluster(t, bin, 3)
			first := c.Owner(slot)
			replica := c.ReplicaOf(first)
			expect(t, first, "OK", "SET", "foo", "bar")
			c.Failover(replica)
			if owner := c.Owner(slot, first); owner != replica {
				t.Fatalf("the owner is %s, not %s", owner.Addr(), replica.Addr())
			}
			m := c.StartMove(slot, c.Owner(0))
			if keys := m.Keys(10); len(keys) != 1 || keys[0] != "foo" {
				t.Errorf("moved: %q", keys)
			}
			m.Finish()
			expect(t, c.Owner(0), "bar", "GET", "foo")
			if bin.MovesAtomically() {
				c.MoveAtomically(slot, replica)
				expect(t, replica, "bar", "GET", "foo")
			}
		})
	}
}
