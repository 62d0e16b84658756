package serve

import (
	"net"
	"os"
	"strconv"
	"time"
)

// notify sends a state change to systemd, if the service runs under it.
//
// Source: sd_notify(3): datagrams of lines to the socket that NOTIFY_SOCKET names, @ for abstract ones.
func notify(lines string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return // notifications are optional
	}
	defer c.Close()
	_, _ = c.Write([]byte(lines))
}

// watchdogInterval is the watchdog interval that systemd requires of this process; 0: none.
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
