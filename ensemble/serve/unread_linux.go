package serve

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hasUnread reports whether the client has sent bytes that the server has not read: on a busy machine that is not the client's
// silence.
func (c *limitedConn) hasUnread() bool {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }) // 0 if it fails
	return n > 0
}
