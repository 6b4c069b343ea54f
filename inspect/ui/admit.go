package ui

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// policy lets pages load files of this handler, and nothing inline, and forbids other pages to frame them. Trusted types keep
// scripts from turning text into elements.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// admit sets the headers of every answer. It refuses a request for a host that is not allowed, without a user's credentials if
// there are users, or from another site's page if it could change something.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) bool {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	if !h.serves(r.Host) {
		const text = "this host name is not served: allow it by ui.Options.Hosts, or holdfast ui --http-host NAME"
		http.Error(w, text, http.StatusMisdirectedRequest)
		return false
	}
	if h.opts.Authenticate != nil {
		user, password, given := r.BasicAuth()
		if !given || !h.opts.Authenticate(user, password) {
			header.Set("WWW-Authenticate", `Basic realm="Holdfast", charset="UTF-8"`)
			http.Error(w, "name and password, please", http.StatusUnauthorized)
			return false
		}
	}
	if err := h.origin.Check(r); err != nil {
		http.Error(w, "this must be asked for by the inspector's own page", http.StatusForbidden)
		return false
	}
	return true
}

// serves reports whether requests for this host are answered. An attacker's page can make its own host name resolve to this
// server, and the browser then sends that name. It cannot do that with an IP address.
func (h *Handler) serves(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil ||
		slices.ContainsFunc(h.opts.Hosts, func(allowed string) bool { return allowed == "*" || strings.EqualFold(allowed, host) })
}
