package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

type terminal struct {
	t    testing.TB
	dir  string
	file *os.File

	mu   sync.Mutex
	seen bytes.Buffer
}

func openTerminal(t testing.TB, redis *server.Server) *terminal {
	t.Helper()
	uses(t)
	cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
	if cmd.Err != nil {
		t.Skip("needs bash: ", cmd.Err)
	}
	cmd.Env = append(os.Environ(), "PS1=$ ", "TERM=dumb", "HISTFILE=", "HOLDFAST_REDIS=redis://"+redis.Addr(), "GORACE=atexit_sleep_ms=0")
	cmd.Dir = t.TempDir()
	f := expect.Of(pty.Start(cmd)).OK(t)
	term := &terminal{t: t, dir: cmd.Dir, file: f}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			term.mu.Lock()
			term.seen.Write(buf[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		// The death of the session's leader hangs up the terminal, which ends its jobs, too.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		select {
		case <-read:
		case <-time.After(hang):
			t.Error("somebody still uses the terminal")
		}
		f.Close()
	})
	term.expectPrompt()
	return term
}

func (term *terminal) send(text string) {
	term.t.Helper()
	expect.OK(term.t, expect.ErrOf(term.file.WriteString(text)))
}

func (term *terminal) script(name, text string) {
	term.t.Helper()
	expect.OK(term.t, os.WriteFile(filepath.Join(term.dir, name), []byte(text), 0o600))
}

// expect waits until the output since the last call matches.
func (term *terminal) expect(pattern string) {
	term.t.Helper()
	re := regexp.MustCompile(pattern)
	for began := time.Now(); !term.shows(re); time.Sleep(10 * time.Millisecond) {
		term.within(began, pattern)
	}
}

// expectPrompt waits until the shell is ready for a line. While it takes the terminal back from a job, input
// may be lost.
func (term *terminal) expectPrompt() {
	term.t.Helper()
	term.expect(`\$ $`)
}

// expectOfShell is expect for what a shell reports before a prompt, such as that a job has stopped.
func (term *terminal) expectOfShell(pattern string) {
	term.t.Helper()
	re := regexp.MustCompile(pattern)
	for began := time.Now(); !term.shows(re); time.Sleep(100 * time.Millisecond) {
		term.within(began, pattern)
		term.send("\n")
	}
}

func (term *terminal) within(began time.Time, pattern string) {
	term.t.Helper()
	if time.Since(began) < hang {
		return
	}
	term.mu.Lock()
	defer term.mu.Unlock()
	term.t.Fatalf("not within %s: %q in %q", hang, pattern, term.seen.String())
}

// shows reports whether the output since the last match matches.
func (term *terminal) shows(re *regexp.Regexp) bool {
	term.mu.Lock()
	defer term.mu.Unlock()
	seen := strings.ReplaceAll(term.seen.String(), "\r", "")
	at := re.FindStringIndex(seen)
	if at == nil {
		return false
	}
	term.seen.Reset()
	term.seen.WriteString(seen[at[1]:])
	return true
}

func (term *terminal) exits(code int) {
	term.t.Helper()
	term.send("echo rc=$?\n")
	term.expect(fmt.Sprintf("\nrc=%d\n", code))
}

// foreground makes the shell continue a job in the foreground, and waits until its output then matches.
func (term *terminal) foreground(pattern string) {
	term.t.Helper()
	term.tell("fg\n", pattern, "")
}

// background makes the shell continue a job in the background, and waits until its output then matches.
func (term *terminal) background(pattern string) {
	term.t.Helper()
	term.tell("bg\n", pattern, "\n") // the shell reports jobs before a prompt
}

// tell sends a command to the shell, and then poke repeatedly, until the shell's output matches. A shell that
// takes the terminal back from a job may lose input at that moment: it says so, and the command is sent again.
func (term *terminal) tell(command, pattern, poke string) {
	term.t.Helper()
	lost := regexp.MustCompile("command not found")
	shown := regexp.MustCompile(pattern)
	term.send(command)
	for began := time.Now(); !term.shows(shown); time.Sleep(100 * time.Millisecond) {
		term.within(began, pattern)
		if term.shows(lost) {
			term.expectPrompt()
			term.send(command)
			continue
		}
		term.send(poke)
	}
}

// foremost is a shell command that succeeds if the shell is in the terminal's foreground.
const foremost = "{ read -r _ _ _ _ group _ _ front _ </proc/$$/stat; [ $group = $front ]; }"

