package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
)

// logger returns Config.Logger.
func (c *Client) logger() *slog.Logger {
	if c.cfg.Logger == nil {
		return slog.Default()
	}
	return c.cfg.Logger
}

// logLoss logs that a lease was lost while its holder relied on it. A slow logger delays only Close. LossSuperseded is logged
// as information: somebody did that on purpose, by ReleaseOwner or Latch.Reset.
func (c *Client) logLoss(s Subject, fence uint64, err *LostError) {
	level := slog.LevelWarn
	if err.Reason == LossSuperseded {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("lock", s.Name), slog.String("reason", string(err.Reason)), slog.Uint64("fence", fence),
		slog.String("identity", s.Owner), slog.String("server", c.server.Addr()),
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
	c.logger().LogAttrs(context.Background(), level, "holdfast: lease lost", attrs...)
}

// serverLost is called when the server stops answering.
func (c *Client) serverLost(err error) {
	c.logger().LogAttrs(context.Background(), slog.LevelWarn, "holdfast: server does not answer",
		slog.String("server", c.server.Addr()), slog.String("error", err.Error()))
	if o := c.cfg.Observer; o != nil && o.ServerLost != nil {
		o.ServerLost(c.server.Addr(), err)
	}
}

// serverFound is called when the server answers again.
func (c *Client) serverFound(down time.Duration) {
	c.logger().LogAttrs(context.Background(), slog.LevelInfo, "holdfast: server answers again",
		slog.String("server", c.server.Addr()), slog.Duration("down", down))
	if o := c.cfg.Observer; o != nil && o.ServerFound != nil {
		o.ServerFound(c.server.Addr(), down)
	}
}

// redisClientClosed is called once if the program has closed its Redis client before this one.
func (c *Client) redisClientClosed() {
	c.logger().LogAttrs(context.Background(), slog.LevelError, "holdfast: "+exec.ErrClientClosed.Error(),
		slog.String("server", c.server.Addr()),
		slog.String("consequence", "nothing is acquired or renewed any more; leases end at their deadlines"),
		slog.String("remedy", "close the holdfast.Client first"))
}
