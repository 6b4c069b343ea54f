package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/pki"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

func TestCommandOverTLS(t *testing.T) {
	s := server.Alone(t)
	authority, stranger := pki.NewAuthority(t, "authority"), pki.NewAuthority(t, "stranger")
	hour := time.Now().Add(time.Hour)
	addr := pki.Listen(t, s, authority.Issue("redis.test", hour), authority)
	mine, rubbish := authority.Issue("client", hour), filepath.Join(t.TempDir(), "rubbish.pem")
	expect.OK(t, os.WriteFile(rubbish, []byte("rubbish"), 0o600))
	own := "&tls_cert=" + mine.Cert + "&tls_key=" + mine.Key
	const warning = "warning: the server's certificate is not verified"
	machine.UndisturbedTest(t, func(t testing.TB) { // the reason why a connection fails is shown unless a timeout comes first
		var wg sync.WaitGroup
		for _, c := range []struct {
			what, url string
			code      int
			says      string
		}{
			{"all that is needed", "rediss://" + addr + "?tls_ca=" + authority.File + "&tls_server_name=redis.test" + own, 0, ""},
			{"the system's authorities", "rediss://" + addr + "?tls_server_name=redis.test" + own, 69, "unknown authority"},
			{"another authority", "rediss://" + addr + "?tls_ca=" + stranger.File + "&tls_server_name=redis.test" + own, 69, "unknown authority"},
			{"another name", "rediss://" + addr + "?tls_ca=" + authority.File + own, 69, "127.0.0.1"},
			{"no client certificate", "rediss://" + addr + "?tls_ca=" + authority.File + "&tls_server_name=redis.test", 69, "unavailable"},
			{"unverified", "rediss://" + addr + "?skip_verify=true" + own, 0, warning},
			{"verified by word", "rediss://" + addr + "?skip_verify=false&tls_ca=" + authority.File + "&tls_server_name=redis.test" + own, 0, ""},
			{"no TLS", "redis://" + addr, 69, "begin the URL with rediss://"},
			{"TLS to a port without", "rediss://" + s.Addr(), 69, "begin the URL with redis://"},
			{"a parameter that is none", "rediss://" + addr + "?tls_caa=x", 78, "an unknown parameter: tls_caa"},
			{"parameters without TLS", "redis://" + s.Addr() + "?tls_ca=" + authority.File, 78, "does not begin with rediss"},
			{"no such file", "rediss://" + addr + "?tls_ca=/no/such/file", 78, "tls_ca in HOLDFAST_REDIS: cannot read the file: no such file"},
			{"not PEM", "rediss://" + addr + "?tls_ca=" + rubbish, 78, "the file has no certificate in PEM"},
			{"a key that is none", "rediss://" + addr + "?tls_cert=" + mine.Cert + "&tls_key=" + rubbish, 78, "tls_cert and tls_key"},
			{"a certificate without its key", "rediss://" + addr + "?tls_cert=" + mine.Cert, 78, "one needs the other"},
		} {
			wg.Go(func() { // they mostly wait
				code, _, stderr := invoke(t, []string{"HOLDFAST_REDIS=" + c.url}, "run", "-w", "5s", "tls", "--", "true")
				if code != c.code || !strings.Contains(stderr, c.says) || c.says == "" && stderr != "" {
					t.Errorf("%s: exit code %d, want %d; said %q, want %q", c.what, code, c.code, stderr, c.says)
				}
				if strings.HasPrefix(c.what, "another ") && strings.Contains(stderr, "begin the URL") {
					t.Errorf("%s: the URL is right, but %q", c.what, stderr)
				}
			})
		}
		wg.Wait()
	})
	for _, args := range [][]string{{"doctor", "--clock", "20ms"}, {"init"}} {
		_, _, stderr := invoke(t, []string{"HOLDFAST_REDIS=rediss://" + addr + "?skip_verify=true" + own}, args...)
		expect.Contains(t, args[0], stderr, warning)
	}
}

