// Package options passes options that are drawn at random to locks of whatever kind they are drawn for.
package options

// For returns options as those of a kind of lock, such as holdfast.MutexOption. It panics if one does not fit.
func For[Kind, Option any](all []Option) []Kind {
	var kind []Kind
	for _, o := range all {
		kind = append(kind, any(o).(Kind))
	}
	return kind
}
