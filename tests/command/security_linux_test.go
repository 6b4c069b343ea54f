package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/pki"
	"github.com/holdfast-go/holdfast/tests/internal/resp"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// invoke runs holdfast to its end, with no way to a server other than env.
func invoke(t testing.TB, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	uses(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, "holdfast", args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "HOLDFAST_REDIS=") || strings.HasPrefix(kv, "REDIS_URL=")
	}), append(env, "GORACE=atexit_sleep_ms=0")...)
	cmd.WaitDelay = 5 * time.Second
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Error(err)
		return -1, "", ""
	}
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

func TestCommandOverTLS(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.One(t))
	authority, stranger := pki.NewAuthority(t, "authority"), pki.NewAuthority(t, "stranger")
	hour := time.Now().Add(time.Hour)
	addr := pki.Listen(t, s, authority.Issue("redis.test", hour), authority)
	mine, rubbish := authority.Issue("client", hour), filepath.Join(t.TempDir(), "rubbish.pem")
	if err := os.WriteFile(rubbish, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
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
			})
		}
		wg.Wait()
	})
	for _, args := range [][]string{{"doctor", "--clock", "20ms"}, {"init"}} {
		_, _, stderr := invoke(t, []string{"HOLDFAST_REDIS=rediss://" + addr + "?skip_verify=true" + own}, args...)
		if !strings.Contains(stderr, warning) {
			t.Errorf("%s: said %q, want %q", args[0], stderr, warning)
		}
	}
	if !soak.Long() {
		return
	}
	code, stdout, stderr := invoke(t, []string{"HOLDFAST_REDIS=rediss://" + addr + "?tls_ca=" + authority.File + "&tls_server_name=redis.test" + own},
		"demo", "--redis", "env", "--workers", "2")
	if code != 0 || stderr != "" {
		t.Errorf("demo: exit code %d: %s%s", code, stdout, stderr)
	}
}

// Fault: A lock's value says hostile things of its holder. A terminal is shown harmless text, and a program JSON.
func TestHostileHolders(t *testing.T) {
	long(t)
	t.Parallel()
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
		name := fmt.Sprint("hostile-", i)
		if _, err := s.Do("SET", "holdfast:{"+name+"}", value); err != nil {
			t.Fatal(err)
		}
		slot := "slot-" + name
		hold := "9000000000000000:1:7:1700000000000:" + strings.TrimPrefix(value, "hf2:t:7:1700000000000:0:")
		if _, err := s.Do("HSET", "holdfast:{"+slot+"}", "kind", "sem", "limit", "1", "used", "1", "next", "9000000000000000", "last", "t", "t", hold); err != nil {
			t.Fatal(err)
		}
		for _, flags := range [][]string{
			{"-n", name}, {"-n", "--if-busy=skip", "-v", name}, {"-nq", "--json", name},
			{"-n", "--slots=1", slot}, {"-n", "--slots=1", "--if-busy=skip", "-v", slot}, {"-nq", "--slots=1", "--json", slot},
		} {
			code, stdout, stderr := invoke(t, env, slices.Concat([]string{"run"}, flags, []string{"--", "true"})...)
			if code != 75 && code != 0 || stdout != "" || stderr == "" {
				t.Errorf("%.50q %v: exit code %d: %s%.200q", value, flags, code, stdout, stderr)
			}
			shown := strings.TrimSuffix(stderr, "\n")
			if strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) || len(stderr) > 5000 {
				t.Errorf("%.50q %v: said %.300q", value, flags, stderr)
			}
			if slices.Contains(flags, "--json") {
				var report struct {
					Outcome string         `json:"outcome"`
					Holder  map[string]any `json:"holder"`
				}
				if err := json.Unmarshal([]byte(stderr), &report); err != nil || report.Outcome != "busy" || report.Holder == nil {
					t.Errorf("%.50q: the report is %.300q: %v", value, stderr, err)
				}
			}
		}
	}
}