// Fault: A lock's value says hostile things of its holder. A terminal is shown harmless text, and a program JSON.
func TestHostileHolders(t *testing.T) {
	long(t)
	s := server.Start(t, server.One(t))
	env := []string{"HOLDFAST_REDIS=redis://" + s.Addr()}
	for i, value := range []string{
		`hf2:t:7:1700000000000:0:{"o":"\u001b[2J\u001b]0;owned\u0007","h":"\u009b31m","p":7,"m":{"\u202e":"\u2066x","\u007f":"\n"}}`,
		`hf2:t:7:1700000000000:0:{"o":"x (pid 1 on y); the command was run\nholdfast: released","h":"\r"}`,
		"hf2:t:7:1700000000000:0:{\"o\":\"\xff\xfe\",\"h\":\"\xed\xa0\x80\",\"p\":1}",
		`hf2:t:7:1700000000000:0:{"o":"` + strings.Repeat("A", 1_000_000) + `"}`,
		`hf2:t:7:9223372036854775807:0:{"o":"from the year 292278994"}`,
		"\x1b[2J", "",
	} {
		name, slot := fmt.Sprint("hostile-", i), fmt.Sprint("slot-hostile-", i)
		order(t, s, "SET", "holdfast:{"+name+"}", value)
		hold := "9000000000000000:1:7:1700000000000:" + strings.TrimPrefix(value, "hf2:t:7:1700000000000:0:")
		order(t, s, "HSET", "holdfast:{"+slot+"}", "kind", "sem", "limit", "1", "used", "1", "next", "9000000000000000", "last", "t", "t", hold)
		for _, args := range [][]string{
			{name}, {"--if-busy=skip", "-v", name}, {"--json", "-q", name}, {"--slots=1", slot}, {"--json", "-q", "--slots=1", slot},
		} {
			code, stdout, stderr := invoke(t, env, slices.Concat([]string{"run", "-n"}, args, []string{"--", "true"})...)
			if code != 75 && code != 0 || stdout != "" || stderr == "" || len(stderr) > 5000 || !printable(strings.TrimSuffix(stderr, "\n")) {
				t.Errorf("%.50q %v: exit code %d: %s%.300q", value, args, code, stdout, stderr)
			}
			var report struct {
				Outcome string
				Holder  map[string]any
			}
			if args[0] == "--json" && (json.Unmarshal([]byte(stderr), &report) != nil || report.Outcome != "busy" || report.Holder == nil) {
				t.Errorf("%.50q: the report is %.300q", value, stderr)
			}
		}
	}
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// If a run asks a node of a quorum why it does not grant, the node's answer is shown as one line, without the
// parts of the password that it repeats.
func TestWhatANodeSaysIsShownAsText(t *testing.T) {
	t.Parallel()
	start := func() string { return server.Start(t, server.One(t)).Addr() }
	two := "HOLDFAST_REDIS=redis://" + start() + " redis://" + start() + " redis://"
	if code, _, stderr := invoke(t, []string{two + start()}, "init"); code != 0 {
		t.Fatalf("init: exit code %d: %s", code, stderr)
	}
	password := strings.Repeat("kanarie-7531-", 16)
	echo := answering(t, repeating(password))
	args := slices.Concat([]string{"run"}, patientNodes, []string{"q", "--", "true"})
	code, _, stderr := invoke(t, []string{two + ":" + password + "@" + echo}, args...)
	if code != 0 || !strings.Contains(stderr, "node "+echo+" does not answer") || !strings.Contains(stderr, `unknown \x1b[31m\a\u202e command`) {
		t.Errorf("exit code %d, and it says %q", code, stderr)
	}
	if strings.Contains(stderr, "kanarie") || !printable(strings.TrimSuffix(stderr, "\n")) {
		t.Errorf("it shows %q", stderr)
	}
}

// No command shows the password, whatever happens on the way, nor do the environment and the command lines of the job. The command's own
// tests refuse URLs with mistakes, and passwords.
func TestNoCommandShowsThePassword(t *testing.T) {
	t.Parallel()
	const user, password = "zeisig", "k4n/r ie@%:#?ü"
	s := server.Start(t, server.One(t))
	order(t, s, "ACL", "SETUSER", user, "on", ">"+password, "~*", "&*", "+@all")
	order(t, s, "ACL", "SETUSER", "half", "on", ">"+password, "~*", "&*", "+@all", "-set", "-publish")
	encoded := url.UserPassword(user, password).String()
	forms := []string{password, url.QueryEscape(password), url.PathEscape(password), strings.TrimPrefix(encoded, user+":")}
	at := func(scheme, who, addr string) string {
		return scheme + "://" + strings.Replace(encoded, user, who, 1) + "@" + addr
	}
	for what, c := range map[string]struct {
		url   string
		codes []int
	}{
		"works":                 {at("redis", user, s.Addr()), []int{0}},
		"wrong user":            {at("redis", "nobody", s.Addr()), []int{77}},
		"no permission":         {at("redis", "half", s.Addr()), []int{77}},
		"repeats arguments":     {at("redis", user, answering(t, repeating(password))), []int{69, 77, 78}},
		"silent":                {at("redis", user, answering(t, "")), []int{69}},
		"TLS to a port without": {at("rediss", user, s.Addr()), []int{69}},
		"not encoded":           {"redis://" + user + ":" + password + "@" + s.Addr(), []int{78}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			wait := "200ms"
			if c.codes[0] == 0 || c.codes[0] == 77 {
				wait = "1m" // the server answers, but slowly
			}
			report := filepath.Join(t.TempDir(), "report.json")
			commands := [][]string{{
				"run", "-v", "-w", wait, "--json=" + report, what, "--",
				"sh", "-c", "env; cat /proc/$$/cmdline /proc/$PPID/cmdline /proc/$PPID/environ",
			}}
			if what == "repeats arguments" {
				commands = append(commands, []string{"bench", "-for", "1s"})
			}
			for _, args := range commands {
				code, stdout, stderr := invoke(t, []string{"HOLDFAST_REDIS=" + c.url}, args...)
				if !slices.Contains(c.codes, code) {
					t.Errorf("%s: exit code %d, want one of %v: %s", args[0], code, c.codes, stderr)
				}
				text, _ := os.ReadFile(report) // there is no report if the URL is refused
				for _, form := range forms {
					expect.Lacks(t, args[0], stdout+stderr+string(text), form)
				}
			}
		})
	}
}

