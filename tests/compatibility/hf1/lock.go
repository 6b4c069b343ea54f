package hf1

import (
	"fmt"
	"strings"
	"time"
)

// all is the limit of a read-write lock and of an owner's lock, and the weight of a writer.
const all = 1_000_000_000

// Lock is a lock, or a share of one, that a client wants.
type Lock struct {
	c      *Client
	keys   []string // lock, queue, fence counter; with a kind also the index of holds
	flags  string   // besides the client's
	kind   string   // of a lock that several may hold; "" for a mutex
	limit  int
	weight string
}

// Mutex returns the mutex of a name.
func (c *Client) Mutex(name string) *Lock { return c.named(name, "q") }

func (c *Client) named(name, queue string) *Lock {
	key := c.o.Prefix + "{" + name + "}"
	return &Lock{c: c, keys: []string{key, key + ":" + queue, c.counter(key)}}
}

// counter is the fence counter of a lock with that stem.
func (c *Client) counter(stem string) string {
	if c.cluster {
		return stem + ":f"
	}
	return c.o.Prefix + "fence"
}

// Exact returns the mutex under an exact key.
func (c *Client) Exact(key string) *Lock {
	stem := c.o.Prefix + "{" + key + "}:key"
	if strings.HasPrefix(key, c.o.Prefix+"{") && strings.HasSuffix(key, "}") {
		stem = key
	} else if strings.Contains(key, "{") {
		stem = c.o.Prefix + "key:" + key
	}
	return &Lock{c: c, keys: []string{key, stem + ":q", c.counter(stem)}, flags: "k"}
}

// Redisson returns the lock that is Redisson's RLock of that name, which has no braces, too.
func (c *Client) Redisson(name string) *Lock {
	l := c.Exact(name)
	l.keys[1] = strings.TrimSuffix(l.keys[1], ":q") + ":redisson"
	l.flags = "kr"
	return l
}

func (c *Client) shared(name, kind string, limit int, weight string) *Lock {
	l := c.named(name, kind)
	l.keys = append(l.keys, l.queue()+":e")
	l.kind, l.limit, l.weight = kind, limit, weight
	return l
}

// Reader returns the side of a read-write lock that readers have.
func (c *Client) Reader(name string) *Lock { return c.shared(name, "rw", all, "1") }

// Writer returns the side of a read-write lock that writers have.
func (c *Client) Writer(name string) *Lock { return c.shared(name, "rw", all, fmt.Sprint(all)) }

// Permits returns n permits of a semaphore.
func (c *Client) Permits(name string, of, n int) *Lock {
	return c.shared(name, "sem", of, fmt.Sprint(n))
}

// Owned returns the lock of an owner.
func (c *Client) Owned(name, owner string) *Lock { return c.shared(name, "own", all, "1\n"+owner) }

// Latch returns a latch.
func (c *Client) Latch(name string, parties int) *Lock { return c.shared(name, "latch", parties, "1") }

// Barrier returns a barrier.
func (c *Client) Barrier(name string, parties int) *Lock { return c.shared(name, "bar", parties, "1") }

// Key is the key of the lock.
func (l *Lock) Key() string { return l.keys[0] }

func (l *Lock) queue() string    { return l.keys[1] }
func (l *Lock) index() string    { return l.keys[3] }
func (l *Lock) isRedisson() bool { return strings.Contains(l.flags, "r") }

// word is the first word of a message that grants the lock.
func (l *Lock) word() string {
	switch {
	case l.kind != "":
		return l.kind
	case l.isRedisson():
		return "redisson"
	}
	return "grant"
}

// script returns the name of a mutex's script for this kind of lock.
func (l *Lock) script(name string) string {
	if l.kind != "" {
		return "share_" + name
	}
	return name
}

func (l *Lock) send(script string, keys []string, flags string, args ...any) Reply {
	l.c.tb.Helper()
	return l.c.send(script, keys, append([]any{flags + l.c.flags() + l.flags}, args...)...)
}

