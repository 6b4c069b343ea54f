package simulation

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	luaparse "github.com/yuin/gopher-lua/parse"
)

// scripts runs a server's scripts. miniredis would make an interpreter for each call, and buffers for each command in it, which takes longer
// than most scripts do.
type scripts struct {
	redis   *miniredis.Miniredis
	lua     *lua.LState
	loaded  map[string]*lua.FunctionProto // by SHA-1
	caller  *server.Peer                  // of the commands of scripts
	replies bytes.Buffer                  // to them
	reader  *bufio.Reader
}

// newScripts returns what runs the scripts of a server that has no clients yet.
func newScripts(redis *miniredis.Miniredis) *scripts {
	s := &scripts{redis: redis, lua: lua.NewState(lua.Options{SkipOpenLibs: true}), loaded: map[string]*lua.FunctionProto{}}
	s.caller = server.NewPeer(bufio.NewWriter(&s.replies))
	s.reader = bufio.NewReader(&s.replies)
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath} {
		s.lua.Push(s.lua.NewFunction(open))
		s.lua.Call(0, 0)
	}
	s.lua.SetGlobal("redis", s.lua.SetFuncs(s.lua.NewTable(), map[string]lua.LGFunction{
		"call":  func(l *lua.LState) int { return s.call(l, true) },
		"pcall": func(l *lua.LState) int { return s.call(l, false) },
		"sha1hex": func(l *lua.LState) int {
			l.Push(lua.LString(hash(l.CheckString(1))))
			return 1
		},
	}))
	// The commands of a script must not lock miniredis, which run has done. Only what miniredis keeps for the peer of such a command says so,
	// and only miniredis can make that: for a script that it runs itself.
	redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if command == "PING" {
			s.caller.Ctx = c.Ctx
		}
		return false
	})
	redis.Server().Dispatch(server.NewPeer(bufio.NewWriter(&s.replies)), []string{"EVAL", "return redis.call('PING')", "0"})
	return s
}

func hash(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }

// compiled has scripts by SHA-1.
var compiled = map[string]*lua.FunctionProto{}

// load compiles a script, unless it is known, and keeps it until a SCRIPT FLUSH.
func (s *scripts) load(source string) (sha string, err error) {
	sha = hash(source)
	if compiled[sha] == nil {
		chunk, err := luaparse.Parse(strings.NewReader(source), "script")
		if err != nil {
			return "", err
		}
		if compiled[sha], err = lua.Compile(chunk, "script"); err != nil {
			return "", err
		}
	}
	s.loaded[sha] = compiled[sha]
	return sha, nil
}

// answer answers a command that runs a script, and reports whether it was one. It leaves those of transactions to miniredis.
func (s *scripts) answer(c *server.Peer, command string, args []string) bool {
	switch {
	case command == "SCRIPT" && strings.EqualFold(args[0], "FLUSH"):
		clear(s.loaded)
	case command == "SCRIPT" && strings.EqualFold(args[0], "LOAD"):
		_, _ = s.load(args[1]) // miniredis says what is wrong with it
	case inTransaction(c):
	case command == "EVAL":
		sha, err := s.load(args[0])
		if err != nil {
			return false
		}
		s.run(c, sha, args[1:])
		return true
	case command == "EVALSHA":
		s.run(c, args[0], args[1:])
		return true
	}
	return false
}

// inTransaction reports whether a client's command is carried out later. Only an unexported field of miniredis says so.
func inTransaction(c *server.Peer) bool {
	record := reflect.ValueOf(c.Ctx)
	return record.IsValid() && !record.Elem().FieldByName("transaction").IsNil()
}

// run runs a script with its number of keys, keys and arguments.
func (s *scripts) run(c *server.Peer, sha string, args []string) {
	script := s.loaded[sha]
	if script == nil {
		c.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	keys, err := strconv.Atoi(args[0])
	if err != nil || keys >= len(args) {
		panic(fmt.Sprintf("a script with %q", args))
	}
	s.redis.Lock()
	defer s.redis.Unlock()
	s.lua.SetGlobal("KEYS", s.list(args[1:1+keys]))
	s.lua.SetGlobal("ARGV", s.list(args[1+keys:]))
	s.lua.Push(s.lua.NewFunctionFromProto(script))
	if err := s.lua.PCall(0, 1, nil); err != nil {
		c.WriteError("ERR " + err.Error())
		return
	}
	write(c, s.lua.Get(-1))
	s.lua.Pop(1)
}

func (s *scripts) list(all []string) *lua.LTable {
	t := s.lua.CreateTable(len(all), 0)
	for _, one := range all {
		t.Append(lua.LString(one))
	}
	return t
}

// write writes what a script has returned.
func write(c *server.Peer, v lua.LValue) {
	switch v := v.(type) {
	case lua.LString:
		c.WriteBulk(string(v))
	case lua.LNumber:
		c.WriteInt(int(v))
	case *lua.LTable:
		if failed := v.RawGetString("err"); failed != lua.LNil {
			c.WriteError(failed.String())
			return
		}
		c.WriteLen(v.Len())
		v.ForEach(func(_, one lua.LValue) { write(c, one) })
	case lua.LBool, *lua.LNilType:
		c.WriteNull()
	default:
		panic(fmt.Sprintf("a script has returned a %s", v.Type()))
	}
}

// call carries out a command of a script. An error of the server ends the script if raise is true; otherwise, the script gets it.
func (s *scripts) call(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = lua.LVAsString(l.Get(i + 1))
	}
	s.replies.Reset()
	s.redis.Server().Dispatch(s.caller, args)
	s.caller.Flush()
	s.reader.Reset(&s.replies)
	reply, err := server.ParseReply(s.reader)
	switch {
	case err != nil && raise:
		l.Error(lua.LString(err.Error()), 1)
	case err != nil:
		failed := l.NewTable()
		failed.RawSetString("err", lua.LString(err.Error()))
		l.Push(failed)
	default:
		l.Push(value(l, reply))
	}
	return 1
}

// value returns what a script sees of a reply.
func value(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case nil:
		return lua.LFalse
	case int:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case server.Simple:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(r))
		return t
	case []any:
		t := l.CreateTable(len(r), 0)
		for _, one := range r {
			t.Append(value(l, one))
		}
		return t
	}
	panic(fmt.Sprintf("a reply of type %T", reply))
}
