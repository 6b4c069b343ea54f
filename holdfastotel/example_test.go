package holdfastotel_test

import (
	"log"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfastotel"
)

var server driver.Driver // as an adapter, such as holdfastgoredis, makes one

// Metrics and traces go to the program's global providers. They tell locks of different purposes apart, but not one order
// from another.
func Example() {
	purpose := func(name string) string {
		purpose, _, _ := strings.Cut(name, ":")
		return purpose // of "order:8139" and of all other orders, "order"
	}
	observer, err := holdfastotel.New(holdfastotel.Names(purpose))
	if err != nil {
		log.Fatal(err)
	}
	// A program calls holdfastgoredis.New(rdb, cfg).
	locks, err := holdfast.New(server, &holdfast.Config{Observers: []*holdfast.Observer{observer}})
	if err != nil {
		log.Fatal(err)
	}
	_ = locks.Mutex("order:8139")
}
