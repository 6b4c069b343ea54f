package ui_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Every control says what it is to those who do not see it, texts can be read in both schemes, and on a phone nothing is cut off or
// needs to be pushed aside.
func TestPagesSuitEverybody(t *testing.T) {
	s := newStage(t, &ui.Options{AllowBreak: true, Label: "redis-1.internal.example.com:6379"})
	s.fill()
	for address, text := range map[string]string{"": "invoices:2026-11", "?lock=invoices:2026-11": "billing-4"} {
		page := open(t, s.url+address, 1280, 800)
		page.sees(text)
		page.controlsHaveNames(address)
		page.press("?") // the help
		for _, scheme := range []string{"light", "dark"} {
			page.emulate("prefers-color-scheme", scheme)
			found := eval[[]string](page, "%s", contrasts)
			for _, bad := range found[1:] {
				t.Errorf("%q, %s: %s", address, scheme, bad)
			}
			if len(found[0]) < 2 {
				t.Errorf("%q, %s: only %s texts", address, scheme, found[0])
			}
		}
		page = open(t, s.url+address, 390, 844)
		page.sees(text)
		page.fitsAPhone(address)
	}
}

func (t *tab) controlsHaveNames(address string) {
	t.tb.Helper()
	roles := []string{"button", "link", "textbox", "searchbox", "radio", "checkbox", "combobox", "grid", "dialog", "row", "columnheader", "heading", "navigation"}
	tree := expect.Of(chromedp.Call(t.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})).OK(t.tb)
	found := 0
	for _, node := range tree.Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		role := string(node.Role.Value)
		if !slices.ContainsFunc(roles, func(r string) bool { return role == quote(r) }) {
			continue
		}
		found++
		if node.Name == nil || string(node.Name.Value) == `""` || len(node.Name.Value) == 0 {
			t.tb.Errorf("%q: a %s has no name", address, role)
		}
	}
	expect.AtLeast(t.tb, fmt.Sprintf("%q: controls", address), found, 8)
}

// contrasts finds texts whose contrast to what is behind them is too low: 4.5, or 3 if they are large.
const contrasts = `(() => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return c.startsWith("color(srgb") ? [m[0] * 255, m[1] * 255, m[2] * 255, m[3] ?? 1] : [m[0], m[1], m[2], m[3] ?? 1]; };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const all = []; for (; e; e = e.parentElement) all.push(parse(getComputedStyle(e).backgroundColor)); return all.reverse().reduce((under, c) => over(c, under), [255, 255, 255, 1]); };
  const bad = [];
  let seen = 0;
  const judge = (e, colour, text) => {
    const style = getComputedStyle(e);
    const back = behind(e);
    const [a, b] = [light(over(parse(colour), back)), light(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    seen++;
    if (ratio < (large ? 3 : 4.5)) bad.push(ratio.toFixed(2) + ": " + text + " (" + (e.id || e.className || e.tagName) + ")");
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const e = walker.currentNode.parentElement;
    if (text && e.checkVisibility()) judge(e, getComputedStyle(e).color, text);
  }
  for (const e of document.querySelectorAll("input")) if (e.placeholder && e.checkVisibility()) judge(e, getComputedStyle(e, "::placeholder").color, e.placeholder);
  return [String(seen), ...bad];
})()`

func TestDarkAndLight(t *testing.T) {
	s := newStage(t, nil)
	page := open(t, s.url, 1280, 800)
	page.sees("No locks")
	isDark := func(want bool) {
		t.Helper()
		page.until("the colours", `(Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0]) < 128) === %v`, want)
	}
	page.emulate("prefers-color-scheme", "light")
	isDark(false)
	page.emulate("prefers-color-scheme", "dark")
	isDark(true)
}

func (t *tab) fitsAPhone(address string) {
	t.tb.Helper()
	expect.AtMost(t.tb, fmt.Sprintf("%q: the width", address), eval[int](t, "document.documentElement.scrollWidth"), 390)
	for _, cut := range eval[[]string](t, `[...document.querySelectorAll("main *, header *")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().width > 1 && e.getBoundingClientRect().right > 391 && !e.closest(".head")).map((e) => e.outerHTML.slice(0, 80))`) {
		t.tb.Errorf("%q: cut off: %s", address, cut)
	}
	for _, small := range eval[[]string](t, `[...document.querySelectorAll("button, .choice label, .back")].filter((e) => e.checkVisibility() && !e.closest(".head, dialog") && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML.slice(0, 80))`) {
		t.tb.Errorf("%q: too small for a finger: %s", address, small)
	}
}
