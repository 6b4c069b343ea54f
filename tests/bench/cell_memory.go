package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// memory takes many locks, and asks the server, which nobody else uses, what they take in its memory.
func memory(ctx context.Context, l *locker, j job, _ *board, start func() error) (o outcome, err error) {
	if _, err := readied(ctx, l, j); err != nil { // scripts and the fence counter do not count as part of locks
		return o, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: j.Addrs[0]})
	defer rdb.Close()
	if err := start(); err != nil {
		return o, err
	}
	before, err := settledMemory(ctx, rdb)
	if err != nil {
		return o, err
	}
	read := meter()
	began := time.Now()
	locks := make([]lock, j.Leases)
	err = measure.InParallel(j.Goroutines, j.Leases, func(i int) error {
		locks[i] = l.lock(fmt.Sprintf("order-%06d", i))
		return locks[i].acquire(ctx)
	})
	if err != nil {
		return o, err
	}
	after, err := settledMemory(ctx, rdb)
	if err != nil {
		return o, err
	}
	if err := measure.InParallel(j.Goroutines, j.Leases, func(i int) error { return locks[i].release() }); err != nil {
		return o, err
	}
	o.Cycles, o.Took = j.Leases, time.Since(began)
	read(&o)
	o.Figures = figures{"stored": (after - before) / float64(j.Leases)}
	return o, nil
}

// settledMemory returns what the server has allocated, in bytes, without connections and scripts. It reads that until it is the
// same for half a second: a hash table that has grown is moved little by little, and the old one is freed in the end.
func settledMemory(ctx context.Context, rdb *redis.Client) (allocated float64, err error) {
	same := 0
	for range 100 {
		p := rdb.TxPipeline()
		stats, clients := p.Do(ctx, "MEMORY", "STATS"), p.ClientList(ctx) // clients.normal of MEMORY STATS is up to a second old
		if _, err := p.Exec(ctx); err != nil {
			return 0, err
		}
		all, last := pairs(stats.Val()), allocated
		if allocated = number(all["total.allocated"]) - number(all["lua.caches"]) - clientMemory(clients.Val()); allocated != last {
			same = 0
		}
		if same++; same > 5 {
			return allocated, nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("the memory of the server does not come to rest")
}

// clientMemory adds up what connections take, from a reply to CLIENT LIST.
func clientMemory(list string) (sum float64) {
	for _, field := range strings.Fields(list) {
		if n, is := strings.CutPrefix(field, "tot-mem="); is {
			bytes, _ := strconv.ParseFloat(n, 64)
			sum += bytes
		}
	}
	return sum
}

// pairs returns a reply of names and values.
func pairs(reply any) map[string]any {
	all := map[string]any{}
	for name, value := range reply.(map[any]any) {
		all[fmt.Sprint(name)] = value
	}
	return all
}

func number(reply any) float64 {
	n, _ := reply.(int64)
	return float64(n)
}
