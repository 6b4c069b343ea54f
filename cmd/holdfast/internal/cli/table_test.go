package cli

import "testing"

func TestATableFitsTheTerminal(t *testing.T) {
	columns := []column{{title: "NAME", least: 6}, {title: "N", right: true}, {title: "HOLDER", least: 4}, {title: "FENCE", right: true, expendable: true}}
	rows := [][]string{{"orders/42", "7", "api-7@host", "123456"}, {"日本語の名前", "12", "-", ""}}
	for terminal, want := range map[int][3]string{
		0: {
			"NAME           N  HOLDER       FENCE",
			"orders/42      7  api-7@host  123456",
			"日本語の名前  12  -",
		},
		30: {
			"NAME       N  HOLDER     FENCE",
			"orders/…   7  api-7@h…  123456",
			"日本語…   12  -",
		},
		20: {
			"NAME      N  HOLDER",
			"orders…   7  api-7@…",
			"日本語…  12  -",
		},
		5: {
			"NAME     N  HOL…",
			"order…   7  api…",
			"日本…   12  -",
		},
	} {
		l := fit(columns, rows, terminal)
		got := [3]string{l.header(), l.line(rows[0]), l.line(rows[1])}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%d columns:\n%q, want\n%q", terminal, got[i], want[i])
			}
			if n := textWidth(got[i]); terminal >= 20 && n > terminal {
				t.Errorf("%q takes %d of %d columns", got[i], n, terminal)
			}
		}
	}
}

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "日本": 4, "🔒": 2, "a\u200bb": 2} {
		if got := textWidth(text); got != want {
			t.Errorf("textWidth(%q) = %d, want %d", text, got, want)
		}
	}
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語", 4, "日…"}, {"日本語", 6, "日本語"}, {"abc", 1, "…"}} {
		if got := cut(c.text, c.width); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