// held is the value of a lock that somebody holds.
const held = `hf2:AAAAAAAAAAAAAAAAAAAAAA:17:1700000000000:0:{"o":"somebody"}`

// holds makes the shell hold a lock in the background until a file named go exists.
func (term *terminal) holds(run string) {
	term.t.Helper()
	term.send("holdfast run " + run + " -- sh -c 'touch up; until [ -e go ]; do sleep 0.05; done' & until [ -e up ]; do sleep 0.05; done; echo he''ld\n")
	term.expect("\nheld\n")
}

func TestTerminal(t *testing.T) {
	redis := server.Alone(t)
	for name, dialogue := range map[string]func(*terminal){
		"the command reads the terminal": func(term *terminal) {
			term.send("holdfast run reader -- sh -c 'echo on''ward; cat'\n")
			term.expect("onward\n")
			term.send("one line\n")
			term.expect("one line\n(.*\n)*one line\n") // the echo, and cat's
			term.send("\x04")
			term.exits(0)
		},
		"watching fills the screen": func(term *terminal) {
			for _, i := range []string{"1", "2", "3", "4", "5", "6"} {
				order(term.t, redis, "SET", "watched:{lock/"+i+"}", held)
			}
			term.send("export TERM=xterm; stty cols 60 rows 6; holdfast watch --prefix watched:; echo rc=$?\n")
			term.expect(`\x1b\[\?1049h\x1b\[\?25l\x1b\[H\x1b\[K\x1b\[1mall locks on [^\n]{1,47} \d\d:\d\d:\d\d\x1b\[0m\n\x1b\[K\x1b\[2mNAME +KIND +HOLDER +AGE +TTL +WAITING +GRANT\x1b\[0m\n(\x1b\[Klock/\d +mutex +somebody [^\n]*\n){3}\x1b\[K\x1b\[2mand 3 more\x1b\[0m`)
			expect.OK(term.t, pty.Setsize(term.file, &pty.Winsize{Rows: 20, Cols: 40}))
			term.expect(`NAME +KIND +HOLDER +AGE +WAITING\x1b\[0m\n(\x1b\[Klock/\d +mutex +somebody [^\n]*\n){6}\x1b\[J`)
			order(term.t, redis, "DEL", "watched:{lock/4}")
			term.expect(`lock/3[^\n]*\n\x1b\[Klock/5`)
			term.send("\x03")
			term.expect(`\x1b\[\?25h\x1b\[\?1049l(.*\n)*rc=130\n`)
		},
		"watching a quorum": func(term *terminal) {
			nodes := startNodes(t, 3)
			for _, s := range nodes {
				order(term.t, s, "SET", "holdfast:{nightly}", held, "PX", "3600000")
			}
			term.send("export TERM=xterm; stty cols 200 rows 6; export HOLDFAST_REDIS='" + nodes.url() + "'; holdfast watch; echo rc=$?\n")
			term.expect(`all locks on [^\n]*: 1, 1 held, waiters not known +\d\d:\d\d:\d\d\x1b\[0m\n[^\n]*WAITING[^\n]*\n\x1b\[Knightly +mutex +somebody +\d+d +\d+m +- +AAAAAAAA\n`)
			term.send("\x03")
			term.expect(`rc=130\n`)
		},
		"a list fits": func(term *terminal) {
			for _, i := range []string{"1", "2"} {
				order(term.t, redis, "SET", "listed:{a/long/name/of/a/lock/number/"+i+"}", strings.Replace(held, "body", "body-with-a-long-name", 1))
			}
			term.send("export TERM=xterm; stty cols 50; holdfast ls --prefix listed:\n")
			term.expect(`\x1b\[1mNAME +KIND +HOLDER +AGE +WAITING\x1b\[0m\n(a/long/n[^ ]*… +mutex +somebody[^ ]*… +\d+d +-\n){2}`)
			term.send("stty cols 200; NO_COLOR=1 holdfast ls --prefix listed:\n")
			term.expect(`\nNAME +KIND +HOLDER +AGE +TTL +WAITING +GRANT\n(a/long/name/of/a/lock/number/\d +mutex +somebody-with-a-long-name +\d+d +- +- +AAAAAAAA\n){2}`)
		},
		"the command is in the foreground": func(term *terminal) {
			term.script("which", foremost+" && echo front''most")
			term.send("holdfast run front -- sh which\n")
			term.expect("\nfrontmost\n")
		},
		"interrupt": func(term *terminal) {
			term.send("holdfast run interrupted -- sh -c 'setsid sleep 1000 & echo on''ward; exec sleep 1000'\n")
			term.expect("onward")
			term.send("\x03")
			term.exits(130)
		},
		"stop and continue": func(term *terminal) {
			term.send("holdfast run stopped -- sh -c 'echo on''ward; read a; echo got $a; read b; echo got $b'\n")
			term.expect("onward")
			term.send("\x1a")
			term.expect("Stopped")
			term.expectPrompt()
			term.foreground("holdfast run stopped")
			term.send("first\n")
			term.expect("\ngot f?first") // the f of an "fg" that the shell lost may come here
			term.send("\x1a")
			term.expect("Stopped")
			term.expectPrompt()
			term.background("Stopped") // it wants to read
			term.expectPrompt()
			term.foreground("holdfast run stopped")
			term.send("second\n")
			term.expect("\ngot b?second") // the b of a "bg" that the shell lost may come here
			term.exits(0)
		},
		"started in the background": func(term *terminal) {
			term.send("holdfast run background -- sh -c 'sleep 0.2; read a; echo got $a' &\n")
			term.expectOfShell("Stopped")
			term.foreground("holdfast run background")
			term.send("text\n")
			term.expect("\ngot f?text")
			term.exits(0)
		},
		"in a pipeline": func(term *terminal) {
			term.send("echo x | holdfast run piped -- sh -c 'echo on''ward; read a </dev/tty; echo got $a' | cat\n")
			term.expect("onward")
			term.send("text\n")
			term.expect("\ngot text")
			term.exits(0)
		},
		"a script gets its terminal back": func(term *terminal) {
			term.script("script", "holdfast run back -- sh -c 'read a; echo got $a'; read b; echo got $b")
			term.send("sh script\n")
			term.send("\n") // in case it comes before the terminal is set up
			term.expect("got")
			term.send("text\n")
			term.expect("got text\n")
		},
		"a script gets its terminal back from a holdfast that was killed": func(term *terminal) {
			term.script("inner", "echo $$ >pid; exec holdfast run killed -- sh -c 'kill -9 $(cat pid); sleep 1000'")
			term.script("script", "sh inner; until "+foremost+"; do sleep 0.05; done; echo on''ward; read b; echo got $b")
			term.send("sh script\n")
			term.expect("onward\n")
			term.send("text\n")
			term.expect("got text\n")
		},
		"stop and continue while waiting": func(term *terminal) {
			term.holds("queue")
			term.send("holdfast run -v queue -- echo on''ward\n")
			term.expect("waiting for lock")
			term.send("\x1a")
			term.expect("Stopped")
			term.expectPrompt()
			term.foreground("holdfast run -v queue")
			term.script("go", "")
			term.expect("\nonward")
		},
		"a run tells why it does not end, or has not run": func(term *terminal) {
			term.send("holdfast run --min-hold 3s quiet -- true\n")
			term.expect(`\nholdfast: keeping "quiet" for another `)
			term.send("holdfast run --once 1h once -- true && holdfast run --once 1h once -- false\n")
			term.expect(`\nholdfast: job "once" was completed at .*; the command was not run\n`)
			term.holds("--meta who=me busy")
			term.send("holdfast run -w 3 busy -- false\n")
			term.expect(`waiting for lock "busy", held by .*who=me`)
			term.expectPrompt()
			term.send("holdfast run -n --if-busy=skip busy -- false\n")
			term.expect(`\nholdfast: lock "busy" on .* is held by .*; skipped\n`)
			term.script("go", "")
			term.expectPrompt()
		},
		"a job that is stopped for too long loses its lock": func(term *terminal) {
			term.send("holdfast run --ttl 4s --kill-after 1s late -- sh -c 'echo on''ward; exec sleep 1000'\n")
			term.expect("onward")
			term.send("\x1a")
			term.expect("Stopped")
			term.expectPrompt()
			term.send("holdfast run -w 1m late -- echo next'' one\n")
			term.expect("\nnext one")
			term.expectPrompt()
			term.foreground("late")
			term.exits(79)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine.UndisturbedTest(t, func(t testing.TB) { dialogue(openTerminal(t, redis)) })
		})
	}
}
