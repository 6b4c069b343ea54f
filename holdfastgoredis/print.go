package holdfastgoredis

import "fmt"

// String names the server. The options, which fmt would walk into, have the password.
func (d *adapter) String() string { return fmt.Sprintf("holdfastgoredis.Driver(%s)", d.Addr()) }

// Format prints String, by whatever verb.
func (d *adapter) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, d.String()) }