// echoing starts a server that knows no command, and answers as servers do: with the arguments.
func echoing(t testing.TB) (addr string) {
	return accepting(t, "127.0.0.1", func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for {
			raw, err := resp.ReadRequest(r)
			if err != nil {
				return
			}
			words := strings.Split(string(raw), "\r\n")
			_, _ = fmt.Fprintf(conn, "-ERR unknown command `%s`, with args beginning with: %s\r\n", words[min(2, len(words)-1)], strings.Join(words[min(3, len(words)):], "` `"))
		}
	})
}

// silent starts a server that answers nothing.
func silent(t testing.TB) (addr string) {
	return accepting(t, "127.0.0.1", func(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadString(0) })
}

// If a run asks a node of a quorum why it does not grant, the node's answer is shown as one line, without the
// parts of the password that it repeats.
func TestWhatANodeSaysIsShownAsText(t *testing.T) {
	t.Parallel()
	all := nodes{server.Start(t, server.One(t)), server.Start(t, server.One(t))}
	password := strings.Repeat("kanarie-7531-", 16) // a server repeats its first 128 characters
	echo := accepting(t, "127.0.0.1", func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for {
			if line, err := lines.ReadString('\n'); err != nil {
				return
			} else if strings.HasPrefix(line, "*") {
				fmt.Fprintf(conn, "-ERR unknown \x1b[31m\a\u202e command 'HELLO', with args beginning with: '3' 'AUTH' '%.128s'\r\n", password)
			}
		}
	})
	env := []string{"HOLDFAST_REDIS=redis://" + all[0].Addr() + " redis://" + all[1].Addr() + " redis://:" + password + "@" + echo}
	away := server.Start(t, server.One(t))
	admitting := []string{"HOLDFAST_REDIS=redis://" + all[0].Addr() + " redis://" + all[1].Addr() + " redis://" + away.Addr()}
	if code, _, stderr := invoke(t, admitting, "init"); code != 0 {
		t.Fatalf("init: exit code %d: %s", code, stderr)
	}
	code, _, stderr := invoke(t, env, append([]string{"run"}, append(patientNodes, "q", "--", "true")...)...)
	if code != 0 || !strings.Contains(stderr, "node "+echo+" does not answer") || !strings.Contains(stderr, `unknown \x1b[31m\a\u202e command`) {
		t.Errorf("exit code %d, and it says %q", code, stderr)
	}
	if strings.Contains(stderr, "kanarie") || strings.ContainsFunc(strings.TrimSuffix(stderr, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("it shows %q", stderr)
	}
}

