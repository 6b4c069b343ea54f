package codec

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const (
	now    = "1700000000000000"
	nowInt = 1700000000000000
	info   = `{"o":"me"}`
	value  = `hf2:A:7:1700000000000:0:{"o":"me"}`
)

var (
	mutexKeys  = Keys{Lock: "k", Queue: "q", Fence: "f"}
	strictKeys = Keys{Lock: "k", Queue: "q", Fence: "f", Mark: "m"}
	shareKeys  = Keys{Lock: "k", Queue: "q", Fence: "f", Holds: "e"}
	nodeKeys   = Keys{Lock: "k", Queue: "q", Fence: "f", CaughtUp: "u", Mark: "m"}

	mutexLock  = Lock{Keys: mutexKeys, Flags: Cluster + Shared}
	strictLock = Lock{Keys: strictKeys, Flags: Strict(time.Minute, 13*time.Second)}
	shareLock  = Lock{Keys: shareKeys}
	nodeLock   = Lock{Keys: nodeKeys, Flags: Node + Strict(time.Minute, 0)}

	journal = Journal{Key: "j", Channel: "c"}

	// cut is a holder's value with the grant id in place of its token.
	cut    = strings.Replace(value, ":A:", ":k3v9x2ab:", 1)
	broken = Holder{Token: "k3v9x2ab", TTL: 5 * time.Millisecond, Ours: true, Value: wire.Value{Token: "k3v9x2ab", Fence: 7, Granted: 1700000000000, Info: wire.Info{Owner: "me"}}}

	held = wire.Value{Token: "A", Fence: 7, Granted: 1700000000000, Info: wire.Info{Owner: "me"}}
)

func head(word Word) Head { return Head{word, nowInt} }

// sample is a request, what it sends, and what replies to it are read as.
type sample struct {
	name   string
	call   driver.Call
	parse  func(text string) (any, error)
	script driver.Script
	urgent bool
	renews bool
	keys   string // with a space between two
	args   []string

	replies map[string]any // by the texts
	wrong   []string       // replies that are malformed
}

// of makes a sample of a request.
func of[R any](name string, q Request[R]) sample {
	return sample{name: name, call: q.Call(), parse: func(text string) (any, error) {
		r, err := q.Parse(text)
		return r, err
	}}
}

func (s sample) sends(script driver.Script, keys string, args ...string) sample {
	s.script, s.keys, s.args = script, keys, args
	return s
}

func (s sample) urgently() sample {
	s.urgent = true
	return s
}

// renewing says that the call is an urgent one that renews a lease.
func (s sample) renewing() sample {
	s.renews = true
	return s.urgently()
}

func (s sample) reads(replies map[string]any) sample {
	all := maps.Clone(replies)
	maps.Copy(all, s.replies)
	s.replies = all
	return s
}

func (s sample) refuses(replies ...string) sample {
	s.wrong = replies
	return s
}

// batchOf makes the sample of a batch that is made item by item.
func batchOf[B any, P interface {
	*B
	Request[BatchReply]
}](name string, b B, add func(P)) sample {
	add(&b)
	return of[BatchReply](name, P(&b))
}

var share = Share{Kind: Semaphore, Limit: 5, Weight: 2}

var acquireReplies = map[string]any{
	"granted " + now + " 60000 7 3":   Reply{Head: head(Granted), Grant: Grant{TTL: time.Minute, Fence: 7, Block: 3}},
	"granted " + now + " -1 7 1":      Reply{Head: head(Granted), Grant: Grant{TTL: -time.Millisecond, Fence: 7, Block: 1}},
	"held " + now + " 5 2 " + value:   Reply{Head: head(Held), Holder: &Holder{TTL: 5 * time.Millisecond, Waiters: 2, Ours: true, Value: held}},
	"held " + now + " -2 0 ":          Reply{Head: head(Held), Holder: &Holder{TTL: -time.Millisecond}},
	"held " + now + " 5 0 their text": Reply{Head: head(Held), Holder: &Holder{TTL: 5 * time.Millisecond}},
	"gone " + now:                     Reply{Head: head(Gone)},
	"late " + now:                     Reply{Head: head(Late)},
	"quarantined " + now + " 1500":    Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 1500 * time.Millisecond}},
}

var queuedReplies = map[string]any{
	"queued " + now + " 5 16 1 0 ours":     Reply{Head: head(Queued), Place: &Place{TTL: 5 * time.Millisecond, Score: 16, Rank: 1}},
	"queued " + now + " -1 16 2 1 foreign": Reply{Head: head(Queued), Place: &Place{TTL: -time.Millisecond, Score: 16, Rank: 2, Receivers: 1, Foreign: true}},
	// More than a clock, or an int of 32 bits, can count.
	"queued " + now + " 9223372036854775807 16 9223372036854775807 1 ours": Reply{Head: head(Queued), Place: &Place{TTL: maxDuration, Score: 16, Rank: 1<<31 - 1, Receivers: 1}},
	"granted " + now + " 60000 7 3":                                        Reply{Head: head(Granted), Grant: Grant{TTL: time.Minute, Fence: 7, Block: 3}},
	"gone " + now:                                                          Reply{Head: head(Gone)},
	"late " + now:                                                          Reply{Head: head(Late)},
}

