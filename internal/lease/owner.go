package lease

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/redact"
)

// Owner is the content of a lease.
type Owner struct {
	Host string `json:"host"`
	// boot id and PID namespace: differs between boots of a machine and between
	// containers
	Boot string `json:"boot"`
	PID  int    `json:"pid"`
	// start of the process in clock ticks since boot, because PIDs are reused
	Start   string `json:"start"`
	Command string `json:"command"`
	// when the lease was taken; informative, as clocks are not compared
	Since      string `json:"since"`
	Token      string `json:"token"`
	Heartbeats uint64 `json:"heartbeats"`
	Time       string `json:"time"` // of the last heartbeat; informative
}

// IsAbandoned reports whether a file is a lease whose owner was a process of this
// machine and has ended, or one that a power failure has emptied. An owner on another
// machine or in another container cannot be judged from here, so its lease is not
// abandoned.
func IsAbandoned(path string) bool {
	text, err := thisMachine{}.Read(path)
	if err != nil {
		return false
	}
	if len(bytes.Trim(text, "\x00")) == 0 {
		return true
	}
	o, me := ownerOf(text), thisProcess()
	return o.Host == me.Host && o.Boot == me.Boot && !thisMachine{}.IsRunning(o)
}

// FirstHeartbeat is the counter of a new lease: with ten digits, so that the text of a
// lease keeps its length when it is overwritten.
const FirstHeartbeat = 1_000_000_000

// text is the content of a lease.
func (o *Owner) text() []byte {
	o.Time = time.Now().UTC().Format(time.RFC3339)
	text, _ := json.Marshal(o) // strings and integers always have JSON
	return append(text, '\n')
}

// heldError returns the error of a lease that another process holds. The command of the
// owner had its secrets removed before it was written (package redact).
func heldError(path, what string, o Owner, why string) error {
	if o.Command != "" {
		why += ": " + o.Command
	}
	return &exit.Error{Code: exit.CannotWrite, What: what + " is in use", At: fmt.Sprintf("%s, host %s, pid %d%s", path, o.Host, o.PID, o.age()), Why: why,
		Fix: "choose another directory, or wait", Err: ErrHeld}
}

// age describes when the lease was taken and when its last heartbeat was, by the
// clocks of the two machines.
func (o Owner) age() string {
	since, err := time.Parse(time.RFC3339, o.Since)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf(", since %s", o.Since)
	if d := time.Since(since).Round(time.Second); d >= 0 {
		text += fmt.Sprintf(" (%s)", d)
	}
	last, err := time.Parse(time.RFC3339, o.Time)
	if err != nil {
		return text
	}
	if d := time.Since(last).Round(time.Second); d < -heartbeatInterval { // or this machine's clock was set back
		return text + fmt.Sprintf(", its clock is %s ahead", -d)
	} else {
		return text + fmt.Sprintf(", alive %s ago", max(d, 0))
	}
}

// readOwner reads a lease. A file that cannot be parsed has the zero owner, which
// is not alive.
//
// Errors: those of reading the file, such as os.ErrNotExist.
func readOwner(m Machine, path string) (Owner, error) {
	text, err := m.Read(path)
	if err != nil {
		return Owner{}, err
	}
	return ownerOf(text), nil
}

// ownerOf is the owner that a text describes; the zero owner if it is none.
func ownerOf(text []byte) (o Owner) {
	if json.Unmarshal(text, &o) != nil {
		return Owner{}
	}
	return o
}

// thisProcess describes this process. Where the system lacks /proc, parts are empty, and
// all owners are judged by their heartbeats.
func thisProcess() Owner {
	var o Owner
	o.Host, _ = os.Hostname() // an empty name is enough: the boot id distinguishes machines
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		o.Boot = strings.TrimSpace(string(boot))
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil { // containers have separate PID namespaces
		o.Boot += " " + ns
	}
	o.PID = os.Getpid()
	o.Start, _ = processStart(o.PID) // without /proc the heartbeat alone shows that a process is alive
	o.Command = redact.Text(strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " "))
	o.Since = time.Now().UTC().Format(time.RFC3339)
	token := make([]byte, 16)
	rand.Read(token) // never fails (crypto/rand)
	o.Token = hex.EncodeToString(token)
	o.Heartbeats = FirstHeartbeat
	return o
}

// processStart returns the start time of a process.
//
// Errors: os.ErrNotExist or os.ErrProcessDone if there is no such process.
func processStart(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	return parseStart(text)
}

// parseStart returns field 22 of /proc/PID/stat (proc(5)).
func parseStart(text []byte) (string, error) {
	// Field 2, the command, may contain spaces and parentheses; the last
	// parenthesis ends it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("the state of a process has %d fields behind its command, want 20", len(fields))
	}
	if s := string(fields[0]); s == "Z" || s == "X" {
		return "", os.ErrProcessDone
	}
	return string(fields[19]), nil
}
