package doctor

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/target"
)

// checkTransport checks how the server is reached.
func (s *subject) checkTransport(ctx context.Context) report.Finding {
	const (
		canReadPassword = "anybody between here and the server can read the password, and take or delete locks"
		canTakeLocks    = "anybody between here and the server can take or delete locks"
		encrypt         = "TLS: rediss:// in the URL, tls-port on the server; or a network of trusted machines only"
	)
	o := s.Client.Options()
	switch {
	case o.TLSConfig != nil && o.TLSConfig.InsecureSkipVerify:
		return report.Transport.Warning("TLS, but the server's certificate is not verified", canReadPassword,
			"remove skip_verify from the URL, and make this machine trust the server's CA")
	case o.TLSConfig != nil:
		return report.Transport.OK("TLS")
	case s.IsLocal(ctx):
		return report.Transport.OK("not encrypted, within this machine")
	case o.Password != "" || o.CredentialsProvider != nil:
		return report.Transport.Warning("not encrypted, and a password is sent", canReadPassword, encrypt)
	}
	return report.Transport.Warning("not encrypted", canTakeLocks, encrypt)
}

// checkPassword checks whether the server requires a password.
func (s *subject) checkPassword(ctx context.Context) report.Finding {
	o := target.SameOptions(s.Client)
	o.Username, o.Password, o.CredentialsProvider = "", "", nil
	o.CredentialsProviderContext, o.StreamingCredentialsProvider = nil, nil
	o.DB = 0
	anybody := redis.NewClient(o)
	defer anybody.Close()
	err := anybody.Ping(ctx).Err()
	switch {
	case err != nil && (strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "NOPERM") || strings.HasPrefix(err.Error(), "DENIED")):
		return report.Password.OK("required")
	case err != nil:
		return report.Password.Unchecked("PING without a password", err)
	case s.IsLocal(ctx):
		return report.Password.OK("not required, within this machine")
	}
	return report.Password.Warning("not required", "anybody who reaches the server can take, delete and forge locks",
		"ACL SETUSER default off, and a user with the least rights (docs/SECURITY.md)")
}