var renewReplies = map[string]any{
	"renewed " + now + " 60000 0 0": Reply{Head: head(Renewed), Grant: Grant{TTL: time.Minute}},
	"renewed " + now + " 60000 9 4": Reply{Head: head(Renewed), Grant: Grant{TTL: time.Minute, Fence: 9, Block: 4}},
	"gone " + now:                   Reply{Head: head(Gone)},
}

var aRun = Run{Completed: 16, Fence: 7, Try: 2, Counts: true, Info: wire.Info{Owner: "me"}, Result: "one\ntwo three"}

var samples = []sample{
	of("try", &Acquire{Lock: mutexLock, Mode: Try, Token: "A", TTL: time.Minute, NotAfter: 16, Fences: 3, Info: info}).
		sends(script.Acquire(), "k q f", "tck", "A", "60000", "16", "3", info).reads(acquireReplies).
		refuses("queued "+now+" 5 16 1 0 ours", "deep "+now+" 3", "granted "+now+" 1 0 1", "granted "+now+" 1 7 0", "held "+now+" 5 -1 x", "held "+now+" 5"),
	of("wait", &Acquire{Lock: strictLock, Mode: Wait, Token: "A", TTL: 1500 * time.Microsecond, Fences: 1, Info: info, Claim: time.Second, Channel: "c"}).
		sends(script.Acquire(), "k q f m", "ws60000+13000", "A", "2", "0", "1", info, "1000", "c", "").reads(queuedReplies).
		refuses("held "+now+" 5 2 "+value, "quarantined "+now+" 5", "queued "+now+" 5 16 0 0 ours", "queued "+now+" 5 16 1 -1 ours", "queued "+now+" 5 16 1 1 theirs", "queued "+now+" 5 -1 1 1 ours"),
	of("look", &Acquire{Lock: mutexLock, Mode: Look, Token: "A", TTL: time.Minute, NotAfter: 16, Fences: 3, Info: info, Claim: time.Second, Channel: "c", Score: 15}).
		sends(script.Acquire(), "k q f", "lck", "A", "60000", "16", "3", info, "1000", "c", "15").reads(queuedReplies),
	of("share try", &Acquire{Lock: shareLock, Share: share, Mode: Try, Token: "A", TTL: time.Minute, Fences: 1, Info: info}).
		sends(script.ShareAcquire(), "k q f e", "t", "A", "60000", "0", "1", info, "sem", "5", "2").reads(acquireReplies),
	of("share wait", &Acquire{Lock: shareLock, Share: Share{Kind: Owned, Limit: 9, Weight: 1, Owner: "o"}, Mode: Wait, Token: "A", TTL: time.Minute, Fences: 1, Info: info, Claim: time.Second, Channel: "c"}).
		sends(script.ShareAcquire(), "k q f e", "w", "A", "60000", "0", "1", info, "own", "9", "1\no", "1000", "c", "").
		reads(map[string]any{"deep " + now + " 9": Reply{Head: head(Deep), Count: 9}}),

	of("release", &Release{Lock: strictLock, Token: "A", Member: "m", Tombstone: 16}).urgently().
		sends(script.Release(), "k q f m", "s60000+13000", "A", "m", "16").
		reads(map[string]any{"released " + now: Reply{Head: head(Released)}, "left " + now: Reply{Head: head(LeftQueue)}, "gone " + now: Reply{Head: head(Gone)}}).
		refuses("kept " + now),
	of("release of a ticket", &Release{Lock: nodeLock, Token: "A", Member: Ticket("123").Member()}).urgently().
		sends(script.Release(), "k q f m", "ns60000+0", "A", "t:123", "0"),
	of("share release", &Release{Lock: shareLock, Token: "A"}).urgently().
		sends(script.ShareRelease(), "k q f e", "", "A", "", "0").reads(map[string]any{"released " + now: Reply{Head: head(Released)}}),
	of("count-down of a party", &Release{Lock: shareLock, Token: "A", Ending: CountedDown}).urgently().
		sends(script.ShareRelease(), "k q f e", "", "A", "", "0", "done"),
	of("release by key", ReleaseByKey(strictLock, "A")).urgently().
		sends(script.ReleaseByKey(), "k", "s60000+13000", "A").
		reads(map[string]any{"released " + now: Reply{Head: head(Released)}, "kept " + now: Reply{Head: head(Kept)}}).refuses("gone " + now),

	of("renewal", &Renew{Lock: mutexLock, Token: "A", TTL: time.Minute, Fence: 7, FencesAlone: 9, Channel: "c"}).renewing().
		sends(script.Renew(), "k", "ck", "A", "60000", "0", "7").reads(renewReplies).
		refuses("renewed "+now+" 60000 0 1", "renewed "+now+" 60000 9 -1", "renewed "+now+" 60000 -9 0", "late "+now, "behind "+now+" x"),
	of("renewal in Strict mode", &Renew{Lock: strictLock, Token: "A", TTL: time.Minute, Fence: 7}).renewing().
		sends(script.Renew(), "k q f m", "s60000+13000", "A", "60000", "0", "7").
		reads(map[string]any{"absent " + now: Reply{Head: head(Absent)}, "quarantined " + now + " 5": Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}}}),
	of("renewal with fences", &Renew{Lock: mutexLock, Token: "A", TTL: time.Minute, Fence: 7, Fences: 3}).renewing().
		sends(script.Renew(), "k q f", "ck", "A", "60000", "3", "7"),
	of("renewal with more fences", &Renew{Lock: mutexLock, Token: "A", TTL: time.Minute, Fence: 7, Fences: 3, FencesAlone: 9, Channel: "c"}).renewing().
		sends(script.Renew(), "k q f", "ck", "A", "60000", "3", "7", "9", "c"),
	of("share renewal", &Renew{Lock: shareLock, Token: "A", TTL: time.Minute, Fence: 7}).renewing().
		sends(script.ShareRenew(), "k e", "", "A", "60000", "0", "7").reads(renewReplies).
		reads(map[string]any{"absent " + now: Reply{Head: head(Absent)}, "superseded " + now: Reply{Head: head(Superseded)}}),
	of("share renewal with fences", &Renew{Lock: shareLock, Token: "A", TTL: time.Minute, Fence: 7, Fences: 3}).renewing().
		sends(script.ShareRenew(), "k q f e", "", "A", "60000", "3", "7"),
	of("reassertion", &Reassert{Lock: mutexLock, Token: "A", TTL: time.Minute, NotAfter: 16, Fence: 7, Reserved: 9, Info: info, GrantedAt: 15, Age: time.Second, Asked: 17}).renewing().
		sends(script.Reassert(), "k q f", "ck", "A", "60000", "16", "7", "9", info, "15", "1000000", "17").reads(renewReplies).
		reads(map[string]any{"late " + now: Reply{Head: head(Late)}, "absent " + now: Reply{Head: head(Absent)}}).refuses("superseded "+now, "quarantined "+now+" 5"),
	of("several", &MultiAcquire{Flags: Cluster, Locks: []TokenOf{{mutexKeys, "A"}, {Keys{Lock: "k2", Queue: "q2", Fence: "f2"}, "B"}}, TTL: time.Minute, NotAfter: 16, Info: info}).
		sends(script.MultiAcquire(), "k q f k2 q2 f2", "c", "A", "60000", "16", info, "B").
		reads(map[string]any{
			"granted " + now + " 60000 7 8":   Reply{Head: head(Granted), Grant: Grant{TTL: time.Minute}, Fences: []uint64{7, 8}},
			"held " + now + " 2 5 1 " + value: Reply{Head: head(Held), Holder: &Holder{TTL: 5 * time.Millisecond, Waiters: 1, Ours: true, Value: held}, Count: 2},
			"queued " + now:                   Reply{Head: head(Queued)},
			"late " + now:                     Reply{Head: head(Late)},
			"quarantined " + now + " 5":       Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}},
		}).refuses("granted "+now+" 60000 7", "granted "+now+" 60000 7 8 9", "granted "+now+" 60000 7 0", "held "+now+" 0 5 1 x", "held "+now+" 3 5 1 x"),
	of("several in Strict mode", &MultiAcquire{Locks: []TokenOf{{strictKeys, "A"}, {strictKeys, "B"}}, Mark: "m", TTL: time.Minute, Info: info}).
		sends(script.MultiAcquire(), "k q f k q f m", "", "A", "60000", "0", info, "B"),

	batchOf("batch of renewals", NewBatchRenew("", 2), func(b *BatchRenew) {
		b.Flags = Cluster
		b.Add("a", "hf2:A:", 7, time.Minute)
		b.Add("b", "hf2:B:", 18446744073709551615, time.Minute)
	}).renewing().sends(script.BatchRenew(), "a b", "c", "hf2:A:7:", "hf2:B:18446744073709551615:", "60000").
		reads(map[string]any{"kept " + now: BatchReply{Head: head(Kept)}, "kept " + now + " 1 2": BatchReply{Head: head(Kept), Left: []int{0, 1}}}).
		refuses("kept "+now+" 3", "kept "+now+" 0", "taken "+now+" 7", "quarantined "+now+" 5"),
	batchOf("batch of different renewals", NewBatchRenew("", 3), func(b *BatchRenew) {
		b.Add("a", "hf2:A:", 7, time.Minute)
		b.Add("b", "hf2:B:", 8, time.Second)
		b.Add("c", "hf2:C:", 9, time.Minute)
	}).renewing().sends(script.BatchRenew(), "a b c", "", "hf2:A:7:", "hf2:B:8:", "hf2:C:9:", "60000", "1000", "60000"),

	of("change of weight", Weigh(shareLock, "A", 1, 7, 9)).urgently().
		sends(script.ShareWeigh(), "k q f e", "", "A", "1", "7", "9").
		reads(map[string]any{
			"weighed " + now + " 60000 9": Reply{Head: head(Weighed), Grant: Grant{TTL: time.Minute, Fence: 9}},
			"held " + now:                 Reply{Head: head(Held)},
			"gone " + now:                 Reply{Head: head(Gone)},
			"quarantined " + now + " 5":   Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}},
		}).refuses("weighed "+now+" 60000 0", "late "+now),
	of("status", &Status{Lock: shareLock, Kind: Semaphore, Cursor: "17", Holds: 500, Waiters: 2}).
		sends(script.Status(), "k q", "", "", "sem", "17", "500", "2").
		reads(map[string]any{
			"status " + now + " nothing 0 0 -1 0 0 0": StatusReply{Head: head(StatusIs), Kind: HoldsNothing, Count: -1, Page: Page{"0"}},
			"status " + now + " foreign 0 0 -1 1 0 1\n-1 0 \n15 0 " + info: StatusReply{
				Head: head(StatusIs), Kind: HoldsForeign, Count: -1, Queued: 1, Page: Page{"0"}, Holds: []Holder{{TTL: -time.Millisecond}},
				Waiters: []Waiter{{Since: 15, Info: held.Info}},
			},
			"status " + now + " sem 7 5 -1 100000 9 2\n5 2 " + value + "\n6 1 hf2:a:b:no\n15 3 " + info + "\n9000000000000001 0 {": StatusReply{
				Head: head(StatusIs), Kind: Semaphore, Fence: 7, Limit: 5, Count: -1, Queued: 100000, Page: Page{"9"},
				Holds: []Holder{
					{Token: "A", TTL: 5 * time.Millisecond, Weight: 2, Ours: true, Value: held}, {Token: "a", TTL: 6 * time.Millisecond, Weight: 1},
				},
				Waiters: []Waiter{{Since: 15, Weight: 3, Info: held.Info}, {Since: wire.MaxTime}},
			},
		}).refuses(
		"status "+now+" sem 7 5 -1 3 0", "status "+now+" sem 7 5 -2 3 0 0", "status "+now+" sem 7 5 -1 3 0 0 x", "status "+now+" sem 7 5 -1 3 0 1",
		"status "+now+" sem 7 5 -1 3 0 0\n1 0 \n2 0 \n3 0 ", // more waiters than were asked for
		"status "+now+" sem 7 5 -1 1 0 0\n1 0 \n2 0 ",       // more than there are
		"status "+now+" sem 7 5 -1 1 0 0\n-1 0 ", "status "+now+" sem 7 5 -1 1 0 1\nx 0 ", "status "+now+" sem 7 5 -1 1 0 9999999999\n5 2 "+value,
		"holders "+now+" sem 7 5 -1 0 0 0",
	),
	of("status of a lock of any kind", &Status{Lock: shareLock, Kind: HoldsMutex, Others: []Queue{{Semaphore, "s"}, {Owned, "o"}}, Cursor: "0", Holds: 500}).
		sends(script.Status(), "k q s o", "", "", "mutex sem own", "0", "500", "0").
		reads(map[string]any{
			"status " + now + " own 0 0 -1 3 0 0": StatusReply{Head: head(StatusIs), Kind: Owned, Count: -1, Queued: 3, Page: Page{"0"}},
		}),
	of("scan", &Scan{Flags: Cluster, On: "k", Cursor: "17", Count: 500, Match: "p:*", Begin: []string{"p:{", "p:key:"}}).
		sends(script.Scan(), "k", "c", "", "17", "500", "p:*", "p:{", "p:key:").
		reads(map[string]any{
			"keys " + now + " 0":               ScanReply{Head: head(KeysAre), Page: Page{"0"}},
			"keys " + now + " 9\np:{a b}\np:c": ScanReply{Head: head(KeysAre), Page: Page{"9"}, Keys: []string{"p:{a b}", "p:c"}},
		}).refuses("keys "+now, "keys "+now+" ", "keys "+now+" 0 x", "holds "+now+" 0"),
	of("number of permits", Resize(shareLock, Semaphore, 9)).sends(script.ShareResize(), "k q f e", "", "", "sem", "9").
		reads(map[string]any{"resized " + now + " 9 4": Reply{Head: head(Resized), Count: 4}}).refuses("resized "+now+" 9", "gone "+now),
	of("release of an owner", Disown(shareLock, "id", "o", 16)).urgently().
		sends(script.ShareDisown(), "k q f e", "", "id", "o", "16").
		reads(map[string]any{
			"released " + now + " 2":        Reply{Head: head(Released), Count: 2},
			"free " + now:                   Reply{Head: head(Free)},
			"late " + now:                   Reply{Head: head(Late)},
			"held " + now + " 5 1 " + value: Reply{Head: head(Held), Holder: &Holder{TTL: 5 * time.Millisecond, Waiters: 1, Ours: true, Value: held}},
		}).refuses("released "+now+" -1", "gone "+now),

	of("break", &Break{Lock: Lock{Keys: mutexKeys, Flags: Shared}, Journal: journal, Kind: HoldsMutex, ID: "id", Grant: "k3v9x2ab", NotAfter: 16, Note: "{}"}).urgently().
		sends(script.Break(), "k q f j", "k", "id", "k3v9x2ab", "16", "mutex", "{}", "c").
		reads(map[string]any{
			"broken " + now + " 9\n5 0 " + cut: Reply{Head: head(Broken), Grant: Grant{Fence: 9}, Text: "5 0 " + cut, Holder: &broken},
			"changed " + now + " 5 0 " + value: Reply{Head: head(Changed), Holder: &Holder{TTL: 5 * time.Millisecond, Ours: true, Value: held}},
			"free " + now:                      Reply{Head: head(Free)},
			"late " + now:                      Reply{Head: head(Late)},
		}).refuses("broken "+now+" 0\n5 0 "+cut, "broken "+now+" 9", "broken "+now+" 9\n5 0 x\ny", "broken "+now+" 9 1\n5 0 x", "gone "+now),
	of("break in a Cluster", &Break{Lock: mutexLock, Journal: journal, Kind: HoldsMutex, ID: "id", Grant: "k3v9x2ab", NotAfter: 16, Note: "{}"}).urgently().
		sends(script.Break(), "k q f", "ck", "id", "k3v9x2ab", "16", "mutex", "{}", "c"),
	of("break of a share", &Break{Lock: shareLock, Journal: journal, Kind: Semaphore, ID: "id", Grant: "k3v9x2ab", NotAfter: 16, Note: "{}"}).urgently().
		sends(script.ShareBreak(), "k q f e j", "", "id", "k3v9x2ab", "16", "sem", "{}", "c").
		reads(map[string]any{"broken " + now + " 9\n5 0 " + cut: Reply{Head: head(Broken), Grant: Grant{Fence: 9}, Text: "5 0 " + cut, Holder: &broken}}),
	of("break in Strict mode", &Break{Lock: strictLock, Journal: journal, Kind: HoldsMutex, ID: "id", Grant: "k3v9x2ab", NotAfter: 16, Note: "{}"}).urgently().
		sends(script.Break(), "k q f j m", string(strictLock.Flags), "id", "k3v9x2ab", "16", "mutex", "{}", "c"),
	of("note", Note(Cluster, journal, &Entry{What: WasRevoked, ID: "id", Grant: "k3v9x2ab", Fence: 7, Kind: HoldsMutex, Key: "k", Note: "{}"})).urgently().
		sends(script.Note(), "j", "c", "id", "c", "revoked", "k3v9x2ab", "7", "0", "mutex", "k", "{}", "").
		reads(map[string]any{"noted " + now: Reply{Head: head(Noted)}}).refuses("noted", "told "+now),
	of("notes", &Notes{Flags: Cluster, Journal: journal, Skip: 100, Count: 3}).sends(script.Notes(), "j", "c", "", "100", "3").
		reads(map[string]any{
			"notes " + now + " 0": NotesReply{Head: head(NotesAre)},
			"notes " + now + " 3\n16\nhf2 revoked id k3v9x2ab 0 0 mutex a b\n{}\n\n15\nhf2 broken id k3v9x2ab 7 9 mutex k\n{}\n5 0 " + cut: NotesReply{Head: head(NotesAre), Seen: 3, Entries: []Entry{
				{Time: 16, What: WasRevoked, ID: "id", Grant: "k3v9x2ab", Kind: HoldsMutex, Key: "a b", Note: "{}"},
				{Time: 15, What: WasBroken, ID: "id", Grant: "k3v9x2ab", Fence: 7, Raised: 9, Kind: HoldsMutex, Key: "k", Note: "{}", Holder: "5 0 " + cut, Hold: broken},
			}},
			// Rubbish that somebody has written is left out.
			"notes " + now + " 1\n16\nhf2 broken id k3v9x2ab x 0 mutex k\n{}\n": NotesReply{Head: head(NotesAre), Seen: 1},
			"notes " + now + " 1\n16\nhf2 broken id k3v9x2a 7 0 mutex k\n{}\n":  NotesReply{Head: head(NotesAre), Seen: 1},
		}).refuses("notes "+now, "notes "+now+" 1\n16\nhf2", "notes "+now+" -1", "keys "+now+" 0"),

	of("waits", &Waits{Lock: mutexLock, ID: "id", Text: "{}"}).urgently().sends(script.Waits(), "k", "ck", "", "id", "{}").
		reads(map[string]any{
			"waits " + now + " 0":          WaitsReply{Head: head(WaitsAre)},
			"waits " + now + " 2\n{}\na b": WaitsReply{Head: head(WaitsAre), Texts: []string{"{}", "a b"}},
		}).refuses("waits "+now, "waits "+now+" 1", "waits "+now+" 1\n{}\n{}", "notes "+now+" 0"),

	of("count-down", CountDown(shareLock, "id", 3, 16)).sends(script.LatchCount(), "k q f e", "", "id", "3", "16").
		reads(map[string]any{"counted " + now + " 2": Reply{Head: head(Counted), Count: 2}, "taken " + now + " 2": Reply{Head: head(Taken), Count: 2}, "late " + now: Reply{Head: head(Late)}}).
		refuses("counted "+now+" -1", "gone "+now),
	of("look at a latch", LookAtLatch(shareLock, 3, 0)).sends(script.LatchLook(), "k q f e", "", "", "3", "0").
		reads(map[string]any{
			"count " + now + " 16 2 1 5":  Reply{Head: head(CountIs), Since: 16, Count: 2, Missing: 1, Grant: Grant{TTL: 5 * time.Millisecond}},
			"count " + now + " 16 2 1 -1": Reply{Head: head(CountIs), Since: 16, Count: 2, Missing: 1, Grant: Grant{TTL: -time.Millisecond}},
		}).refuses("count "+now+" 0 2 1 5", "count "+now+" 16 -2 1 5", "count "+now+" 16 2 -1 5", "opened "+now+" 1", "reset "+now),
	of("look at a count", LookAtLatch(shareLock, 3, 16)).sends(script.LatchLook(), "k q f e", "", "", "3", "16").
		reads(map[string]any{"opened " + now + " 1": Reply{Head: head(Opened), Missing: 1}, "reset " + now: Reply{Head: head(Reset)}}).
		refuses("opened " + now + " -1"),
	of("reset", ResetLatch(shareLock, "id", 3, 16)).sends(script.LatchReset(), "k q f e", "", "id", "3", "16").
		reads(map[string]any{"reset " + now: Reply{Head: head(Reset)}, "late " + now: Reply{Head: head(Late)}}).refuses("gone " + now),
	of("await", &Await{Lock: shareLock, Token: "A", Number: 1, Phase: 2, Parties: 3, Passed: 4}).sends(script.BarrierAwait(), "k q f e", "", "A", "1", "2", "3", "4").
		reads(map[string]any{
			"waiting " + now + " 5 2 1":             AwaitReply{Head: head(Waiting), TTL: 5 * time.Millisecond, Phase: 2},
			"tripped " + now + " 2":                 AwaitReply{Head: head(Tripped), Phase: 2},
			"broken " + now + " 2 3 died " + info:   AwaitReply{Head: head(Broken), Phase: 2, Present: 3, Died: true, Info: wire.Info{Owner: "me"}},
			"broken " + now + " 2 3 left {\"o\": 1": AwaitReply{Head: head(Broken), Phase: 2, Present: 3},
			"gone " + now:                           AwaitReply{Head: head(Gone)},
			"stale " + now:                          AwaitReply{Head: head(Stale)},
		}).refuses("waiting "+now+" 5 0 1", "tripped "+now+" 0", "broken "+now+" 2 2 left {}", "broken "+now+" 0 2 left {}", "broken "+now+" 2 3 done {}"),
	of("withdrawal", Withdraw(shareLock, "A", 1)).urgently().sends(script.BarrierWithdraw(), "k q f e", "", "A", "1").
		reads(map[string]any{"withdrawn " + now: Reply{Head: head(Withdrawn)}, "stale " + now: Reply{Head: head(Stale)}, "gone " + now: Reply{Head: head(Gone)}}).
		refuses("released " + now),

	of("look at a job", LookAtJob(Job{"k", "r", Cluster}, time.Hour)).sends(script.OnceLook(), "k r", "c", "", "3600000").
		reads(map[string]any{
			"done " + now + " 16 7 2 counts " + info + "\none\ntwo three": Reply{Head: head(Done), Run: &aRun},
			"done " + now + " 16 7 2 over not JSON":                       Reply{Head: head(Done), Run: &Run{Completed: 16, Fence: 7, Try: 2}},
			"none " + now + " 3":                                          Reply{Head: head(NeverDone), Count: 3},
		}).refuses("done "+now+" 0 7 2 counts {}\n", "done "+now+" 16 0 2 counts {}\n", "done "+now+" 16 7 2 perhaps {}\n", "gone "+now),
	of("begin", &BeginRun{Job: Job{"k", "r", ""}, Token: "A", Window: time.Hour, Keep: time.Minute, Fence: 7, MaxTries: 3}).
		sends(script.OnceBegin(), "k r", "", "A", "3600000", "60000", "7", "3").
		reads(map[string]any{
			"begun " + now + " 2": Reply{Head: head(Begun), Count: 2},
			"spent " + now + " 3": Reply{Head: head(Spent), Count: 3},
			"used " + now:         Reply{Head: head(Used)},
			"gone " + now:         Reply{Head: head(Gone)},
			"done " + now + " 16 7 2 counts " + info + "\none\ntwo three": Reply{Head: head(Done), Run: &aRun},
		}).refuses("begun "+now+" -1", "begun "+now, "none "+now+" 3"),
	of("complete", &CompleteRun{Job: Job{"k", "r", ""}, Token: "A", Keep: time.Minute, Fence: 7, Info: info, Result: "one\ntwo"}).
		sends(script.OnceComplete(), "k r", "", "A", "60000", "7", info, "one\ntwo").
		reads(map[string]any{"completed " + now + " 16 2": Reply{Head: head(Completed), Run: &Run{Completed: 16, Try: 2}}, "gone " + now: Reply{Head: head(Gone)}}).
		refuses("completed "+now+" 0 2", "completed "+now+" 16"),

	of("vote", &NodeAcquire{Lock: nodeLock, Token: "A", TTL: time.Minute, NotAfter: 16, Info: info, Ticket: "123", Keep: time.Second}).
		sends(script.NodeAcquire(), "k q f u m", "ns60000+0", "A", "60000", "16", info, "123", "1000").
		reads(map[string]any{
			"granted " + now + " 60000 7":   Reply{Head: head(Granted), Grant: Grant{TTL: time.Minute, Fence: 7}},
			"held " + now + " 5 2 " + value: Reply{Head: head(Held), Holder: &Holder{TTL: 5 * time.Millisecond, Waiters: 2, Ours: true, Value: held}},
			"wanted " + now + " 2":          Reply{Head: head(Wanted), Count: 2},
			"gone " + now:                   Reply{Head: head(Gone)},
			"late " + now:                   Reply{Head: head(Late)},
			"quarantined " + now + " 5":     Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}},
			"behind " + now + " r/i?5":      Reply{Head: head(Behind), Refusal: Refusal{Stands: "r/i?5"}},
		}).refuses("granted "+now+" 60000 7 1", "granted "+now+" 60000 0", "wanted "+now+" 0", "queued "+now, "behind "+now+" a b"),
	of("fence of a grant", NodeFence(nodeLock, "A", 7)).sends(script.NodeFence(), "k q f u m", "ns60000+0", "A", "7").
		reads(map[string]any{
			"fenced " + now + " 5":      Reply{Head: head(Fenced), Grant: Grant{TTL: 5 * time.Millisecond}},
			"gone " + now:               Reply{Head: head(Gone)},
			"quarantined " + now + " 5": Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}},
			"behind " + now + " r/i?5":  Reply{Head: head(Behind), Refusal: Refusal{Stands: "r/i?5"}},
		}).refuses("fenced "+now, "late "+now),
	of("counter of a node", NodeCounter(nodeLock)).sends(script.NodeCounter(), "k q f u m", "ns60000+0", "").
		reads(map[string]any{
			"counter " + now + " 7":        Reply{Head: head(CounterIs), Count: 7},
			"behind " + now + " 7 r/i?5+":  Reply{Head: head(Behind), Count: 7, Refusal: Refusal{Stands: "r/i?5+"}},
			"quarantined " + now + " 5":    Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}},
			"counter 1700000000000000 0":   Reply{Head: head(CounterIs)},
			"behind 1700000000000000 0 r?": Reply{Head: head(Behind), Refusal: Refusal{Stands: "r?"}},
		}).refuses("counter "+now+" -1", "counter "+now, "behind "+now+" r/i?5", "raised "+now+" 7"),
	of("raised counter", NodeRaise(nodeLock, 9, "r/i?5")).sends(script.NodeRaise(), "k q f u m", "ns60000+0", "", "9", "r/i?5").
		reads(map[string]any{
			"raised " + now + " 9":      Reply{Head: head(Raised), Count: 9},
			"behind " + now + " r/i?6":  Reply{Head: head(Behind), Refusal: Refusal{Stands: "r/i?6"}},
			"quarantined " + now + " 5": Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}},
		}).refuses("raised "+now+" -1", "counter "+now+" 7"),

	of("adoption", &Adopt{Lock: strictLock, Token: "A", TTL: time.Minute, NotAfter: 9, Info: info, Detached: "B", Fence: 7, Tombstone: 8}).
		sends(script.Adopt(), "k q f m", "s60000+13000", "A", "60000", "9", info, "B", "7", "8").
		reads(map[string]any{
			"adopted " + now + " 60000 43": Reply{Head: head(Adopted), Grant: Grant{TTL: time.Minute, Fence: 43}},
			"gone " + now:                  Reply{Head: head(Gone)},
			"absent " + now:                Reply{Head: head(Absent)},
			"late " + now:                  Reply{Head: head(Late)},
			"quarantined " + now + " 5":    Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}},
		}).refuses("adopted "+now+" 60000 0", "adopted "+now+" 60000", "granted "+now+" 60000 43 1"),

	of("init", Init(strictLock.Flags, "m", AdmitKnown)).sends(script.Init(), "m", "fs60000+13000", "").
		reads(map[string]any{"ready " + now: Reply{Head: head(Ready)}, "quarantined " + now + " 5": Reply{Head: head(Quarantined), Refusal: Refusal{Quarantine: 5 * time.Millisecond}}}).
		refuses("known "+now, "new "+now, "behind "+now+" x"),
	of("look at a mark", Init(strictLock.Flags, "m", LookAtMark)).sends(script.Init(), "m", "ls60000+13000", "").
		reads(map[string]any{"known " + now: Reply{Head: head(Known)}, "new " + now: Reply{Head: head(Unmarked)}}).refuses("ready " + now),
	of("settings", &Survey{strictLock, "m"}).urgently().sends(script.Survey(), "k", "s60000+13000", "", "m").
		reads(map[string]any{
			"settings " + now + " 1024 allkeys-lru master strict": SurveyReply{Head: head(SettingsAre), MaxMemory: 1024, Policy: "allkeys-lru", Role: "master", IsStrict: true},
			"settings " + now + " - - - -":                        SurveyReply{Head: head(SettingsAre)},
			"settings " + now + " lots noeviction slave -":        SurveyReply{Head: head(SettingsAre), Policy: "noeviction", Role: "slave"},
		}).refuses("settings "+now+" 0 noeviction", "settings "+now+" 0 noeviction master x", "gone "+now),
	of("kind of a lock", &Status{Lock: Lock{Keys: Keys{Lock: "k"}, Flags: Cluster}, Cursor: "0", Holds: 1}).sends(script.Status(), "k", "c", "", "", "0", "1", "0"),
	of("announcement", Announce(mutexLock, "c")).urgently().sends(script.Announce(), "k", "ck", "", "c").
		reads(map[string]any{"told " + now + " 2": Reply{Head: head(Told), Count: 2}}).refuses("told "+now+" -1", "told "+now),
}

