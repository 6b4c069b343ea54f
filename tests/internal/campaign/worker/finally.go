package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
)

// finish requests what must be granted after the faults, for as long as it takes. The campaign's patience
// bounds that.
func (p *part) finish() {
	r := p.newRoutine(p.script.Goroutines, 1<<32)
	defer r.resource.close()
	for _, w := range p.script.Finally {
		if w.Share != Job {
			p.insist(func() error { return r.get(context.Background(), w) })
			continue
		}
		for _, slot := range p.slotsOf(w.Name) {
			p.insist(func() error { return r.job(context.Background(), w, slot) })
		}
	}
}

// insist repeats something until it succeeds, with growing pauses: requests that fail and are taken back can
// load a busy machine so much that nothing is answered in time.
func (p *part) insist(do func() error) {
	begun := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := do()
		if err == nil {
			return
		}
		time.Sleep(pause/2 + rand.N(pause))
		if p.script.Nodes == nil || !p.script.Operator || !errors.Is(err, holdfast.ErrNotAdmitted) {
			continue
		}
		// The servers may be admitted only when every earlier lease is over.
		time.Sleep(p.script.MaxTTL - time.Since(begun))
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		if err := p.library().Admit(ctx); err != nil {
			p.say.line(FailureLine, Failure{"admit", err.Error()})
		}
		cancel()
	}
}

// tried records that a job was requested, for finish.
func (p *part) tried(name, slot string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots[name] == nil {
		p.slots[name] = map[string]bool{}
	}
	p.slots[name][slot] = true
}

func (p *part) slotsOf(name string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slot := range p.slots[name] {
		all = append(all, slot)
	}
	return all
}
