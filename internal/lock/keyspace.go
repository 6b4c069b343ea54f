package lock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// Keyspace is the locks under one prefix of a server or a Cluster, as one client uses them.
type Keyspace struct {
	Server   *exec.Server
	Config   Config // with defaults filled in
	Space    keys.Space
	Host     string        // this machine's name
	Defaults kind.Settings // of locks without options
	Cache    kind.Cache

	NodeFlags codec.Flags // of locks on a node of a quorum
	strict    codec.Flags // of incarnation.lua

	Closing chan struct{} // closed when the client closes
	Tasks   exec.Tasks    // what Close waits for
	late    exec.Tasks    // what callers do after Close began, which does not wait for them

	Departing departures
	checkOnce sync.Once
	warnings  warnings
}

// Open fills in k, which must be zero. It does no I/O. A nil cfg means the defaults.
func (k *Keyspace) Open(d driver.Driver, cfg *Config) error {
	if d == nil {
		return fmt.Errorf("%w: the driver is nil", ErrInvalid)
	}
	if cfg != nil {
		k.Config = *cfg
	}
	var err error
	if k.Host, err = os.Hostname(); err != nil {
		k.Host = "unknown"
	}
	if err := k.Config.fill(k.Host); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if k.Space, err = keys.NewSpace(k.Config.Prefix); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	k.Closing = make(chan struct{})
	k.Server = exec.New(d, exec.Config{
		CommandTimeout: k.Config.CommandTimeout, RetryTimeout: k.Config.RetryTimeout,
		Tasks: &k.Tasks, Closing: k.Closing, Accept: k.accept, ViaClient: k.Config.ViaClient,
		Lost: k.serverLost, Found: k.serverFound, ClientClosed: k.redisClientClosed,
	})
	k.Defaults = kind.Settings{Terms: &kind.Terms{TTL: k.Config.TTL, Kind: &kind.Mutex, Renew: true, MaxRenewals: -1}, Owner: k.Config.Owner}
	if err := k.Defaults.Describe(k.Host, nil); err != nil {
		return fmt.Errorf("%w: Config.Identity: %w", ErrInvalid, err)
	}
	k.strict = k.Config.strictFlags()
	k.NodeFlags = codec.Node + k.strict
	return nil
}

// RandomText returns 128 random bits in 22 characters.
func RandomText() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails, since Go 1.24
	var text [22]byte
	base64.RawURLEncoding.Encode(text[:], bits[:])
	return string(text[:])
}

// Enter begins a task for a caller, who must call End on the result. Close waits for the task unless Close began first: callers that are
// refused may retry at once, and must not hold up Close.
func (k *Keyspace) Enter() *exec.Tasks {
	t := &k.Tasks
	if k.IsClosing() {
		t = &k.late
		runtime.Gosched()
	}
	t.Begin()
	return t
}

// Ping is holdfast.Client.Ping.
func (k *Keyspace) Ping(ctx context.Context) error {
	defer k.Enter().End()
	if k.IsClosing() {
		return exec.ErrClosed
	}
	known := k.Server.Info() != nil
	err := k.Server.Connect(ctx, "")
	if err == nil && known {
		_, _, err = exec.Persist(ctx, k.Server, exec.OpReach, "", time.Time{}, k.Server.Probe)
	}
	return exec.InTask("reach the server", err)
}

// IsClosing reports whether Close has been called.
func (k *Keyspace) IsClosing() bool {
	select {
	case <-k.Closing:
		return true
	default:
		return false
	}
}

// accept refuses a server that is unfit for Strict mode.
func (k *Keyspace) accept(server driver.ServerInfo) error {
	if k.Config.Strict && server.Cluster {
		return Unadvised("it runs in Cluster mode, where Strict is not possible, because slots can move between servers")
	}
	return nil
}

// Logger returns Config.Logger, or slog's default.
func (k *Keyspace) Logger() *slog.Logger {
	if k.Config.Logger == nil {
		return slog.Default()
	}
	return k.Config.Logger
}

// LogLoss logs that a lease was lost while its holder relied on it. A slow logger delays only Close. LossSuperseded is logged as
// information, since ReleaseOwner or Latch.Reset ended that lease on purpose.
func (k *Keyspace) LogLoss(s Subject, fence uint64, err *LostError) {
	level := slog.LevelWarn
	if err.Reason == LossSuperseded {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("lock", s.Name), slog.String("reason", string(err.Reason)), slog.Uint64("fence", fence),
		slog.String("identity", s.Owner), slog.String("server", k.Server.Addr()),
	}
	if err.By != "" {
		attrs = append(attrs, slog.String("by", err.By))
	}
	if err.Note != "" {
		attrs = append(attrs, slog.String("note", err.Note))
	}
	if err.Err != nil {
		attrs = append(attrs, slog.String("error", err.Err.Error()))
	}
	k.Logger().LogAttrs(context.Background(), level, "holdfast: lease lost", attrs...)
}

func (k *Keyspace) serverLost(err error) {
	k.Logger().LogAttrs(context.Background(), slog.LevelWarn, "holdfast: server does not answer",
		slog.String("server", k.Server.Addr()), slog.String("error", err.Error()))
	if o := k.Config.Observer; o != nil && o.ServerLost != nil {
		o.ServerLost(k.Server.Addr(), err)
	}
}

func (k *Keyspace) serverFound(down time.Duration) {
	k.Logger().LogAttrs(context.Background(), slog.LevelInfo, "holdfast: server answers again",
		slog.String("server", k.Server.Addr()), slog.Duration("down", down))
	if o := k.Config.Observer; o != nil && o.ServerFound != nil {
		o.ServerFound(k.Server.Addr(), down)
	}
}

// redisClientClosed is called once, if the program has closed its Redis client before this one.
func (k *Keyspace) redisClientClosed() {
	k.Logger().LogAttrs(context.Background(), slog.LevelError, "holdfast: "+exec.ErrClientClosed.Error(),
		slog.String("server", k.Server.Addr()),
		slog.String("consequence", "nothing is acquired or renewed any more; leases end at their deadlines"),
		slog.String("remedy", "close the holdfast.Client first"))
}
