package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// order is what a page asks for: to break or revoke the grant with this id, which the operator has typed.
type order struct {
	Name   string `json:"name"`
	Grant  string `json:"grant"`
	Reason string `json:"reason"`
}

const (
	// longestReason bounds a reason, in bytes.
	longestReason = 500
	// verbTime bounds a break.
	verbTime = 15 * time.Second
)

// serveVerb breaks or revokes. The guard has made sure that it is not asked for by another site's page; that the body
// must be JSON, which no form can send, does so again.
func (h *Handler) serveVerb(w http.ResponseWriter, r *http.Request, verb string) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !h.opts.AllowBreak:
		refuse(w, http.StatusForbidden, "this inspector only looks: see ui.Options.AllowBreak, or holdfast ui --allow-break")
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, "only POST is served here")
		return
	case kind != "application/json":
		refuse(w, http.StatusUnsupportedMediaType, "want application/json")
		return
	}
	o, err := readOrder(http.MaxBytesReader(w, r.Body, 8<<10))
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	user := "somebody"
	if h.opts.Authenticate != nil {
		user, _, _ = r.BasicAuth()
		o.Reason = user + ": " + o.Reason
	}
	// It is done, or not, whether or not the page is still open.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), verbTime)
	defer cancel()
	holder := holdfast.Holder{Name: o.Name, Grant: o.Grant}
	var broken inspect.Broken
	if verb == "break" {
		broken, err = h.in.Break(ctx, holder, o.Reason)
	} else {
		err = h.in.Revoke(ctx, holder, o.Reason)
	}
	h.record.Store(&record{}) // to be read anew
	h.forget(o.Name)
	log := h.opts.Logger.With("lock", o.Name, "grant", o.Grant, "user", user, "address", r.RemoteAddr, "reason", o.Reason)
	if err == nil {
		log.Info("holdfast: inspector: " + verb)
	} else {
		log.Warn("holdfast: inspector: "+verb+" failed", "err", err)
	}
	switch {
	case err == nil || broken.Name != "": // With both, it was done, and could not be recorded.
		answer := map[string]string{"grant": o.Grant}
		if broken.Name != "" {
			answer["fence"] = fenceText(broken.Fence) // the lock's from now on
		}
		if err != nil {
			answer["warning"] = errorText(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // The client does not listen any more.
	case errors.Is(err, inspect.ErrChanged):
		refuse(w, http.StatusConflict,
			fmt.Sprintf("grant %s of %q is gone, and another holder has the lock; look again at who holds it", o.Grant, o.Name))
	case errors.Is(err, holdfast.ErrNotHeld):
		refuse(w, http.StatusConflict, fmt.Sprintf("nobody holds %q any more", o.Name))
	case errors.Is(err, holdfast.ErrInvalid):
		refuse(w, http.StatusBadRequest, errorText(err))
	case errors.Is(err, holdfast.ErrDenied):
		refuse(w, http.StatusForbidden, errorText(err)+"; the role breaker in docs/SECURITY.md has what breaking needs")
	default:
		refuse(w, http.StatusBadGateway, errorText(err))
	}
}

func readOrder(body io.Reader) (o order, err error) {
	text, err := io.ReadAll(body)
	switch {
	case err != nil || json.Unmarshal(text, &o) != nil: // Unmarshal, unlike a Decoder, refuses what follows the object
		return o, errors.New("want JSON with name, grant and reason")
	case o.Name == "":
		return o, errors.New("the name is missing")
	case o.Grant == "":
		return o, errors.New("type the grant id of the holder")
	case o.Reason == "" || len(o.Reason) > longestReason:
		return o, fmt.Errorf("say why, in at most %d bytes", longestReason)
	}
	return o, nil
}

// refuse answers with an error as JSON.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // The client does not listen any more.
}