// channel is where the client with that id hears of the lock.
func (l *Lock) channel(id string) string {
	if l.c.cluster {
		return l.queue() + ":c:" + id
	}
	return l.c.o.Prefix + "c:" + id
}

// Listen subscribes to the channel on which this client hears of the lock.
func (l *Lock) Listen() *Ear {
	l.c.tb.Helper()
	return l.c.Hear(l.channel(l.c.id))
}

// Watch subscribes to the channel of the lock's watchers.
func (l *Lock) Watch() *Ear {
	l.c.tb.Helper()
	return l.c.Hear(l.watchers())
}

func (l *Lock) watchers() string {
	if l.c.cluster {
		return l.queue() + ":w"
	}
	return l.c.o.Prefix + "c:w:" + l.Key()
}

// Announce tells the lock's watchers to look.
func (l *Lock) Announce() Reply {
	l.c.tb.Helper()
	return l.send("announce", l.keys[:1], "", "x", l.watchers())
}

// WhatIs returns the kind of lock in the lock's key.
func (l *Lock) WhatIs() string {
	l.c.tb.Helper()
	return l.send("whatis", l.keys[:1], "", "x").Want("holds").Text("WHAT")
}

// Holder asks for the holder of a mutex.
func (l *Lock) Holder() Reply {
	l.c.tb.Helper()
	return l.send("holder", l.keys, "", "x")
}

// Holding is a holder, as a script tells it.
type Holding struct {
	Value
	TTL    time.Duration
	Weight int64 // 0 of a mutex
}

// Holders returns the lock's holders, as the scripts tell them.
func (l *Lock) Holders() (holders []Holding) {
	tb := l.c.tb
	tb.Helper()
	if l.kind == "" {
		if r := l.Holder(); r.Word == "held" {
			return []Holding{{r.Value(), time.Duration(r.Int("PTTL")) * time.Millisecond, 0}}
		}
		return nil
	}
	for cursor := "0"; ; {
		r := l.send("share_holders", l.keys, "", "x", cursor, 500, l.kind).Want("holders")
		for _, line := range r.Lines {
			f := strings.SplitN(line, " ", 3)
			if len(f) != 3 {
				tb.Fatalf("share_holders tells %q", line)
			}
			ttl := time.Duration(number(tb, f[0])) * time.Millisecond
			holders = append(holders, Holding{parseValue(tb, f[2]), ttl, number(tb, f[1])})
		}
		if cursor = r.Text("CURSOR"); cursor == "0" {
			return holders
		}
	}
}

// Resize sets the number of a semaphore's permits.
func (l *Lock) Resize(limit int) Reply {
	l.c.tb.Helper()
	return l.send("share_resize", l.c.marked(l.keys), "", "x", l.kind, limit)
}

// Disown ends one hold of an owner.
func (l *Lock) Disown(owner string) Reply {
	l.c.tb.Helper()
	return l.send("share_disown", l.c.marked(l.keys), "", NewToken(), owner, l.c.notAfter())
}

// CountDown counts a party of a latch down that has not joined it: once for each id.
func (l *Lock) CountDown(id string) Reply {
	l.c.tb.Helper()
	return l.send("latch_count", l.c.marked(l.keys), "", id, l.limit, l.c.notAfter())
}

// LookAt looks at a latch's count: that of since, or the present one.
func (l *Lock) LookAt(since int64) Reply {
	l.c.tb.Helper()
	return l.send("latch_look", l.c.marked(l.keys), "", "x", l.limit, since)
}

// Reset begins a latch's count anew; with 0 parties it deletes the latch.
func (l *Lock) Reset(parties int) Reply {
	l.c.tb.Helper()
	return l.send("latch_reset", l.c.marked(l.keys), "", NewToken(), parties, l.c.notAfter())
}
