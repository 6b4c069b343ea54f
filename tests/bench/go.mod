module github.com/holdfast-go/holdfast/tests/bench

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/cmd/holdfast v0.0.0
	github.com/holdfast-go/holdfast/holdfastgoredis v0.0.0
	github.com/holdfast-go/holdfast/holdfastotel v0.0.0
	github.com/holdfast-go/holdfast/holdfastrueidis v0.0.0
	github.com/holdfast-go/holdfast/tests v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	go.opentelemetry.io/otel/sdk v1.43.0
	go.opentelemetry.io/otel/sdk/metric v1.43.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.43.0 // indirect
	go.opentelemetry.io/otel/metric v1.43.0 // indirect
	go.opentelemetry.io/otel/trace v1.43.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../..
	github.com/holdfast-go/holdfast/cmd/holdfast => ../../cmd/holdfast
	github.com/holdfast-go/holdfast/holdfastgoredis => ../../holdfastgoredis
	github.com/holdfast-go/holdfast/holdfastotel => ../../holdfastotel
	github.com/holdfast-go/holdfast/holdfastrueidis => ../../holdfastrueidis
	github.com/holdfast-go/holdfast/holdfasttest => ../../holdfasttest
	github.com/holdfast-go/holdfast/tests => ..
)