// While a job runs, the password is in the environment of the process that its user started, and of no other
// process; the token is in none.
func TestProcessesDoNotCarrySecrets(t *testing.T) {
	t.Parallel()
	const password = "kanarie-7531"
	s := server.Start(t, server.One(t), server.Conf("requirepass", password))
	r := begin(t, credentialed{s, password}, "sleep 1000 & touch $DIR/up; wait", "-v")
	r.up()
	value := expect.Of(s.Do("GET", "holdfast:{"+t.Name()+"}")).OK(t)
	token := strings.Split(fmt.Sprint(value), ":")[1]
	expect.Equal(t, "the token's length", len(token), 22)
	pids := r.alive()
	if len(pids) < 4 { // holdfast, its keeper, the shell, sleep
		t.Fatalf("processes: %v", pids)
	}
	read := 0
	for _, pid := range pids {
		for _, file := range []string{"cmdline", "environ", "comm"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if (errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)) && pid != r.Cmd.Process.Pid {
				continue // a process that the shell started, and that has ended
			}
			expect.OK(t, err)
			read++
			expect.Lacks(t, fmt.Sprintf("the %s of process %d", file, pid), string(text), token)
			if strings.Contains(string(text), password) && (pid != r.Cmd.Process.Pid || file != "environ") {
				t.Errorf("the %s of process %d has the password: %q", file, pid, text)
			}
		}
	}
	if read < 3*4 {
		t.Errorf("only %d files of processes %v were read", read, pids)
	}
	_ = r.Cmd.Process.Signal(os.Interrupt)
	<-r.Ended
	for _, secret := range []string{token, password} {
		expect.Lacks(t, "what holdfast said", r.stderr(), secret)
	}
}

// credentialed is a server's address with a password in front of it.
type credentialed struct {
	*server.Server
	password string
}

func (c credentialed) Addr() string { return ":" + c.password + "@" + c.Server.Addr() }
