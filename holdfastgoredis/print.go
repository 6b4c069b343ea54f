package holdfastgoredis

import "fmt"

// String returns the type and the server. Without it, fmt would print the options, which contain the password.
func (d *adapter) String() string { return fmt.Sprintf("holdfastgoredis.Driver(%s)", d.Addr()) }

// Format prints String for every verb.
func (d *adapter) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, d.String()) }
