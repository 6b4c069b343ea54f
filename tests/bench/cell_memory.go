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
func memory(ctx context.Context, l locker, j job, _ *board, start func() error) (o outcome, err error) {
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
	keys, err := readKeys(ctx, rdb)
	if err != nil {
		return o, err
	}
	if err := measure.InParallel(j.Goroutines, j.Leases, func(i int) error { return locks[i].release() }); err != nil {
		return o, err
	}
	o.Cycles, o.Took = j.Leases, time.Since(began)
	read(&o)
	n := float64(j.Leases)
	o.Figures = figures{
		"stored":       (after - before) / n,
		"stored_keys":  float64(keys.usage) / n,
		"stored_rest":  (after - before - float64(keys.usage)) / n,
		"stored_name":  float64(keys.names) / n,
		"stored_value": float64(keys.values) / n,
	}
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

// storedKeys are the keys on the server.
type storedKeys struct {
	usage  int64 // MEMORY USAGE of all, in bytes
	names  int64 // the lengths of all
	values int64 // those of strings
}

func readKeys(ctx context.Context, rdb *redis.Client) (k storedKeys, err error) {
	for cursor := uint64(0); ; {
		var names []string
		if names, cursor, err = rdb.Scan(ctx, cursor, "", 1000).Result(); err != nil {
			return k, err
		}
		usage, values := make([]*redis.IntCmd, len(names)), make([]*redis.IntCmd, len(names))
		// A hash has no length as a string, which is an error.
		_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				usage[i], values[i] = p.MemoryUsage(ctx, name, 0), p.StrLen(ctx, name)
			}
			return nil
		})
		for i, name := range names {
			if usage[i].Err() != nil {
				return k, usage[i].Err()
			}
			k.usage += usage[i].Val()
			k.names += int64(len(name))
			k.values += values[i].Val()
		}
		if cursor == 0 {
			return k, nil
		}
	}
}
