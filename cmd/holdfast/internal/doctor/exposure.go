package doctor

import (
	"context"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// transport examines the way to the node.
func (n *node) transport(ctx context.Context) Finding {
	o := n.rdb.Options()
	f := Finding{ID: "transport", Severity: OK}
	switch local := n.local(ctx); {
	case o.TLSConfig != nil && o.TLSConfig.InsecureSkipVerify:
		f.Severity, f.Saw = Warning, "TLS, but the server's certificate is not checked"
		f.Consequence = "who sits between can read the password, and take or delete locks"
		f.Remedy = "take skip_verify out of the URL, and have this machine trust the server's CA"
	case o.TLSConfig != nil:
		f.Saw = "TLS"
	case local:
		f.Saw = "not encrypted, within this machine"
	default:
		f.Severity, f.Saw = Warning, "not encrypted"
		f.Consequence = "who sits between can take or delete locks"
		if o.Password != "" || o.CredentialsProvider != nil {
			f.Saw += ", and a password is sent"
			f.Consequence = "who sits between can read the password, and take or delete locks"
		}
		f.Remedy = "TLS: rediss:// in the URL, tls-port on the server; or a network that only its servers are in"
	}
	return f
}

// local reports whether the node is reached without leaving this machine.
func (n *node) local(ctx context.Context) bool {
	if n.rdb.Options().Network == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(n.addr)
	if err != nil {
		return false
	}
	addrs, err := net.DefaultResolver.LookupHost(ctx, host) // an address is its own
	for _, a := range addrs {
		if ip := net.ParseIP(a); ip == nil || !ip.IsLoopback() {
			return false
		}
	}
	return err == nil
}

// password examines whether the node asks for one.
func (n *node) password(ctx context.Context) Finding {
	o := alike(n.rdb.Options())
	o.Username, o.Password, o.CredentialsProvider = "", "", nil
	o.CredentialsProviderContext, o.StreamingCredentialsProvider = nil, nil
	o.DB = 0
	anybody := redis.NewClient(o)
	defer anybody.Close()
	err := anybody.Ping(ctx).Err()
	f := Finding{ID: "password", Severity: OK}
	switch {
	case err != nil && (strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "NOPERM") || strings.HasPrefix(err.Error(), "DENIED")):
		f.Saw = "nobody gets in without one"
	case err != nil:
		return unchecked("password", "PING without a password", err)
	case n.local(ctx):
		f.Saw = "none is asked for, within this machine"
	default:
		f.Severity, f.Saw = Warning, "none is asked for"
		f.Consequence = "whoever reaches the server can take, delete and forge locks"
		f.Remedy = "ACL SETUSER default off, and a user with the least rights (docs/SECURITY.md)"
	}
	return f
}
