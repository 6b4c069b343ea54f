package postgres

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAServerStartsAndLeavesNothing(t *testing.T) {
	s, err := Start()
	if errors.Is(err, ErrMissing) {
		t.Skipf("SKIPPED, NOTHING TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = s.Stop()
		}
	}()
	if err := s.Create(t.Context(), "books"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", s.DSN("books", map[string]string{"default_transaction_isolation": "serializable"}))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var level string
	if err := db.QueryRow("SHOW transaction_isolation").Scan(&level); err != nil || level != "serializable" {
		t.Errorf("the isolation is %q, %v", level, err)
	}
	stopped = true
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.dir, err)
	}
	if err := db.Ping(); err == nil {
		t.Error("a stopped server answers")
	}
}

func TestBinariesAreFound(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOLDFAST_TEST_POSTGRES", dir)
	if got, err := find(); err == nil || errors.Is(err, ErrMissing) {
		t.Errorf("in an empty folder: %q, %v", got, err)
	}
	for _, program := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, program), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := find(); got != dir || err != nil {
		t.Errorf("find = %q, %v; want %q", got, err, dir)
	}
	// Version 9 is earlier than 15.
	for dir, want := range map[string]int{"/usr/lib/postgresql/9.6/bin": 9, "/usr/lib/postgresql/15/bin": 15, "/usr/bin": 0} {
		if got := version(dir); got != want {
			t.Errorf("version(%q) = %d, want %d", dir, got, want)
		}
	}
}
