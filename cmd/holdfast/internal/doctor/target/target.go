// Package target finds the servers that a doctor examines, and has what they say about themselves.
package target

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
)

// Deployment is the servers behind a client: one, those of a Cluster, or a master and its replicas behind sentinels.
type Deployment struct {
	Mode      string      // as in a Report
	Servers   []*Server   // masters first, each sorted by address
	Sentinels []*Sentinel // the sentinels in the URL, set by Discover

	client   redis.UniversalClient
	addr     string
	sentinel *redis.FailoverOptions
	opened   []*redis.Client
}

// New returns the deployment behind a client. sentinel is nil unless the client asks sentinels.
func New(client redis.UniversalClient, addr string, sentinel *redis.FailoverOptions) *Deployment {
	d := &Deployment{Mode: "server", client: client, addr: addr, sentinel: sentinel}
	switch {
	case sentinel != nil:
		d.Mode = "sentinel"
	case d.Cluster() != nil:
		d.Mode = "cluster"
	}
	return d
}

// Cluster returns the client of a Cluster, or nil.
func (d *Deployment) Cluster() *redis.ClusterClient {
	c, _ := d.client.(*redis.ClusterClient)
	return c
}

// MasterName returns the name by which sentinels know the master.
func (d *Deployment) MasterName() string { return d.sentinel.MasterName }

// Close closes the clients that Discover made.
func (d *Deployment) Close() {
	for _, rdb := range d.opened {
		_ = rdb.Close()
	}
}

// Addrs returns the addresses of servers.
func Addrs(servers []*Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return all
}

// Masters returns the servers that are not known to be replicas.
func (d *Deployment) Masters() []*Server {
	return slices.DeleteFunc(slices.Clone(d.Servers), func(s *Server) bool { return s.Replica })
}

// Discover finds the servers.
func (d *Deployment) Discover(ctx context.Context) (found []report.Finding) {
	switch c := d.client.(type) {
	case *redis.ClusterClient:
		found = d.discoverCluster(ctx, c)
	case *redis.Client:
		if d.sentinel != nil {
			d.discoverBehindSentinels(ctx, c)
			break
		}
		d.Servers = []*Server{{Addr: d.addr, Client: c}}
	}
	slices.SortStableFunc(d.Servers, func(a, b *Server) int {
		if a.Replica != b.Replica {
			return map[bool]int{false: -1, true: 1}[a.Replica]
		}
		return strings.Compare(a.Addr, b.Addr)
	})
	return found
}

func (d *Deployment) discoverCluster(ctx context.Context, c *redis.ClusterClient) (found []report.Finding) {
	var mu sync.Mutex
	collect := func(replica bool) func(context.Context, *redis.Client) error {
		return func(_ context.Context, rdb *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			d.Servers = append(d.Servers, &Server{Addr: rdb.Options().Addr, Client: rdb, Replica: replica})
			return nil
		}
	}
	for replica, each := range map[bool]func(context.Context, func(context.Context, *redis.Client) error) error{
		false: c.ForEachMaster, true: c.ForEachSlave,
	} {
		if err := each(ctx, collect(replica)); err != nil {
			found = append(found, report.Topology.Unchecked("the list of servers", err).On())
		}
	}
	return found
}

// discoverBehindSentinels takes the master as programs reach it, and the replicas from the first sentinel that names the master.
func (d *Deployment) discoverBehindSentinels(ctx context.Context, master *redis.Client) {
	d.Sentinels = make([]*Sentinel, len(d.sentinel.SentinelAddrs))
	var asking sync.WaitGroup
	for i, addr := range d.sentinel.SentinelAddrs {
		asking.Go(func() { d.Sentinels[i] = d.ask(ctx, addr) })
	}
	asking.Wait()
	addr := d.addr
	if i := slices.IndexFunc(d.Sentinels, func(s *Sentinel) bool { return s.Err == nil }); i >= 0 {
		addr = d.Sentinels[i].master
		for _, replica := range d.Sentinels[i].replicas {
			o := SameOptions(master)
			o.Addr, o.Dialer = replica, d.sentinel.Dialer
			rdb := redis.NewClient(o)
			d.opened = append(d.opened, rdb)
			d.Servers = append(d.Servers, &Server{Addr: replica, Client: rdb, Replica: true})
		}
	}
	d.Servers = append(d.Servers, &Server{Addr: addr, Client: master})
}

// SameOptions returns the options of a client for another one, with one connection and no retries.
func SameOptions(rdb *redis.Client) *redis.Options {
	o := *rdb.Options()
	o.PoolSize, o.MinIdleConns, o.MaxRetries = 1, 0, -1
	o.MaintNotificationsConfig = noNotifications()
	return &o
}

// noNotifications switches off maintenance notifications. Otherwise each client would look up the server's name to prepare for them.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
}