func TestRequestsAreTheScriptsCalls(t *testing.T) {
	for _, s := range samples {
		want := driver.Call{Script: s.script, Keys: strings.Fields(s.keys), Args: s.args, Urgent: s.urgent, Renews: s.renews}
		if !reflect.DeepEqual(s.call, want) {
			t.Errorf("%s sends %s: %q, %q, urgent: %t, renews: %t; want %s: %q, %q, urgent: %t, renews: %t", s.name,
				s.call.Script.Name, s.call.Keys, s.call.Args, s.call.Urgent, s.call.Renews,
				want.Script.Name, want.Keys, want.Args, want.Urgent, want.Renews)
		}
	}
}

func TestRepliesAreRead(t *testing.T) {
	for _, s := range samples {
		for text, want := range s.replies {
			if got, err := s.parse(text); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q is read as\n  %+v, %v, want\n  %+v", s.name, text, got, err, want)
			}
		}
	}
}

func TestEveryScriptHasARequest(t *testing.T) {
	for _, s := range script.All() {
		if s.Name == script.BatchRelease().Name { // package pipe sends it
			continue
		}
		if !slices.ContainsFunc(samples, func(a sample) bool { return a.call.Script.Name == s.Name && len(a.replies) > 0 }) {
			t.Errorf("no request with replies is tested for %s", s.Name)
		}
	}
}

