module github.com/holdfast-go/holdfast/holdfastvalkey

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/valkey-io/valkey-go v1.0.79
)

require golang.org/x/sys v0.47.0 // indirect

replace github.com/holdfast-go/holdfast => ..
