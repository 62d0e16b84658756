package serve

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// refuseNew stops new connections of a listener while begun ones can still be accepted. Closing a
// listener resets connections that are established but not accepted. So a socket filter drops the
// first segment (SYN) of further TCP connections, which clients send again after a second; a Unix
// socket loses its path. Where the system allows no filter, connections are accepted until the end.
//
// Source: socket(7), SO_ATTACH_FILTER; RFC 9293, section 3.1, for byte 13 of the header.
func refuseNew(l net.Listener) {
	switch l := l.(type) {
	case *net.UnixListener:
		if name := l.Addr().String(); name != "" && name[0] != '@' {
			_ = filesystem.Remove(name)
			l.SetUnlinkOnClose(false) // the path may be that of the next service by then
		}
	case *net.TCPListener:
		const flags, syn, ack = 13, 0x02, 0x10
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
			{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: 0},
			{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
		}
		raw, err := l.SyscallConn()
		if err != nil {
			return
		}
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
		})
	}
}
