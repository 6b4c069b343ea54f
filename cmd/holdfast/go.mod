module github.com/holdfast-go/holdfast/cmd/holdfast

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/holdfastgoredis v0.0.0
	github.com/holdfast-go/holdfast/holdfasttest v0.0.0
	github.com/redis/go-redis/v9 v9.20.1
	github.com/spf13/pflag v1.0.10
	golang.org/x/sys v0.47.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../..
	github.com/holdfast-go/holdfast/holdfastgoredis => ../../holdfastgoredis
	github.com/holdfast-go/holdfast/holdfasttest => ../../holdfasttest
)
