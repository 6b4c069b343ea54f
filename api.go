package holdfast

import "github.com/holdfast-go/holdfast/internal/engine"

type (
	Barrier         = engine.Barrier
	BarrierParty    = engine.BarrierParty
	BrokenError     = engine.BrokenError
	Client          = engine.Client
	Config          = engine.Config
	DoneError       = engine.DoneError
	Election        = engine.Election
	HeldError       = engine.HeldError
	Holder          = engine.Holder
	IncompleteError = engine.IncompleteError
	Latch           = engine.Latch
	LatchParty      = engine.LatchParty
	Lease           = engine.Lease
	Lock            = engine.Lock
	LossReason      = engine.LossReason
	LostError       = engine.LostError
	NodeError       = engine.NodeError
	NotOwnerError   = engine.NotOwnerError
	Once            = engine.Once
	Option          = engine.Option
	QuarantineError = engine.QuarantineError
	Quorum          = engine.Quorum
	QuorumError     = engine.QuorumError
	RWMutex         = engine.RWMutex
	Run             = engine.Run
	Semaphore       = engine.Semaphore
	ServerError     = engine.ServerError
	Window          = engine.Window
)

const (
	LossBound       = engine.LossBound
	LossExpired     = engine.LossExpired
	LossTaken       = engine.LossTaken
	LossUnreachable = engine.LossUnreachable
)

var (
	ErrAuth          = engine.ErrAuth
	ErrBroken        = engine.ErrBroken
	ErrBusy          = engine.ErrBusy
	ErrClosed        = engine.ErrClosed
	ErrDepth         = engine.ErrDepth
	ErrDone          = engine.ErrDone
	ErrHeld          = engine.ErrHeld
	ErrIncomplete    = engine.ErrIncomplete
	ErrInvalid       = engine.ErrInvalid
	ErrLoading       = engine.ErrLoading
	ErrLost          = engine.ErrLost
	ErrNotDone       = engine.ErrNotDone
	ErrNotHeld       = engine.ErrNotHeld
	ErrNotOwner      = engine.ErrNotOwner
	ErrOutOfMemory   = engine.ErrOutOfMemory
	ErrParties       = engine.ErrParties
	ErrPermission    = engine.ErrPermission
	ErrPermits       = engine.ErrPermits
	ErrQuarantine    = engine.ErrQuarantine
	ErrReadOnly      = engine.ErrReadOnly
	ErrReleased      = engine.ErrReleased
	ErrReplicas      = engine.ErrReplicas
	ErrReset         = engine.ErrReset
	ErrResign        = engine.ErrResign
	ErrTries         = engine.ErrTries
	ErrUnavailable   = engine.ErrUnavailable
	ErrUninitialised = engine.ErrUninitialised
	ErrUnsupported   = engine.ErrUnsupported
	ErrWritesRefused = engine.ErrWritesRefused
	ErrWrongType     = engine.ErrWrongType

	Ambiguous   = engine.Ambiguous
	New         = engine.New
	NewQuorum   = engine.NewQuorum
	Fsync       = engine.Fsync
	Key         = engine.Key
	MaxDepth    = engine.MaxDepth
	MaxHold     = engine.MaxHold
	MaxRenewals = engine.MaxRenewals
	MaxTries    = engine.MaxTries
	Meta        = engine.Meta
	MinReplicas = engine.MinReplicas
	NodeTimeout = engine.NodeTimeout
	Owner       = engine.Owner
	Poll        = engine.Poll
	Redisson    = engine.Redisson
	Reentrant   = engine.Reentrant
	Renew       = engine.Renew
	TTL         = engine.TTL
	Weight      = engine.Weight
	Every       = engine.Every
	SlotKey     = engine.SlotKey
)