// malformed expects a reply to be malformed, and what it is read as to be nothing.
func malformed(t *testing.T, s sample, text string) {
	t.Helper()
	if got, err := s.parse(text); err != wire.ErrMalformed || !reflect.ValueOf(got).IsZero() {
		t.Errorf("%s: %q is read as %+v, %v", s.name, text, got, err)
	}
}

func TestMalformedRepliesAreRefused(t *testing.T) {
	for _, s := range samples {
		for _, text := range s.wrong {
			malformed(t, s, text)
		}
		for _, text := range []string{"", " ", "nonsense", "nonsense " + now, "gone", "gone x", "gone 0", "gone -1", "gone 9000000000000001"} {
			malformed(t, s, text)
		}
	}
}

// The last fields of these replies are texts of others, which may be anything, or numbers of items.
var openEnded = []Word{Held, Done, Broken, StatusIs, Taken, Kept, KeysAre, Changed, NotesAre, WaitsAre}

func TestRepliesWithMoreOrLessAreRefused(t *testing.T) {
	for _, s := range samples {
		for text, reply := range s.replies {
			word := Word(strings.Fields(text)[0])
			if s.call.Script.Command != "" {
				continue
			}
			for i := range text {
				if text[i] == ' ' && i+1 < len(text) && !(slices.Contains(openEnded, word) && strings.Count(text[:i], " ") > 1) {
					if got, err := s.parse(text[:i]); err == nil && reflect.DeepEqual(got, reply) {
						t.Errorf("%s: %q is read as %q is", s.name, text[:i], text)
					}
				}
			}
			if !slices.Contains(openEnded, word) {
				malformed(t, s, text+" x")
			}
		}
	}
}

