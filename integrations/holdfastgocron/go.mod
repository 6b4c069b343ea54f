module github.com/holdfast-go/holdfast/integrations/holdfastgocron

go 1.25.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/holdfasttest v0.0.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
)

replace (
	github.com/holdfast-go/holdfast => ../..
	github.com/holdfast-go/holdfast/holdfasttest => ../../holdfasttest
)
