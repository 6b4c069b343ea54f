// Package script holds the Lua scripts of the lock protocols: one file each, with
// a header that gives its KEYS, its ARGV and what it returns. Fragments that several
// scripts need are included by name.
//
// docs/scripts has them as they are sent, for clients in other languages: go generate writes them.
package script

//go:generate go run ./publish ../../docs/scripts

import (
	"embed"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed *.lua
var files embed.FS

// Script is a script as a driver runs it. Its source has no comments.
type Script = driver.Script

// The scripts.
var (
	Acquire      = load("acquire")
	MultiAcquire = load("multi_acquire")
	Release      = load("release")
	Drop         = load("drop")
	Renew        = load("renew")
	Reassert     = load("reassert")
	Holder       = load("holder")
	Init         = load("init")
	Survey       = load("survey")
	Announce     = load("announce")
	WhatIs       = load("whatis")
)

// The scripts for many locks at once, where no more is to be done than is done mostly.
var (
	BatchAcquire = load("batch_acquire")
	BatchRelease = load("batch_release")
	BatchRenew   = load("batch_renew")
)

// DeleteIfEqual does what BatchRelease does for one lock of which the whole value is known: Valkey 9 has it.
//
// KEYS    the lock
// ARGV    its value
// Returns 1: it was deleted, or 0
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
)

// The scripts of jobs that run once.
var (
	OnceLook     = load("once_look")
	OnceBegin    = load("once_begin")
	OnceComplete = load("once_complete")
)

// The scripts of latches and barriers, besides those of locks that several may hold.
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

// All returns the scripts, without commands that do for one.
func All() []Script {
	return []Script{
		Acquire, MultiAcquire, BatchAcquire, BatchRelease, BatchRenew, Release, Drop, Renew, Reassert, Holder, Init, Survey, WhatIs,
		ShareAcquire, ShareRelease, ShareRenew, ShareWeigh, ShareHolders, ShareResize, ShareDisown,
		OnceLook, OnceBegin, OnceComplete, Announce,
		LatchCount, LatchLook, LatchReset, BarrierAwait, BarrierWithdraw,
		NodeAcquire, NodeBatchAcquire, NodeFence, NodeCounter, NodeRaise,
	}
}

// load makes a script of a file and the fragments it includes. A missing file is
// a mistake of the build.
func load(name string) Script { return driver.NewScript(name, assemble(name+".lua")) }

// assemble returns a file's code with its includes in place. Comment lines are left
// out: a server that lost its script cache is sent the whole source.
func assemble(file string) string {
	text, err := files.ReadFile(file)
	if err != nil {
		panic("holdfast: " + err.Error())
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		if fragment, ok := strings.CutPrefix(trimmed, "-- include "); ok {
			b.WriteString(assemble(fragment))
		} else if trimmed != "" && !strings.HasPrefix(trimmed, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}
