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
func openEtcd(j job) (locker, error) {
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
	return &maker{end: func() { _ = c.Close() }, mutex: func(name string) lock {
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

// etcdPatience bounds how long new members of etcd may take until they answer.
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

// etcdMembers are the servers of one etcd. They sync their log to disk before they answer, as etcd does by default.
type etcdMembers struct {
	dir       string
	endpoints []string
	members   []etcdMember
}

type etcdMember struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// startEtcd starts members with new data under dir, and waits until each of them answers.
func startEtcd(ctx context.Context, program, dir string, members int) (*etcdMembers, error) {
	dir, err := os.MkdirTemp(dir, "etcd-")
	if err != nil {
		return nil, err
	}
	e := &etcdMembers{dir: dir}
	if err := e.start(ctx, program, members); err != nil {
		err = fmt.Errorf("etcd does not start: %w: %s", err, e.logs())
		e.end()
		return nil, err
	}
	return e, nil
}

func (e *etcdMembers) start(ctx context.Context, program string, members int) error {
	var peers, cluster []string
	for i := range members {
		var ports [2]int
		for k := range ports {
			var err error
			if ports[k], err = server.ReservePort(); err != nil {
				return err
			}
		}
		e.endpoints = append(e.endpoints, fmt.Sprintf("127.0.0.1:%d", ports[0]))
		peers = append(peers, fmt.Sprintf("http://127.0.0.1:%d", ports[1]))
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	for i, endpoint := range e.endpoints {
		if err := e.launch(program, i, endpoint, peers[i], strings.Join(cluster, ","), cancel); err != nil {
			return err
		}
	}
	for _, endpoint := range e.endpoints {
		if err := answers(ctx, endpoint); err != nil {
			return err
		}
	}
	return nil
}

// launch starts a member, and calls ended when it ends.
func (e *etcdMembers) launch(program string, member int, endpoint, peer, cluster string, ended func()) error {
	name := fmt.Sprintf("m%d", member)
	cmd := exec.Command(program,
		"--name", name, "--data-dir", filepath.Join(e.dir, name), "--log-level", "error",
		"--listen-client-urls", "http://"+endpoint, "--advertise-client-urls", "http://"+endpoint,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", cluster, "--initial-cluster-state", "new")
	log, err := os.Create(filepath.Join(e.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := child.Start(cmd); err != nil {
		return err
	}
	m := etcdMember{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the log says how it ended
		close(m.ended)
		ended()
	}()
	e.members = append(e.members, m)
	return nil
}

// answers waits until a member answers a read, for which it needs a leader.
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

// end kills the members and removes their data.
func (e *etcdMembers) end() {
	for _, m := range e.members {
		_ = m.cmd.Process.Kill()
		<-m.ended
	}
	_ = os.RemoveAll(e.dir)
}

// logs returns what the members have to complain about.
func (e *etcdMembers) logs() string {
	var all strings.Builder
	paths, _ := filepath.Glob(filepath.Join(e.dir, "*.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		all.Write(text)
	}
	return strings.TrimSpace(all.String())
}

func (e *etcdMembers) addrs() []string { return e.endpoints }

// cpu returns the processor time that all members have used. It is 0 where etcd does not report it, outside Linux.
func (e *etcdMembers) cpu() (time.Duration, error) {
	seconds, err := e.sum("process_cpu_seconds_total")
	return time.Duration(seconds * float64(time.Second)), err
}

// sent returns how many messages clients have sent to the members: requests, renewals, and new watches.
func (e *etcdMembers) sent(string) (int64, error) {
	n, err := e.sum("grpc_server_msg_received_total")
	return int64(n), err
}

// sum adds up a metric over its labels and the members.
func (e *etcdMembers) sum(metric string) (sum float64, err error) {
	for _, endpoint := range e.endpoints {
		one, err := scrape("http://"+endpoint+"/metrics", metric)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
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
