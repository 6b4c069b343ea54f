// Package options passes randomly drawn options to locks of the kind that they were drawn for.
package options

// For converts options to those of a kind of lock, such as holdfast.MutexOption. It panics if one does not fit.
func For[Kind, Option any](all []Option) []Kind {
	var kind []Kind
	for _, o := range all {
		kind = append(kind, any(o).(Kind))
	}
	return kind
}
