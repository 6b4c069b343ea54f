package campaign

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

// Entry is a history in the ledger: one line of JSON.
type Entry struct {
	Seed     uint64    `json:"seed"`
	Server   string    `json:"server"`
	Mode     Mode      `json:"mode"`
	Subject  string    `json:"subject"`
	Kinds    []string  `json:"kinds"`
	Strikes  []int64   `json:"strikes"` // how often each struck
	Within   bool      `json:"within"`  // within what is promised
	Revision string    `json:"revision"`
	Began    time.Time `json:"began"`

	Verdict
	Void string        `json:"void,omitempty"` // why it does not count
	Kept string        `json:"kept,omitempty"` // the folder with plan and records
	Took time.Duration `json:"took"`
}

func entryOf(p *Plan, began time.Time) Entry {
	return Entry{Seed: p.Seed, Server: p.Server, Mode: p.Mode, Subject: p.Subject, Kinds: p.Kinds, Within: p.Within(), Revision: currentRevision(), Began: began}
}

var currentRevision = sync.OnceValue(revision)

// counts reports whether the history shows how locks withstand its faults: it is not void, and the faults
// happened.
func (e *Entry) counts() bool {
	return e.Void == "" && len(e.Strikes) == len(e.Kinds) && !slices.Contains(e.Strikes, 0)
}

// Replayed returns the command that plays the history's plan again.
func (e *Entry) Replayed() string {
	kinds := "none"
	if len(e.Kinds) > 0 {
		kinds = strings.Join(e.Kinds, ",")
	}
	return fmt.Sprintf("go run ./cmd/campaign -replay %d -kinds %s -servers %s -mode %s -subject %s -histories 20", e.Seed, kinds, e.Server, e.Mode, e.Subject)
}

// ledger is the file to which histories are added, and what it contained at first.
type ledger struct {
	dir     string
	file    *os.File // nil if nothing is kept
	earlier []Entry
}

func openLedger(cfg *Config) (*ledger, error) {
	b := &ledger{dir: cfg.Dir}
	if cfg.Dir == "" {
		return b, nil
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(cfg.Dir, "histories.jsonl")
	if err := b.read(path, cfg); err != nil {
		return nil, err
	}
	var err error
	b.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return b, err
}

// read reads the histories of this mode and subject.
func (b *ledger) read(path string, cfg *Config) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if e.Mode == cfg.Mode && e.Subject == cfg.Subject.Name() {
			b.earlier = append(b.earlier, e)
		}
	}
	return lines.Err()
}

func (b *ledger) write(e Entry) error {
	if b.file == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = b.file.Write(append(line, '\n'))
	return err
}

// keep writes everything known about a history into a folder of its own.
func (b *ledger) keep(r *Record, e *Entry) string {
	if b.dir == "" {
		return ""
	}
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%d", e.Began.Format("20060102-150405.000"), e.Seed))
	all := struct {
		*Record
		Accesses []worker.Access  `json:"accesses"`
		Failures []worker.Failure `json:"failures"`
		Calls    []worker.Call    `json:"calls,omitempty"`
		Steps    []worker.Step    `json:"steps,omitempty"`
		Ended    []worker.Ended   `json:"ended"`
	}{r, r.accesses, r.failures, r.latestCalls(), r.latestSteps(), r.ended}
	record, err1 := json.MarshalIndent(all, "", " ")
	text := e.Replayed() + "\n\n"
	for _, f := range e.Findings {
		text += fmt.Sprintf("%s: %s\n", f.Rule, f.Text)
	}
	err := errors.Join(err1, os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "record.json"), record, 0o644),
		os.WriteFile(filepath.Join(dir, "findings.txt"), []byte(text), 0o644))
	if err != nil {
		return err.Error()
	}
	return dir
}

func (b *ledger) close() {
	if b.file != nil {
		b.file.Close()
	}
}
