module github.com/holdfast-go/holdfast/examples

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/holdfastgoredis v0.0.0
	github.com/holdfast-go/holdfast/holdfasttest v0.0.0
	github.com/redis/go-redis/v9 v9.20.1
	modernc.org/sqlite v1.34.5
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/ncruces/go-strftime v0.1.9 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.30.0 // indirect
	modernc.org/libc v1.55.3 // indirect
	modernc.org/mathutil v1.6.0 // indirect
	modernc.org/memory v1.8.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ..
	github.com/holdfast-go/holdfast/holdfastgoredis => ../holdfastgoredis
	github.com/holdfast-go/holdfast/holdfasttest => ../holdfasttest
)
