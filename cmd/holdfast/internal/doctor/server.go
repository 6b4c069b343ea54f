package doctor

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// server is one server, what it says about itself, and a lock that it has.
type server struct {
	e       *examination
	addr    string
	client  *redis.Client
	replica bool // of a Cluster, or behind sentinels

	info      map[string]string // INFO, without its sections
	infoErr   error
	config    map[string]string // CONFIG GET
	configErr error
	roundTrip time.Duration // the median; 0 if unknown

	name    string // of the lock
	keys    keys.Set
	fence   string // the key of the lock's fence counter
	channel string // the channel of a waiter for the lock
}

const checkReachable = "check that it runs, and that programs that take locks can reach it"

// discover finds the servers, and loads what they say about themselves. The caller calls closeClients.
func (e *examination) discover(ctx context.Context) (closeClients func()) {
	var opened []*redis.Client
	switch c := e.Client.(type) {
	case *redis.ClusterClient:
		e.discoverCluster(ctx, c)
	case *redis.Client:
		e.servers = []*server{{addr: e.Addr, client: c}}
		if e.Sentinel != nil {
			opened = e.discoverBehindSentinels(ctx, c)
		}
	}
	slices.SortStableFunc(e.servers, func(a, b *server) int {
		if a.replica != b.replica {
			return map[bool]int{false: -1, true: 1}[a.replica]
		}
		return strings.Compare(a.addr, b.addr)
	})
	e.addrs = addrs(e.servers)
	lost := each(e.servers, func(s *server) []Finding {
		s.e = e
		if err := s.load(ctx); err != nil {
			return []Finding{warning("topology", "cannot be reached from here: "+because("INFO", err),
				"nothing else about it was examined", checkReachable)}
		}
		s.chooseLock(ctx)
		return nil
	})
	e.add(lost...)
	e.servers = slices.DeleteFunc(e.servers, func(s *server) bool {
		return slices.ContainsFunc(lost, func(f Finding) bool { return f.Servers[0] == s.addr })
	})
	return func() {
		for _, rdb := range opened {
			_ = rdb.Close()
		}
	}
}

func addrs(servers []*server) (all []string) {
	for _, s := range servers {
		all = append(all, s.addr)
	}
	return all
}

func (e *examination) discoverCluster(ctx context.Context, c *redis.ClusterClient) {
	var mu sync.Mutex
	collect := func(replica bool) func(context.Context, *redis.Client) error {
		return func(_ context.Context, rdb *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			e.servers = append(e.servers, &server{addr: rdb.Options().Addr, client: rdb, replica: replica})
			return nil
		}
	}
	if err := cmp.Or(c.ForEachMaster(ctx, collect(false)), c.ForEachSlave(ctx, collect(true))); err != nil {
		e.add(unchecked("topology", "the list of servers", err).on())
	}
}

// sentinelAnswer is what a sentinel says about the master.
type sentinelAnswer struct {
	addr    string
	err     error  // why it does not name the master, or nil
	problem string // why the sentinels cannot agree on a failover; "" if they can, or if this user may not ask

	downAfter       time.Duration // how long the master may be silent before the sentinel considers it down
	failoverTimeout time.Duration
	timesErr        error // why downAfter and failoverTimeout are not known, or nil

	master   string
	replicas []string
}

// discoverBehindSentinels asks the sentinels, and takes the replicas from the first one that names the master. It returns the clients that
// it made.
func (e *examination) discoverBehindSentinels(ctx context.Context, master *redis.Client) (opened []*redis.Client) {
	e.sentinels = connect.Each(e.Sentinel.SentinelAddrs, func(addr string) *sentinelAnswer { return e.ask(ctx, addr) })
	i := slices.IndexFunc(e.sentinels, func(s *sentinelAnswer) bool { return s.err == nil })
	if i < 0 {
		return nil
	}
	e.servers[0].addr = e.sentinels[i].master
	for _, replica := range e.sentinels[i].replicas {
		o := sameOptions(master)
		o.Addr, o.Dialer = replica, e.Sentinel.Dialer
		rdb := redis.NewClient(o)
		opened = append(opened, rdb)
		e.servers = append(e.servers, &server{addr: replica, client: rdb, replica: true})
	}
	return opened
}

