module github.com/holdfast-go/holdfast/bench

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/holdfastgoredis v0.0.0
	github.com/holdfast-go/holdfast/tests v0.0.0
	github.com/redis/go-redis/v9 v9.19.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ..
	github.com/holdfast-go/holdfast/holdfastgoredis => ../holdfastgoredis
	github.com/holdfast-go/holdfast/holdfastrueidis => ../holdfastrueidis
	github.com/holdfast-go/holdfast/holdfasttest => ../holdfasttest
	github.com/holdfast-go/holdfast/tests => ../tests
)
