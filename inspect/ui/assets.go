package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"sync"
	"time"
)

//go:embed assets
var files embed.FS

// asset is a file of the pages.
type asset struct {
	text []byte
	tag  string // changes with the text
	kind string // its media type
}

// mediaTypes are set here because what the system says of them differs.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	entries, _ := files.ReadDir("assets") // it is in the program
	for _, e := range entries {
		text, _ := files.ReadFile("assets/" + e.Name())
		sum := sha256.Sum256(text)
		kind := mediaTypes[path.Ext(e.Name())]
		if kind == "" {
			kind = mime.TypeByExtension(path.Ext(e.Name()))
		}
		all[e.Name()] = asset{text: text, tag: `"` + hex.EncodeToString(sum[:12]) + `"`, kind: kind}
	}
	return all
})

// serveAsset answers with a file. Browsers ask each time whether it has changed.
func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	a, exists := assets()[name]
	if !exists {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", a.tag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(a.text))
}
