//go:build !linux

package serve

import "net"

// refuseNew does nothing: connections are accepted until the listener is closed.
func refuseNew(net.Listener) {}
