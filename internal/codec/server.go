package codec

import (
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Init admits a server to Strict mode, or asks whether it was admitted: init.lua.
type Init struct {
	Flags Flags // including Strict
	Mark  string
	Mode  InitMode
}

// InitMode is what Init does.
type InitMode string

const (
	Admit      InitMode = ""  // admits a server without a mark
	AdmitKnown InitMode = "f" // admits any server, and ends a quarantine
	LookAtMark InitMode = "l" // asks whether there is a mark
)

func (q *Init) Call() driver.Call {
	return call(script.Init(), []string{q.Mark, q.Flags.in(string(q.Mode)), ""}, 1)
}

// InitReply describes a server in Strict mode: Ready, or Quarantined with Refusal; in reply to LookAtMark, Known or Unmarked.
type InitReply struct {
	Head
	Refusal Refusal
}

func (q *Init) Parse(text string) (InitReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return InitReply{}, err
	}
	reply := InitReply{Head: head}
	switch word, looks := head.Word, q.Mode == LookAtMark; {
	case word == Ready && !looks, (word == Known || word == Unmarked) && looks:
	case word == Quarantined && !looks:
		reply.Refusal = r.refusal(word)
	default:
		r.bad = true
	}
	return finish(&r, reply)
}

// Survey asks a server for the settings that decide whether locks are safe: survey.lua.
type Survey struct{ Lock Lock }

func (q *Survey) Call() driver.Call { return urgent(q.Lock.byKey(script.Survey(), "")) }

// SurveyReply contains a server's settings: SettingsAre. Unknown settings are "" or 0.
type SurveyReply struct {
	Head
	MaxMemory uint64 // bytes; 0 for no limit
	Policy    string // maxmemory-policy
	Role      string // "master" or "slave"
}

func (q *Survey) Parse(text string) (SurveyReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return SurveyReply{}, err
	}
	told := func() string {
		if field := r.text(); field != "-" {
			return field
		}
		return ""
	}
	reply := SurveyReply{Head: head}
	reply.MaxMemory, _ = strconv.ParseUint(told(), 10, 64)
	reply.Policy, reply.Role = told(), told()
	r.bad = r.bad || head.Word != SettingsAre
	return finish(&r, reply)
}

// WhatIs asks what the key of a lock holds: whatis.lua.
type WhatIs struct{ Lock Lock }

func (q *WhatIs) Call() driver.Call { return q.Lock.byKey(script.WhatIs(), "") }

// WhatIsReply says what a lock's key holds: KeyHolds.
type WhatIsReply struct {
	Head
	// What is HoldsNothing, HoldsMutex, HoldsRedisson, a kind of lock with several holders, HoldsOther, or HoldsUnknown. It can be any
	// other text, if another program wrote that into the key.
	What string
}

const (
	HoldsNothing  = "nothing"
	HoldsMutex    = "mutex"
	HoldsRedisson = "redisson"
	HoldsOther    = "other"   // no lock of this library's
	HoldsUnknown  = "unknown" // the server's user may not look
)

func (q *WhatIs) Parse(text string) (WhatIsReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return WhatIsReply{}, err
	}
	r.bad = head.Word != KeyHolds || r.rest == ""
	return finish(&r, WhatIsReply{Head: head, What: r.all()})
}

// Announce makes watchers of a lock look who holds it: announce.lua.
type Announce struct {
	Lock    Lock
	Channel string
}

func (q *Announce) Call() driver.Call { return urgent(q.Lock.byKey(script.Announce(), "", q.Channel)) }

// AnnounceReply says how many connections were told: Told.
type AnnounceReply struct {
	Head
	Receivers int
}

func (q *Announce) Parse(text string) (AnnounceReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return AnnounceReply{}, err
	}
	r.bad = head.Word != Told
	return finish(&r, AnnounceReply{Head: head, Receivers: r.count(0)})
}
