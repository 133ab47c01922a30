//go:build !unix

package pgcluster

import (
	"errors"
	"fmt"
	"syscall"
)

// unprivileged refuses: a server that is started here could not be ended with us.
func unprivileged() (*syscall.SysProcAttr, *owner, error) {
	return nil, nil, fmt.Errorf("start a temporary PostgreSQL: %w", errors.ErrUnsupported)
}
