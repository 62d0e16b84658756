package serve

import (
	"net"
	"os"
	"strconv"
	"time"
)

// notify tells systemd of a change, if it asked for that.
//
// Source: sd_notify(3): datagrams of lines to the socket that NOTIFY_SOCKET names, @ for abstract ones.
func notify(lines string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return // nobody listens: nothing depends on it
	}
	defer c.Close()
	_, _ = c.Write([]byte(lines))
}

// watchdogInterval is within what time systemd wants to hear from this process, 0 if it does not.
//
// Source: sd_watchdog_enabled(3).
func watchdogInterval() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
