package pages

import (
	"encoding/json"
	"fmt"
	"slices"
)

// List is what the list shows.
type List struct {
	Locks map[int]Row // by numbers of the page's own
	State State
}

// State is how the latest look at all locks ended.
type State struct {
	Locks, Hidden int
	Error, Why    string
	Seen          int64 // when all were seen last, in Unix milliseconds; 0: never
}

// Row is a lock in the list.
type Row struct {
	Name, Kind, Owner, Grant string
	Waiting                  int
}

// List opens the list.
func (i *Inspector) List() *Page[List] {
	i.tb.Helper()
	return open(i, "/events", List{Locks: map[int]Row{}}, func(l *List, event string, data []byte) error {
		switch event {
		case "reset":
			clear(l.Locks)
			l.State = State{}
			return nil
		case "changes":
			return l.change(data)
		}
		return nil
	})
}

func (l *List) change(data []byte) error {
	var e struct {
		Rows  [][]any
		Gone  []int
		State *State
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	for _, r := range e.Rows {
		if len(r) != 16 {
			return fmt.Errorf("%d columns: %v", len(r), r)
		}
		l.Locks[int(r[0].(float64))] = Row{Name: r[1].(string), Kind: r[2].(string), Owner: r[5].(string), Grant: r[12].(string), Waiting: int(r[13].(float64))}
	}
	for _, id := range e.Gone {
		delete(l.Locks, id)
	}
	if e.State != nil {
		l.State = *e.State
	}
	return nil
}

// Has reports whether just these locks are listed, in any order, by a look that went well.
func (l List) Has(rows ...Row) bool {
	if l.State.Seen == 0 || l.State.Error != "" || len(l.Locks) != len(rows) {
		return false
	}
	for _, r := range l.Locks {
		if !slices.Contains(rows, r) {
			return false
		}
	}
	return true
}