func TestErrorsOfScriptsAreTheirs(t *testing.T) {
	for _, s := range samples {
		if s.call.Script.Command != "" {
			continue
		}
		const text = "OOM command not allowed when used memory > 'maxmemory'."
		var caught wire.ScriptError
		if _, err := s.parse("error " + text); !errors.As(err, &caught) || string(caught) != text {
			t.Errorf("%s: the script's error is %v", s.name, err)
		}
	}
}

func TestOnlyAchievementsHaveToBeDurable(t *testing.T) {
	for _, text := range []string{"granted 1 2 3 4", "adopted 1", "renewed 1", "weighed 1", "begun 1", "completed 1", "counted 1", "released 1", "reset 1", "tripped 1", "waiting 1", "reset"} {
		if !Achieves(text) {
			t.Errorf("%q achieves nothing", text)
		}
	}
	for _, text := range []string{"", "held 1", "queued 1", "gone 1", "late 1", "quarantined 1", "taken 1", "error granted", "grante 1", "granted1"} {
		if Achieves(text) {
			t.Errorf("%q achieves something", text)
		}
	}
}

func TestMembers(t *testing.T) {
	a := Acquire{Token: "A", Claim: 1500 * time.Millisecond, Channel: "c", Info: info}
	for want, got := range map[string]string{
		"A\n1500\nc\n" + info:       a.Member(),
		"A\n1500@17\nc\n" + info:    (&Acquire{Token: "A", Claim: 1500 * time.Millisecond, By: 17, Channel: "c", Info: info}).Member(),
		"A\n1500\nc\n2\n" + info:    (&Acquire{Token: "A", Share: share, Claim: 1500 * time.Millisecond, Channel: "c", Info: info}).Member(),
		"A\n1500\nc\n1\no\n" + info: (&Acquire{Token: "A", Share: Share{Kind: Owned, Weight: 1, Owner: "o"}, Claim: 1500 * time.Millisecond, Channel: "c", Info: info}).Member(),
		"t:123":                     Ticket("123").Member(),
	} {
		if got != want {
			t.Errorf("the member is %q, want %q", got, want)
		}
	}
}

