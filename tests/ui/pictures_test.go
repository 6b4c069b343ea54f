package ui_test

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast/inspect/ui"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

var (
	pictures  = flag.String("pictures", "", "write the pictures of the documentation into this folder")
	dashboard = flag.String("dashboard", "", "take a picture of the page in this folder: see tests/dashboard")
)

// TestPictures takes the pictures of the documentation, of real locks.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("SKIPPED: only make pictures takes them")
	}
	s := newStage(t, &ui.Options{AllowBreak: true, Label: "redis-1.internal:6379"})
	s.web.Config.Handler = renamed(s.web.Config.Handler)
	s.fill()
	list := open(t, s.url+"?sort=waiting", 1280, 760)
	list.sees("invoices:2026-11")
	lock := open(t, s.url+"?lock=invoices:2026-11", 1280, 920)
	lock.sees("Granted")
	s.passOn("invoices:2026-11", 4)
	time.Sleep(12 * time.Second) // for figures that look lived in
	list.take("list.png")
	list.emulate("prefers-color-scheme", "dark")
	list.take("list-dark.png")
	lock.sees("Handed over")
	lock.take("lock.png")
	lock.emulate("prefers-color-scheme", "dark")
	lock.take("lock-dark.png")
	phone := open(t, s.url+"?sort=waiting", 390, 780)
	phone.sees("invoices:2026-11")
	phone.take("phone.png")
}

// TestDashboardPicture takes the picture of the dashboard in deploy/.
func TestDashboardPicture(t *testing.T) {
	if *dashboard == "" {
		t.Skip("SKIPPED: only make pictures takes it")
	}
	web := httptest.NewServer(http.FileServer(http.Dir(*dashboard)))
	t.Cleanup(web.Close)
	page := open(t, web.URL, 1600, 2260)
	page.until("the dashboard is drawn", "document.title === 'drawn'")
	page.take("dashboard.png")
}

// passOn lets a lock go through as many hands as wait for it, up to n, seen by those who look.
func (s *stage) passOn(name string, n int) {
	s.tb.Helper()
	for range n {
		time.Sleep(2500 * time.Millisecond)
		h, held := s.status(name).Holder()
		if !held {
			return
		}
		s.letGo(h.Identity)
	}
}

// renamed shows other hosts and process ids than this machine's.
func renamed(h http.Handler) http.Handler {
	host, _ := os.Hostname()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		h.ServeHTTP(&renaming{w, []byte(`"` + host + `"`)}, r)
	})
}

type renaming struct {
	http.ResponseWriter
	host []byte
}

func (r *renaming) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *renaming) Write(text []byte) (int, error) {
	_, err := r.ResponseWriter.Write(bytes.ReplaceAll(text, r.host, []byte(`"app-3"`)))
	return len(text), err
}

// take writes a picture of the page.
func (t *tab) take(name string) {
	t.tb.Helper()
	text, err := chromedp.Run(t.ctx, chromedp.CaptureScreenshot())
	expect.OK(t.tb, err)
	if text, err = smaller(text); err != nil {
		t.tb.Fatal(err)
	}
	expect.OK(t.tb, os.WriteFile(filepath.Join(*pictures, name), text, 0o644))
}

// smaller leaves a picture the 256 colours that it has most of, which halves it.
func smaller(text []byte) ([]byte, error) {
	picture, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	bounds := picture.Bounds()
	counts := map[color.Color]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[picture.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) })
	palette := color.Palette(colours[:min(len(colours), 256)])
	nearest := map[color.Color]uint8{}
	for _, c := range colours {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[picture.At(x, y)])
		}
	}
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small)
	return b.Bytes(), err
}
