package exec

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// advised is an error that knows the next step.
type advised struct{}

func (advised) Error() string  { return "it is special" }
func (advised) Advice() string { return " (ask somebody else)" }

func TestAdviceFitsWhatWasMet(t *testing.T) {
	const running, version, rules, replicas, disks = "is it running", "7.0", "docs/SECURITY.md", "INFO replication", "INFO persistence"
	synced := driver.Durability{Replicas: 2, Fsync: true}
	for what, c := range map[string]struct {
		op         string
		kind, err  error
		want, none string
	}{
		"nobody listens":      {"reach", ErrUnavailable, Unsent(&net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}), running, "TLS"},
		"a certificate":       {"reach", ErrUnavailable, fmt.Errorf("dial: %w", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), "check its certificate", running},
		"no such host":        {"reach", ErrUnavailable, &net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}, "check the host's name", running},
		"no TLS there":        {"reach", ErrUnavailable, tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "does not speak TLS", running},
		"TLS there":           {"reach", ErrUnavailable, io.EOF, "does it want TLS", running},
		"another protocol":    {"reach", ErrUnavailable, Unsent(fmt.Errorf("%w: malformed reply", bounds.ErrProtocol)), "is it a Redis or Valkey server", running},
		"silence":             {"reach", ErrUnavailable, told(context.DeadlineExceeded), "reachable from here? Is it a Redis or Valkey server", ""},
		"silence later":       {"acquire", ErrUnavailable, told(context.DeadlineExceeded), running, "TLS"},
		"no port":             {"reach", ErrUnavailable, Unsent(&net.OpError{Op: "dial", Err: &net.AddrError{Err: "missing port in address", Addr: "host"}}), "give the address as HOST:PORT", running},
		"a connection cut":    {"acquire", ErrUnavailable, io.EOF, running, "TLS"},
		"its own advice":      {"acquire", ErrUnavailable, fmt.Errorf("%w", advised{}), "ask somebody else", running},
		"Strict, no INFO":     {"acquire", ErrUnsupported, wire.ScriptError("NOSTRICT INFO, by which a loss of data is noticed, is not to be had: NOPERM"), "", version},
		"Fsync, no WAITAOF":   {"acquire", ErrUnsupported, unconfirmed{err: driver.ReplyError("ERR unknown command 'waitaof'")}, "7.2", version},
		"joined errors":       {"reach", ErrUnavailable, errors.Join(errors.New("a: refused"), errors.New("b: refused")), "a: refused; b: refused", ""},
		"a Cluster down":      {"acquire", ErrUnavailable, driver.ReplyError("CLUSTERDOWN Hash slot not served"), "CLUSTER NODES", "is it running"},
		"a lost master":       {"acquire", ErrUnavailable, driver.ReplyError("MASTERDOWN Link with MASTER is down"), "INFO replication", "is it running"},
		"a slot on the move":  {"acquire", ErrUnavailable, driver.ReplyError("TRYAGAIN Multiple keys request during rehashing of slot"), "try again", "is it running"},
		"too many clients":    {"acquire", ErrUnavailable, driver.ReplyError("ERR max number of clients reached"), "maxclients", "is it running"},
		"a quarantine":        {"acquire", ErrQuarantine, &Quarantine{}, "init --force", ""},
		"no Cluster":          {"reach", ErrUnsupported, driver.ReplyError("ERR This instance has cluster support disabled"), "leave out +cluster", version},
		"no such database":    {"reach", ErrUnsupported, driver.ReplyError("ERR DB index is out of range"), "CONFIG GET databases", version},
		"an unknown command":  {"reach", ErrUnsupported, driver.ReplyError("ERR unknown command 'evalsha'"), version, ""},
		"an old server":       {"use", ErrUnsupported, fmt.Errorf("it is redis 6.2"), version, ""},
		"a command":           {"acquire", ErrPermission, driver.ReplyError("NOPERM User u has no permissions to run the 'set' command"), rules, "ACL LOG"},
		"a command, unnamed":  {"acquire", ErrPermission, wire.ScriptError("ERR The user executing the script can't run this command or subcommand"), "ACL LOG", ""},
		"a key":               {"acquire", ErrPermission, driver.ReplyError("NOPERM No permissions to access a key"), rules, "ACL LOG"},
		"a key, in a script":  {"acquire", ErrPermission, wire.ScriptError("ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"), rules, "ACL LOG"},
		"replicas":            {"acquire", ErrReplicas, shortfall(driver.Durability{Replicas: 2}, driver.Confirmation{Replicas: 1}), replicas, disks},
		"replicas' disks":     {"acquire", ErrReplicas, shortfall(synced, driver.Confirmation{Replicas: 1, Fsync: true}), disks, replicas},
		"the master's disk":   {"acquire", ErrReplicas, shortfall(synced, driver.Confirmation{Replicas: 2}), disks, replicas},
		"the client":          {"acquire", ErrClientClosed, fmt.Errorf("%w: %w", driver.ErrNotSent, driver.ErrClientClosed), "close the holdfast.Client first", running},
		"a key of other type": {"acquire", ErrWrongType, driver.ReplyError("WRONGTYPE Operation against a key holding the wrong kind of value"), "choose another name", "delete"},
	} {
		err := (&Failure{Op: c.op, Name: "a", Server: "host:1", Kind: c.kind, Err: c.err}).Error()
		if !strings.Contains(err, c.want) || c.none != "" && strings.Contains(err, c.none) {
			t.Errorf("%s: want %q and not %q: %s", what, c.want, c.none, err)
		}
		if c.want == "" && strings.HasSuffix(err, ")") {
			t.Errorf("%s: there is no next step: %s", what, err)
		}
	}
}

