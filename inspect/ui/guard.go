package ui

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// guard refuses requests that the handler must not answer.
type guard struct {
	hosts        []string
	authenticate func(user, password string) bool
	origin       *http.CrossOriginProtection
}

func newGuard(o *Options) guard {
	return guard{hosts: o.Hosts, authenticate: o.Authenticate, origin: http.NewCrossOriginProtection()}
}

// policy lets pages load files of this handler, and nothing inline, and forbids other pages to frame them. Trusted types keep
// scripts from turning text into elements.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// admit sets the headers of every answer. It refuses a request for a host that is not allowed, without a user's credentials if
// there are users, or from another site's page if it could change something.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if !g.serves(r.Host) {
		http.Error(w, "this host name is not served: allow it by ui.Options.Hosts, or holdfast ui --http-host NAME", http.StatusMisdirectedRequest)
		return false
	}
	if g.authenticate != nil {
		user, password, given := r.BasicAuth()
		if !given || !g.authenticate(user, password) {
			h.Set("WWW-Authenticate", `Basic realm="Holdfast", charset="UTF-8"`)
			http.Error(w, "name and password, please", http.StatusUnauthorized)
			return false
		}
	}
	if err := g.origin.Check(r); err != nil {
		http.Error(w, "this must be asked for by the inspector's own page", http.StatusForbidden)
		return false
	}
	return true
}

// serves reports whether requests for this host are answered. An attacker's page can make its own host name resolve to this
// server, and the browser then sends that name. It cannot do that with an IP address.
func (g *guard) serves(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "" || host == "localhost" || net.ParseIP(host) != nil ||
		slices.ContainsFunc(g.hosts, func(allowed string) bool { return allowed == "*" || strings.EqualFold(allowed, host) })
}
