//go:build unix && !linux

package launcher

// dieWithKeeper does nothing: there is no parent-death signal here.
func dieWithKeeper() error { return nil }
