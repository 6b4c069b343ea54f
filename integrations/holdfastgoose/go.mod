module github.com/holdfast-go/holdfast/integrations/holdfastgoose

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/holdfasttest v0.0.0
	github.com/pressly/goose/v3 v3.26.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/mfridman/interpolate v0.0.2 // indirect
	github.com/sethvargo/go-retry v0.3.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sync v0.16.0 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../..
	github.com/holdfast-go/holdfast/holdfasttest => ../../holdfasttest
)
