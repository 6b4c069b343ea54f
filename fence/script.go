package fence

import (
	"embed"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed lua/*.lua
var files embed.FS

// Lua is what to put before a script that is run by other means than Redis.Run: with
// another client, or in another language. Its header says which KEYS and ARGV it takes;
// MarkKey names the key. The script after it may reply with anything. A refusal is an
// error reply that begins with STALE.
var Lua = text("guard.lua")

var (
	raise = load("raise")
	set   = load("set")
)

// Script is a Lua script that runs only if nobody with a later lease has been at its
// resource.
type Script struct{ guarded driver.Script }

// NewScript makes a guarded script of one that writes. The script finds its own KEYS and
// ARGV as usual. It may return a string, a number or a status, which Run returns as
// text; nothing, which is ""; or another table, which comes as JSON.
func NewScript(source string) *Script {
	whole := Lua + text("begin.lua") + strings.TrimSuffix(source, "\n") + "\n" + text("end.lua")
	return &Script{driver.NewScript("guarded", whole)}
}

// load makes a script of a file, with the guard before it.
func load(name string) driver.Script {
	return driver.NewScript("fence-"+name, Lua+text(name+".lua"))
}

// text returns a file. A missing one is a mistake of the build.
func text(file string) string {
	b, err := files.ReadFile("lua/" + file)
	if err != nil {
		panic("fence: " + err.Error())
	}
	return string(b)
}