func TestErrorsOfServersAreTold(t *testing.T) {
	for text, want := range map[string]error{
		"WRONGTYPE Operation against a key":                                       ErrWrongType,
		"NOAUTH Authentication required.":                                         ErrAuth,
		"WRONGPASS invalid username-password pair or user is disabled.":           ErrAuth,
		"NOPERM this user has no permissions":                                     ErrPermission,
		"ERR The user executing the script can't run this command or subcommand":  ErrPermission,
		"ERR The user executing the script can't access at least one of the keys": ErrPermission,

		"ERR ACL failure in script: User u has no permissions to run the 'set' command": ErrPermission,
		"READONLY You can't write against a read only replica.":                         ErrReadOnly,
		"OOM command not allowed when used memory > 'maxmemory'.":                       ErrOutOfMemory,
		"LOADING Redis is loading the dataset in memory":                                ErrLoading,
		"BUSY Redis is busy running a script.":                                          ErrBusy,
		"NOREPLICAS Not enough good replicas to write.":                                 ErrWritesRefused,
		"MISCONF Errors writing to the AOF file":                                        ErrWritesRefused,
		"CLUSTERDOWN Hash slot not served":                                              ErrUnavailable,
		"MOVED 866 127.0.0.1:7001":                                                      ErrUnsupported,
		"ERR unknown command 'evalsha'":                                                 ErrUnsupported,
		"ERR SELECT is not allowed in cluster mode":                                     ErrUnsupported,
		"ERR something else":                                                            nil,

		"EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.": ErrOutOfMemory, // by EXEC
		"EXECABORT Transaction discarded because of previous errors.":                                         nil,
	} {
		o, kind := Classify(driver.ReplyError(text))
		if kind != want || o != Refused {
			t.Errorf("%q is %v, %v; want %v", text, o, kind, want)
		}
	}
	if o, kind := Classify(errors.New("i/o timeout")); o != Unknown || kind != ErrUnavailable {
		t.Errorf("an error of the way is %v, %v", o, kind)
	}
	o, _ := Classify(Unsent(errors.New("no connection")))
	equal(t, "an error of something that was not sent", o, NeverSent)
}

// MOVED and ASK do not mean that a command is missing.
func TestACommandThatIsLacking(t *testing.T) {
	for text, want := range map[string]bool{
		"ERR unknown command 'delifeq'": true,
		"ERR something else":            true,
		"NOPERM User u has no permissions to run the 'delifeq' command": true,
		"MOVED 866 127.0.0.1:7001":                                      false,
		"ASK 866 127.0.0.1:7001":                                        false,
		"TRYAGAIN Multiple keys request during rehashing of slot":       false,
		"READONLY You can't write against a read only replica.":         false,
	} {
		equal(t, text, IsLacking(driver.ReplyError(text)), want)
	}
}
