package recipes

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// idempotencyLocks are the locks of fiber's idempotency middleware, an idempotency.Locker: a request that is sent again while
// another process works on it waits, and gets the stored response.
type idempotencyLocks struct {
	locks  *holdfast.Client
	leases sync.Map // of *holdfast.Lease by key
}

func (l *idempotencyLocks) Lock(key string) error {
	// A client that waits for longer gives up, as a rule. The lock is renewed for as long as the request takes.
	lease, err := l.locks.Mutex("idempotency/"+key, holdfast.Wait(30*time.Second)).Acquire(context.Background())
	if err == nil {
		l.leases.Store(key, lease)
	}
	return err
}

func (l *idempotencyLocks) Unlock(key string) error {
	lease, ok := l.leases.LoadAndDelete(key)
	if !ok {
		return fmt.Errorf("idempotency key %q is not locked", key)
	}
	return lease.(*holdfast.Lease).Release(context.Background())
}

// responses is a storage that processes share. Of a fiber.Storage, the middleware uses only this.
type responses struct {
	fiber.Storage
	stored sync.Map
}

func (r *responses) GetWithContext(_ context.Context, key string) ([]byte, error) {
	response, _ := r.stored.Load(key)
	b, _ := response.([]byte)
	return b, nil
}

func (r *responses) SetWithContext(_ context.Context, key string, response []byte, _ time.Duration) error {
	r.stored.Store(key, response)
	return nil
}

// A request that is sent to two processes at the same time is carried out once, and answered twice.
func TestFiberIdempotency(t *testing.T) {
	const key = "7a3c9b52-0d6f-4e0e-8d43-6f8f2f7f9a10"
	srv, storage := holdfasttest.Run(t), &responses{}
	var charged atomic.Int64
	working, finish := make(chan struct{}, 2), make(chan struct{})
	ask := func(locks *holdfasttest.Client) <-chan string {
		app := fiber.New()
		app.Use(idempotency.New(idempotency.Config{Lock: &idempotencyLocks{locks: locks.Client}, Storage: storage}))
		app.Post("/charge", func(c fiber.Ctx) error {
			working <- struct{}{}
			<-finish
			return c.SendString(fmt.Sprint("receipt ", charged.Add(1)))
		})
		answer := make(chan string, 1)
		go func() {
			r := httptest.NewRequest("POST", "/charge", nil)
			r.Header.Set("X-Idempotency-Key", key)
			resp, err := app.Test(r, fiber.TestConfig{}) // without a timeout
			if err != nil {
				answer <- err.Error()
				return
			}
			var body [64]byte
			n, _ := resp.Body.Read(body[:])
			answer <- string(body[:n])
		}()
		return answer
	}
	one, other := srv.NewClient(t, nil), srv.NewClient(t, nil)
	first := ask(one)
	<-working
	second := ask(other)
	for waiting := 0; waiting == 0; time.Sleep(10 * time.Millisecond) {
		s, err := one.Mutex("idempotency/" + key).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waiting = s.Waiting
	}
	close(finish)
	for _, answer := range []<-chan string{first, second} {
		if got := <-answer; got != "receipt 1" {
			t.Errorf("the answer is %q", got)
		}
	}
	if n := charged.Load(); n != 1 {
		t.Errorf("it was charged %d times", n)
	}
}