func (e *examination) ask(ctx context.Context, addr string) *sentinelAnswer {
	o, name := e.Sentinel, e.Sentinel.MasterName
	client := redis.NewSentinelClient(&redis.Options{
		Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, DialerRetries: 1, MaintNotificationsConfig: noNotifications(),
	})
	defer client.Close()
	parts, err := client.GetMasterAddrByName(ctx, name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return &sentinelAnswer{addr: addr, err: sentinel.UnknownMaster(name, sentinel.Names(client.Masters(ctx).Val()))}
	case err != nil:
		return &sentinelAnswer{addr: addr, err: sentinel.Refused(err)}
	case len(parts) != 2:
		return &sentinelAnswer{addr: addr, err: errNotTold}
	}
	s := &sentinelAnswer{addr: addr, master: net.JoinHostPort(parts[0], parts[1])}
	for _, replica := range client.Replicas(ctx, name).Val() {
		s.replicas = append(s.replicas, net.JoinHostPort(replica["ip"], replica["port"]))
	}
	if err := client.CkQuorum(ctx, name).Err(); err != nil && !strings.HasPrefix(err.Error(), "NOPERM") {
		s.problem = connect.ErrorText(err)
	}
	about, err := client.Master(ctx, name).Result()
	s.downAfter, s.failoverTimeout, s.timesErr = milliseconds(about["down-after-milliseconds"]), milliseconds(about["failover-timeout"]), err
	if err == nil && s.downAfter == 0 {
		s.timesErr = errNotTold
	}
	return s
}

// milliseconds parses a number of milliseconds. It returns 0 for any other text, and at most a day, which no TTL exceeds.
func milliseconds(text string) time.Duration {
	const most = 24 * time.Hour
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(min(max(n, 0), most.Milliseconds())) * time.Millisecond
}

// sameOptions returns a client's options for another client, which has one connection and does not retry.
func sameOptions(rdb *redis.Client) *redis.Options {
	o := *rdb.Options()
	o.PoolSize, o.MinIdleConns, o.MaxRetries = 1, 0, -1
	o.MaintNotificationsConfig = noNotifications()
	return &o
}

// noNotifications switches off maintenance notifications, for which each client would look up the server's host name.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
}

// settings are the settings that checks need. None of them is secret.
var settings = []any{
	"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error",
	"min-replicas-to-write", "min-replicas-max-lag", "cluster-node-timeout",
}

// load asks for INFO and for settings. It returns an error only if the server cannot be reached.
func (s *server) load(ctx context.Context) error {
	text, err := s.client.Info(ctx).Result()
	if err != nil && !isAnswer(err) {
		return err
	}
	s.info, s.infoErr = fields(text), err
	if _, told := s.info["run_id"]; !told && err == nil {
		s.infoErr = errNotTold
	}
	reply, err := s.client.Do(ctx, append([]any{"config", "get"}, settings...)...).Result()
	s.config, s.configErr = resp.Fields(reply), err
	if _, told := s.config["maxmemory"]; !told && err == nil {
		s.configErr = errNotTold
	}
	return nil
}

// isAnswer reports whether an error is the server's reply.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// fields parses lines of NAME:VALUE.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// number returns a field of INFO as a number; 0 if it is missing.
func (s *server) number(name string) int {
	v, _ := strconv.Atoi(s.info[name])
	return v
}

// setting returns a setting from CONFIG GET or, if that lacks it, from a field of INFO.
func (s *server) setting(name, field string) (string, error) {
	if v, ok := s.config[name]; ok {
		return v, nil
	}
	if v, ok := s.info[field]; ok {
		return v, nil
	}
	return "", cmp.Or(s.configErr, errNotTold)
}

// runID returns the server's id, which it draws at random when it starts.
func (s *server) runID() string { return s.info["run_id"] }

// replicationID returns the id that a master shares with its replicas.
func (s *server) replicationID() string { return s.info["master_replid"] }

// chooseLock chooses the name of a lock that is on this server.
func (s *server) chooseLock(ctx context.Context) {
	cluster, _ := s.e.Client.(*redis.ClusterClient)
	for i := range 1000 {
		s.name = s.e.name(i)
		s.keys, _ = s.e.space.Name(s.name) // a name of letters, digits and colons is valid
		if cluster == nil || s.replica {
			break
		}
		if m, err := cluster.MasterForKey(ctx, s.keys.Lock); err != nil || m.Options().Addr == s.addr {
			break
		}
	}
	s.fence, s.channel = s.e.space.Fence, s.e.space.Channel("doctor:"+s.e.id)
	if cluster != nil {
		s.fence, s.channel = s.e.space.SlotFence(keys.Slot(s.keys.Lock)), keys.ShardChannel(s.keys, "doctor")
	}
}