// Nothing that a server sends makes a parser panic, or is half read.
func FuzzReplies(f *testing.F) {
	for _, s := range samples {
		for text := range s.replies {
			f.Add(text)
		}
		for _, text := range s.wrong {
			f.Add(text)
		}
	}
	f.Add("error WRONGTYPE Operation against a key")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range samples {
			got, err := s.parse(text)
			var caught wire.ScriptError
			switch {
			case err == nil:
				if at := reflect.ValueOf(got).FieldByName("Head").Interface().(Head); at.Word == "" || at.Now < 0 || at.Now == 0 || at.Now > wire.MaxTime {
					t.Errorf("%s: %q begins with %+v", s.name, text, at)
				}
			case err != wire.ErrMalformed && !errors.As(err, &caught):
				t.Errorf("%s: %q is the error %v", s.name, text, err)
			case !reflect.ValueOf(got).IsZero():
				t.Errorf("%s: %q is %v, and read as %+v", s.name, text, err, got)
			}
		}
	})
}

// Done reports for each item of a batch whether it was renewed.
func TestItemsThatABatchLeft(t *testing.T) {
	r := BatchReply{Head: Head{Word: Kept}, Left: []int{1, 2, 4}}
	for i, want := range []bool{true, false, false, true, false, true} {
		if got := r.Done(i); got != want {
			t.Errorf("item %d: %t", i, got)
		}
	}
}
