// Package script holds the Lua scripts of the lock protocols. Each is a file in the folder of its family, whose
// header states its KEYS, its ARGV, its replies and its invariants:
//
//	mutex     locks with one holder
//	batch     many mutexes in one call
//	multi     several mutexes, all or none
//	share     locks with several holders: read-write locks, semaphores, owned locks
//	party     latches and barriers, which also use those of share
//	once      jobs that run once
//	node      a quorum's servers
//	election  the observers of an election
//	server    a server's settings, and the state of a lock of any kind
//
// The folder fragments has the code that scripts share. A script begins with the fragments that it names
// (see Assemble).
//
// docs/scripts has the scripts as they are sent, for clients in other languages: go generate writes them.
package script

//go:generate go run ./publish ../../docs/scripts

import (
	"embed"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed */*.lua
var files embed.FS

// Script is a script as a driver runs it. Its source has no comments.
type Script = driver.Script

// The scripts of mutexes and of servers.
var (
	Acquire      = load("acquire")
	MultiAcquire = load("multi_acquire")
	Release      = load("release")
	ReleaseByKey = load("release_by_key")
	Break        = load("break")
	Renew        = load("renew")
	Reassert     = load("reassert")
	Adopt        = load("adopt")
	Holder       = load("holder")
	Init         = load("init")
	Survey       = load("survey")
	Announce     = load("announce")
	WhatIs       = load("whatis")
	Status       = load("status")
	Scan         = load("scan")
	Note         = load("note")
	Notes        = load("notes")
)

// The scripts for many mutexes in one call. They do the common case, and leave all else to those of one.
var (
	BatchAcquire = load("batch_acquire")
	BatchRelease = load("batch_release")
	BatchRenew   = load("batch_renew")
)

// DeleteIfEqual is a command of Valkey 9 that does what BatchRelease does for one lock whose whole value is known.
//
// KEYS    the lock
// ARGV    its value
// Returns 1 if the lock was deleted, otherwise 0
var DeleteIfEqual = Script{Name: "delifeq", Command: "delifeq"}

// The scripts of locks that several may hold at once.
var (
	ShareAcquire = load("share_acquire")
	ShareRelease = load("share_release")
	ShareRenew   = load("share_renew")
	ShareWeigh   = load("share_weigh")
	ShareHolders = load("share_holders")
	ShareResize  = load("share_resize")
	ShareDisown  = load("share_disown")
	ShareBreak   = load("share_break")
)

// The scripts of jobs that run once.
var (
	OnceLook     = load("once_look")
	OnceBegin    = load("once_begin")
	OnceComplete = load("once_complete")
)

// The scripts of latches and barriers. Their parties have holds, too: see those of locks that several may hold.
var (
	LatchCount      = load("latch_count")
	LatchLook       = load("latch_look")
	LatchReset      = load("latch_reset")
	BarrierAwait    = load("barrier_await")
	BarrierWithdraw = load("barrier_withdraw")
)

// The scripts of a quorum's nodes.
var (
	NodeAcquire      = load("node_acquire")
	NodeBatchAcquire = load("node_batch_acquire")
	NodeFence        = load("node_fence")
	NodeCounter      = load("node_counter")
	NodeRaise        = load("node_raise")
)

// All returns the scripts. DeleteIfEqual is a command, and not among them.
func All() []Script {
	return []Script{
		Acquire, MultiAcquire, BatchAcquire, BatchRelease, BatchRenew, Release, ReleaseByKey, Break, Renew, Reassert, Adopt, Holder, Init, Survey, WhatIs, Status, Scan, Note, Notes,
		ShareAcquire, ShareRelease, ShareRenew, ShareWeigh, ShareHolders, ShareResize, ShareDisown, ShareBreak,
		OnceLook, OnceBegin, OnceComplete, Announce,
		LatchCount, LatchLook, LatchReset, BarrierAwait, BarrierWithdraw,
		NodeAcquire, NodeBatchAcquire, NodeFence, NodeCounter, NodeRaise,
	}
}

// sources has the text of each script, by its name.
var sources = func() map[string]string {
	all, err := Assemble(files)
	if err != nil {
		panic("holdfast: internal/script/" + err.Error())
	}
	return all
}()

// load returns the script of that name. A missing file is a mistake of the build.
func load(name string) Script {
	source, ok := sources[name]
	if !ok {
		panic("holdfast: internal/script has no " + name + ".lua")
	}
	return driver.NewScript(name, source)
}
