//go:build !linux

package faultproxy

import (
	"errors"
	"fmt"
	"net"
	"runtime"
)

func shorten(*net.TCPListener) error {
	return fmt.Errorf("faultproxy: Ignore: on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
