// Package connect makes the clients that adapters return.
package connect

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Client returns a client that uses d. An adapter passes on what its NewDriver returned.
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
