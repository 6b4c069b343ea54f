package connect

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Client returns a client over a driver that an adapter has made from a program's options, or failed to make with err.
func Client(d driver.Driver, err error, cfg *holdfast.Config) (*holdfast.Client, error) {
	if err != nil {
		return nil, fmt.Errorf("%w: %w", holdfast.ErrInvalid, err)
	}
	c, err := holdfast.New(d, cfg)
	if err != nil {
		_ = d.Close() // it has no connections yet
	}
	return c, err
}
