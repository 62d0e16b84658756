//go:build !linux

package serve

// hasUnread is false: what the server has not read is not known.
func (c *limitedConn) hasUnread() bool { return false }
