package cli

import (
	"context"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// defaultRedis is the server when none is named.
const defaultRedis = "redis://127.0.0.1:6379"

// endpoint is the server that the user named.
type endpoint struct {
	client   redis.UniversalClient
	source   string                 // the flag or variable that named it
	addr     string                 // without credentials
	sentinel *redis.FailoverOptions // of a client that asks sentinels
	secrets  []string               // the passwords, as they may appear in texts

	unverified bool // the server's certificate is not looked at
}

// locks makes a client for locks on the server.
func (e *endpoint) locks(cfg *holdfast.Config) (*holdfast.Client, error) {
	if e.sentinel != nil {
		return holdfastgoredis.NewFailover(e.sentinel, cfg)
	}
	return holdfastgoredis.New(e.client, cfg)
}

// openRedis makes a client of the one server of those who do not know several.
func openRedis(flags []string) (*endpoint, error) {
	source, urls := serversNamed(flags)
	if len(urls) > 1 {
		return nil, configError("%s names %d servers, and this needs one", source, len(urls))
	}
	return openURL(source, urls[0])
}

// serversNamed returns the URLs of servers, and what named them: the first of the flag,
// HOLDFAST_REDIS, REDIS_URL, the default.
func serversNamed(flags []string) (source string, urls []string) {
	for _, text := range flags {
		urls = append(urls, splitURLs(text)...)
	}
	if len(urls) > 0 {
		return "--redis", urls
	}
	for _, name := range []string{"HOLDFAST_REDIS", "REDIS_URL"} {
		if urls = splitURLs(os.Getenv(name)); len(urls) > 0 {
			return name, urls
		}
	}
	return "the default", []string{defaultRedis}
}

// beginning is what the second URL of a list, and those that follow it, begin with. A URL
// without "//" is one by itself: what looks like two may be a password with a space in it.
var beginning = regexp.MustCompile(`[\s,]+([a-z]+(\+[a-z]+)?://)`)

// splitURLs returns the URLs of a list with spaces or commas between them.
func splitURLs(text string) []string {
	var urls []string
	for text = strings.TrimSpace(text); text != ""; {
		next := beginning.FindStringSubmatchIndex(text)
		if next == nil {
			return append(urls, text)
		}
		if next[0] > 0 {
			urls = append(urls, text[:next[0]])
		}
		text = text[next[2]:]
	}
	return urls
}

// openURL makes a client of a URL. It does no I/O.
//
// Its errors quote nothing: where a URL is wrong, any part of it may be a part
// of the password.
func openURL(source, text string) (*endpoint, error) {
	redis.SetLogger(silence{})
	e := &endpoint{source: source}
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Fragment != "" || u.Opaque != "" {
		several := ""
		if strings.ContainsAny(text, " ,") {
			several = "; in a list of servers, each begins with redis:// or the like"
		}
		return nil, configError("the URL in %s cannot be read: want redis://HOST:PORT/DB, with USER:PASSWORD@ before HOST "+
			"where it applies, and characters such as / ? # @ %% in a password percent-encoded%s", e.source, several)
	}
	if password, ok := u.User.Password(); ok {
		e.hide(password)
	}
	for name, values := range u.Query() { // of a master behind sentinels, for one
		if strings.Contains(name, "password") {
			e.hide(values...)
		}
	}
	base, kind, _ := strings.Cut(u.Scheme, "+")
	u.Scheme = base
	use, err := tlsOf(u, e.source)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "":
		var o *redis.Options
		if o, err = redis.ParseURL(u.String()); err == nil {
			e.unverified = use(o.TLSConfig)
			o.DialerRetries = max(o.DialerRetries, 1) // the library tries again itself, and tells why
			e.client, e.addr = redis.NewClient(o), o.Addr
		}
	case "cluster":
		var o *redis.ClusterOptions
		if o, err = redis.ParseClusterURL(u.String()); err == nil {
			e.unverified = use(o.TLSConfig)
			o.DialerRetries = max(o.DialerRetries, 1)
			e.client, e.addr = redis.NewClusterClient(o), strings.Join(o.Addrs, ",")
		}
	case "sentinel":
		var o *redis.FailoverOptions
		if o, err = redis.ParseFailoverURL(u.String()); err == nil && o.MasterName == "" {
			return nil, configError("the URL in %s names no master: add ?master_name=NAME", e.source)
		}
		if err == nil {
			e.unverified = use(o.TLSConfig)
			e.client, e.addr, e.sentinel = redis.NewFailoverClient(o), strings.Join(o.SentinelAddrs, ","), o
		}
	default:
		return nil, configError("the URL in %s begins with something else than redis://, rediss:// or unix://, "+
			"with +cluster or +sentinel before the colon where it applies", e.source)
	}
	if names := unknownParameters(u, err); names != "" {
		return nil, configError("the URL in %s has the parameter %s, which is none that go-redis knows or help run shows", e.source, names)
	}
	if err != nil {
		return nil, configError("the URL in %s is not one of a Redis server: want redis://, rediss:// or unix://, "+
			"a number as the database, and only parameters that go-redis knows or help run shows", e.source)
	}
	return e, nil
}

// parameterName is what parameters of URLs are called.
var parameterName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z_]{0,31}$`)

// unknownParameters names what go-redis does not know, if an error says so, and if it is no part of a password that
// has a question mark: after one there is a host.
func unknownParameters(u *url.URL, err error) string {
	if err == nil || strings.Contains(u.RawQuery, "@") || strings.Contains(u.RawQuery, "%40") {
		return ""
	}
	_, names, unknown := strings.Cut(err.Error(), "unexpected option: ")
	for name := range strings.SplitSeq(names, ", ") {
		if !parameterName.MatchString(name) {
			return ""
		}
	}
	if !unknown {
		return ""
	}
	return names
}

// hide notes passwords that no text is to show.
func (e *endpoint) hide(passwords ...string) {
	for _, password := range passwords {
		for _, form := range []string{password, url.QueryEscape(password), url.PathEscape(password)} {
			if form != "" && !slices.Contains(e.secrets, form) {
				e.secrets = append(e.secrets, form)
			}
		}
	}
}

// exposed reports whether a password can be read in the list of processes.
func (e *endpoint) exposed() bool { return e.source == "--redis" && len(e.secrets) > 0 }

// single reports whether it is one server, and no way to find one.
func (e *endpoint) single() bool {
	_, one := e.client.(*redis.Client)
	return one && e.sentinel == nil
}

// warnOfPasswords says so if one of the passwords is exposed. instead completes where it
// belongs.
func warnOfPasswords(v *voice, instead string, all ...*endpoint) {
	if slices.ContainsFunc(all, (*endpoint).exposed) {
		v.note("warning: every user of this machine can read the password on the command line; put the URL into HOLDFAST_REDIS %s", instead)
	}
}

// warnOf says what is unsafe about the ways to servers; instead is as for warnOfPasswords.
func warnOf(v *voice, instead string, all ...*endpoint) {
	warnOfPasswords(v, instead, all...)
	if slices.ContainsFunc(all, func(e *endpoint) bool { return e.unverified }) {
		v.note("warning: the server's certificate is not verified (skip_verify): anybody on the way to it can read the password and grant locks")
	}
}

// silence is a logger for go-redis: what matters comes back as an error.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
