package bare

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// subscriber opens the connection for subscriptions. There is one server, so there is nothing to locate.
type subscriber struct{ dial Dial }

func (subscriber) Locate(pubsub.Channel) (string, bool) { return "", true }

func (subscriber) Refresh(context.Context, pubsub.Channel, error) error { return nil }

func (s subscriber) Connect(ctx context.Context, _ string, l *pubsub.Link) (pubsub.Conn, error) {
	c, err := s.dial.open(ctx)
	if err != nil {
		return nil, err
	}
	go listen(c, l)
	return subscribed{c}, nil
}

// listen passes what arrives to the link, until the connection fails.
func listen(c *Conn, l *pubsub.Link) {
	for {
		reply, err := c.receive()
		if err != nil {
			l.Failed(err)
			return
		}
		items, _ := reply.([]any)
		if len(items) != 3 {
			l.Failed(errMalformed)
			return
		}
		switch kind, name := text(items[0]), text(items[1]); kind {
		case "message", "smessage":
			l.Message(name, text(items[2]))
		case "subscribe", "ssubscribe":
			l.Confirmed(pubsub.Channel{Name: name, Sharded: kind == "ssubscribe"})
		case "unsubscribe", "sunsubscribe":
			l.Ended(pubsub.Channel{Name: name, Sharded: kind == "sunsubscribe"})
		}
	}
}

// subscribed is the connection for subscriptions.
type subscribed struct{ c *Conn }

func (s subscribed) Send(_ context.Context, commands []pubsub.Command) error {
	words := make([][]string, len(commands))
	for i, command := range commands {
		words[i] = command.Words()
	}
	return s.c.send(context.Background(), words...) // without a deadline for what arrives
}

func (subscribed) CheckMaster(context.Context) error { return nil }

func (s subscribed) Close() { s.c.Close() }
