package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// finish asks for what is to be had in the end, when the faults are over: for as long as it
// takes. The campaign's patience bounds that.
func (p *part) finish() {
	r := &routine{part: p, number: p.script.Goroutines, random: rand.New(rand.NewPCG(p.script.Seed, 1<<32)), resource: &resource{socket: p.script.Resource}}
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

// insist does something until it succeeds, less and less often: what is asked in vain, given up
// and taken back can keep a busy machine so busy that nothing is answered in time.
func (p *part) insist(do func() error) {
	begun := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := do()
		if err == nil {
			return
		}
		time.Sleep(pause/2 + rand.N(pause))
		q, ok := p.client().(Quorums)
		if !ok || !p.script.Operator || !q.NeedAdmission(err) {
			continue
		}
		// Who is to admit servers has to know that no lease of before is believed in.
		time.Sleep(p.script.MaxTTL - time.Since(begun))
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		if err := p.client().Admit(ctx); err != nil {
			p.say.line(FailureLine, Failure{"admit", err.Error()})
		}
		cancel()
	}
}

// tried notes that a job was asked for, for finish.
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