// No command shows the password, whatever happens on the way.
func TestNoCommandShowsThePassword(t *testing.T) {
	t.Parallel()
	const user = "zeisig"
	for n, password := range []string{"k4n/r ie@%:#?", "kanarie-7531", "ünï-cødé-7531"} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.One(t))
			for _, command := range [][]any{
				{"ACL", "SETUSER", user, "on", ">" + password, "~*", "&*", "+@all"},
				{"ACL", "SETUSER", "half", "on", ">" + password, "~*", "&*", "+@all", "-set", "-publish"},
			} {
				if _, err := s.Do(command...); err != nil {
					t.Fatal(err)
				}
			}
			encoded := url.UserPassword(user, password).String()
			forms := []string{password, url.QueryEscape(password), url.PathEscape(password), strings.TrimPrefix(encoded, user+":"), encoded}
			check := func(t *testing.T, what string, texts ...string) {
				t.Helper()
				for _, text := range texts {
					for _, form := range forms {
						if strings.Contains(text, form) {
							t.Errorf("%s shows %q: %s", what, form, text)
						}
					}
				}
			}
			at := func(scheme, who, addr string) string {
				return scheme + "://" + strings.Replace(encoded, user, who, 1) + "@" + addr
			}
			var wg sync.WaitGroup
			for _, c := range []struct {
				what, url string
				codes     []int
			}{
				{"works", at("redis", user, s.Addr()), []int{0}},
				{"refused", at("redis", user, "127.0.0.1:1"), []int{69}},
				{"wrong user", at("redis", "nobody", s.Addr()), []int{77}},
				{"no permission", at("redis", "half", s.Addr()), []int{77}},
				{"silent", at("redis", user, silent(t)), []int{69}},
				{"repeats arguments", at("redis", user, echoing(t)), []int{69, 77, 78}},
				{"TLS to a port without", at("rediss", user, s.Addr()), []int{69}},
				{"no such host", at("redis", user, "no-such-host.invalid"), []int{69}},
				{"bad database", at("redis", user, s.Addr()) + "/" + url.PathEscape(password), []int{78}},
				{"unknown parameter", at("redis", user, s.Addr()) + "?password=" + url.QueryEscape(password), []int{78}},
				{"bad file", at("rediss", user, s.Addr()) + "?tls_ca=" + url.QueryEscape(password), []int{78}},
				{"Sentinel", at("redis+sentinel", user, silent(t)) + "?master_name=m", []int{69}},
				{"Cluster", at("redis+cluster", user, "127.0.0.1:1"), []int{69}},
				{"not encoded", "redis://" + user + ":" + password + "@" + s.Addr(), []int{0, 69, 77, 78}},
			} {
				brief := c.what == "works" || c.what == "wrong user" || c.what == "not encoded"
				if (n > 0 && !soak.Long() || testing.Short()) && !brief {
					continue // these fail in the same way, whatever the password
				}
				wait := "200ms"
				if c.codes[0] == 0 || c.codes[0] == 77 {
					wait = "1m" // the server answers, but slowly
				}
				wg.Go(func() { // they mostly wait
					report := filepath.Join(t.TempDir(), "report.json")
					run := []string{"run", "-v", "-w", wait, "--json=" + report, strings.ReplaceAll(c.what, " ", "-"), "--", "sh", "-c", "env; cat /proc/$$/cmdline /proc/$PPID/cmdline /proc/$PPID/environ"}
					for _, args := range [][]string{run, slices.Insert(slices.Clone(run), 1, "--redis", c.url)} {
						env := []string{"HOLDFAST_REDIS=" + c.url}
						if slices.Contains(args, "--redis") {
							env = nil
						}
						code, stdout, stderr := invoke(t, env, args...)
						if !slices.Contains(c.codes, code) {
							t.Errorf("%s: exit code %d, want one of %v: %s", c.what, code, c.codes, stderr)
						}
						text, _ := os.ReadFile(report) // there is no report if the command line is refused
						check(t, "run", stdout, stderr, string(text))
					}
					if c.what == "wrong user" || c.what == "repeats arguments" || c.what == "works" && soak.Long() {
						_, stdout, stderr := invoke(t, []string{"REDIS_URL=" + c.url}, "demo", "--redis", "env", "--workers", "2", "--json")
						check(t, "demo", stdout, stderr)
					}
				})
			}
			wg.Wait()
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
	value, err := s.Do("GET", "holdfast:{"+t.Name()+"}")
	if err != nil {
		t.Fatal(err)
	}
	token := strings.Split(fmt.Sprint(value), ":")[1]
	if len(token) != 22 {
		t.Fatalf("the token is %q", token)
	}
	pids := r.alive()
	if len(pids) < 4 { // holdfast, its keeper, the shell, sleep
		t.Fatalf("processes: %v", pids)
	}
	read := 0
	for _, pid := range pids {
		for _, file := range []string{"cmdline", "environ", "comm"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if (errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)) && pid != r.cmd.Process.Pid {
				continue // a process that the shell started, and that has ended
			}
			if err != nil {
				t.Fatal(err)
			}
			read++
			if strings.Contains(string(text), token) {
				t.Errorf("the %s of process %d has the token", file, pid)
			}
			if strings.Contains(string(text), password) && (pid != r.cmd.Process.Pid || file != "environ") {
				t.Errorf("the %s of process %d has the password: %q", file, pid, text)
			}
		}
	}
	if read < 3*4 {
		t.Errorf("only %d files of processes %v were read", read, pids)
	}
	_ = r.cmd.Process.Signal(os.Interrupt)
	<-r.done
	for _, secret := range []string{token, password} {
		if strings.Contains(r.stderr.String(), secret) {
			t.Errorf("holdfast said %s", &r.stderr)
		}
	}
}

// credentialed is a server's address with a password in front of it.
type credentialed struct {
	*server.Server
	password string
}

func (c credentialed) Addr() string { return ":" + c.password + "@" + c.Server.Addr() }
