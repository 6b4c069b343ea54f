module github.com/holdfast-go/holdfast/integrations/holdfasttusd

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/holdfasttest v0.0.0
	github.com/tus/tusd/v2 v2.9.1
	golang.org/x/exp v0.0.0-20250106191152-7588d65b2ba8
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../..
	github.com/holdfast-go/holdfast/holdfasttest => ../../holdfasttest
)
