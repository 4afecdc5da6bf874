package faultproxy

import (
	"fmt"
	"net"
	"syscall"
)

// shorten makes the queue of a listener as short as it can be: listen(2) may be called again.
func shorten(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return fmt.Errorf("faultproxy: Ignore: %w", err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), 0) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("faultproxy: Ignore: %w", err)
	}
	return nil
}
