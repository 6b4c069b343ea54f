package target

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/sentinel"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
)

// Sentinel is what a sentinel says about the master.
type Sentinel struct {
	Addr    string
	Err     error  // why it does not name the master, or nil
	Problem string // why the sentinels could not agree on a failover; "" if they could, or if this user may not ask

	DownAfter       time.Duration // after which it considers the master down
	FailoverTimeout time.Duration
	TimesErr        error // why DownAfter and FailoverTimeout are not known, or nil

	master   string
	replicas []string
}

// IsMistaken reports whether the address is wrong: it is not a sentinel's, or the sentinel does not know the master's name.
func (s *Sentinel) IsMistaken() bool { return sentinel.IsMistake(s.Err) }

// ask asks the sentinel at addr about the master.
func (d *Deployment) ask(ctx context.Context, addr string) *Sentinel {
	s, name := &Sentinel{Addr: addr}, d.sentinel.MasterName
	client := redis.NewSentinelClient(&redis.Options{
		Addr: addr, Username: d.sentinel.SentinelUsername, Password: d.sentinel.SentinelPassword,
		Dialer: d.sentinel.Dialer, TLSConfig: d.sentinel.TLSConfig, DialTimeout: d.sentinel.DialTimeout, ReadTimeout: d.sentinel.ReadTimeout, DialerRetries: 1,
		MaintNotificationsConfig: noNotifications(),
	})
	defer client.Close()
	parts, err := client.GetMasterAddrByName(ctx, name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		s.Err = sentinel.UnknownMaster(name, sentinel.Names(client.Masters(ctx).Val()))
		return s
	case err != nil:
		s.Err = sentinel.Refused(err)
		return s
	case len(parts) != 2:
		s.Err = report.ErrNotTold
		return s
	}
	s.master = net.JoinHostPort(parts[0], parts[1])
	for _, replica := range client.Replicas(ctx, name).Val() {
		s.replicas = append(s.replicas, net.JoinHostPort(replica["ip"], replica["port"]))
	}
	if err := client.CkQuorum(ctx, name).Err(); err != nil && !strings.HasPrefix(err.Error(), "NOPERM") {
		s.Problem = report.ServerText(err)
	}
	about, err := client.Master(ctx, name).Result()
	s.DownAfter, s.FailoverTimeout, s.TimesErr = Milliseconds(about["down-after-milliseconds"]), Milliseconds(about["failover-timeout"]), err
	if err == nil && s.DownAfter == 0 {
		s.TimesErr = report.ErrNotTold
	}
	return s
}

// Milliseconds parses a number of milliseconds, and returns 0 for any other text. It returns at most a day, which no TTL outlasts.
func Milliseconds(text string) time.Duration {
	const most = 24 * time.Hour
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(min(max(n, 0), most.Milliseconds())) * time.Millisecond
}
