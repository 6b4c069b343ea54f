// Package script holds the Lua scripts of the lock protocols. Each script is a file in the folder of its family. The file's header states
// KEYS, ARGV, replies and invariants:
//
//	mutex     locks with one holder
//	batch     many mutexes in one call
//	multi     several mutexes, all or none
//	share     locks with several holders: read-write locks, semaphores, owned locks
//	party     latches and barriers, which also use the scripts of share
//	once      jobs that run once
//	node      a quorum's servers
//	election  the watchers of an election
//	server    a server's settings, and the state of a lock of any kind
//
// Headers leave out what is the same for all scripts: the reply 'error MESSAGE' (answer.lua), the flags and the meaning of NOW and PTTL
// (prelude.lua), and the key that Strict mode adds (incarnation.lua).
//
// The folder fragments contains the code that scripts share. A script begins with the fragments that it names (see Assemble).
//
// docs/scripts contains the scripts as they are sent, for clients in other languages: go generate writes them.
package script

//go:generate go run ./publish ../../docs/scripts

import (
	"embed"
	"path"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed */*.lua
var files embed.FS

// Script is a script in the form that a driver runs. Its source has no comments.
type Script = driver.Script

// The scripts of mutexes and of servers. Those for many mutexes in one call handle the common case, and leave the rest to the others.
var (
	Acquire      = load("mutex/acquire")
	MultiAcquire = load("multi/multi_acquire")
	BatchRelease = load("batch/batch_release")
	BatchRenew   = load("batch/batch_renew")
	Release      = load("mutex/release")
	ReleaseByKey = load("mutex/release_by_key")
	Break        = load("mutex/break")
	Renew        = load("mutex/renew")
	Reassert     = load("mutex/reassert")
	Adopt        = load("mutex/adopt")
	Init         = load("server/init")
	Survey       = load("server/survey")
	Status       = load("server/status")
	Scan         = load("server/scan")
	Note         = load("server/note")
	Notes        = load("server/notes")
	Waits        = load("server/waits")
)

// The scripts of locks that can have several holders, of jobs that run once, and of elections.
var (
	ShareAcquire = load("share/share_acquire")
	ShareRelease = load("share/share_release")
	ShareRenew   = load("share/share_renew")
	ShareWeigh   = load("share/share_weigh")
	ShareResize  = load("share/share_resize")
	ShareDisown  = load("share/share_disown")
	ShareBreak   = load("share/share_break")
	OnceLook     = load("once/once_look")
	OnceBegin    = load("once/once_begin")
	OnceComplete = load("once/once_complete")
	Announce     = load("election/announce")
)

// The scripts of latches and barriers, whose parties also have holds, for which the scripts above are, and of a quorum's nodes.
var (
	LatchCount      = load("party/latch_count")
	LatchLook       = load("party/latch_look")
	LatchReset      = load("party/latch_reset")
	BarrierAwait    = load("party/barrier_await")
	BarrierWithdraw = load("party/barrier_withdraw")
	NodeAcquire     = load("node/node_acquire")
	NodeFence       = load("node/node_fence")
	NodeCounter     = load("node/node_counter")
	NodeRaise       = load("node/node_raise")
)

var loaded []func() Script

// All returns all scripts.
func All() []Script {
	var all []Script
	for _, script := range loaded {
		all = append(all, script())
	}
	return all
}

// load returns a function that returns the script FOLDER/NAME. A program assembles a script when it first needs it, since it uses few of
// them, and holdfast run starts often. A missing file is a build error, which All shows.
func load(file string) func() Script {
	script := sync.OnceValue(func() Script {
		source, err := Assemble(files, file+".lua")
		if err != nil {
			panic("holdfast: internal/script: " + err.Error())
		}
		return driver.NewScript(path.Base(file), source)
	})
	loaded = append(loaded, script)
	return script
}
