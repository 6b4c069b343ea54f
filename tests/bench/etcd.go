package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// openEtcd makes one client, and one session for all locks, whose lease renews them together. In contended, each goroutine
// has a session of its own: etcd's mutex does not exclude goroutines that share one. The sessions' leases are left: the servers
// end after the turn.
func openEtcd(j job) (*locker, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: j.Addrs})
	if err != nil {
		return nil, err
	}
	sessions := make([]*concurrency.Session, 1)
	if j.Kind == "contended" {
		sessions = make([]*concurrency.Session, j.Goroutines)
	}
	for i := range sessions {
		if sessions[i], err = concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second))); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	var taken atomic.Int64
	return &locker{close: func() { _ = c.Close() }, lock: func(name string) lock {
		s := sessions[int(taken.Add(1))%len(sessions)]
		m := concurrency.NewMutex(s, name)
		return &handle{
			take: m.Lock,
			free: func() error { return m.Unlock(context.Background()) },
			isLost: func() bool {
				select {
				case <-s.Done():
					return true
				default:
					return false
				}
			},
		}
	}}, nil
}

// etcdPackage is etcd's server, in the version that go.mod asks for.
const etcdPackage = "go.etcd.io/etcd/server/v3"

// etcdPatience bounds how long a new etcd may take until it answers.
const etcdPatience = time.Minute

// buildEtcd builds etcd's server into a folder. missing says why it cannot be built.
func buildEtcd(ctx context.Context, dir string) (program, missing string) {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	program = filepath.Join(dir, "etcd")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, etcdPackage).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Sprintf("its server cannot be built: %v: %s", err, lines[len(lines)-1])
	}
	return program, ""
}

// etcd is a server with one member. It syncs its log to disk before it answers, as etcd does by default.
type etcd struct {
	dir      string
	endpoint string
	*child.Process
}

// startEtcd starts a server with new data under dir, and waits until it answers.
func startEtcd(ctx context.Context, program, dir string) (*etcd, error) {
	dir, err := os.MkdirTemp(dir, "etcd-")
	if err != nil {
		return nil, err
	}
	e := &etcd{dir: dir}
	if err := e.start(ctx, program); err != nil {
		said, _ := os.ReadFile(e.log())
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("etcd does not start: %w: %s", err, said)
	}
	return e, nil
}

func (e *etcd) log() string { return filepath.Join(e.dir, "log") }

func (e *etcd) start(ctx context.Context, program string) error {
	var urls [2]string // for clients, and for peers, of which there are none
	for i := range urls {
		port, err := server.ReservePort()
		if err != nil {
			return err
		}
		e.endpoint = fmt.Sprintf("127.0.0.1:%d", port)
		urls[1-i] = "http://" + e.endpoint
	}
	log, err := os.Create(e.log())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program,
		"--name", "m", "--data-dir", filepath.Join(e.dir, "m"), "--log-level", "error",
		"--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
		"--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1],
		"--initial-cluster", "m="+urls[1], "--initial-cluster-state", "new")
	cmd.Stdout, cmd.Stderr = log, log
	if e.Process, err = child.Run(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	go func() {
		<-e.Ended
		cancel()
	}()
	if err := answers(ctx, e.endpoint); err != nil {
		e.Kill()
		return err
	}
	return nil
}

// answers waits until etcd answers a read, for which it needs a leader.
func answers(ctx context.Context, endpoint string) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := c.Get(try, "ready")
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (e *etcd) end() {
	e.Kill()
	_ = os.RemoveAll(e.dir)
}

func (e *etcd) addrs() []string { return []string{e.endpoint} }

// cpu returns the processor time that the server has used. It is 0 where etcd does not report it, outside Linux.
func (e *etcd) cpu() (time.Duration, error) {
	seconds, err := scrape("http://"+e.endpoint+"/metrics", "process_cpu_seconds_total")
	return time.Duration(seconds * float64(time.Second)), err
}

// sent returns how many messages clients have sent: requests, renewals, and new watches.
func (e *etcd) sent(string) (int64, error) {
	n, err := scrape("http://"+e.endpoint+"/metrics", "grpc_server_msg_received_total")
	return int64(n), err
}

// scrape adds up a metric of Prometheus' text format over its labels.
func scrape(url, metric string) (sum float64, err error) {
	response, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, errors.New(url + ": " + response.Status)
	}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line := lines.Text()
		if name := line[:max(strings.IndexAny(line, "{ "), 0)]; name != metric {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", url, err)
		}
		sum += value
	}
	return sum, nil
}
