package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// grace is the time between SIGTERM and SIGKILL for a command that takes too long.
const grace = 5 * time.Second

// command is a receiver that is a program.
type command struct {
	words   []string // program and arguments
	timeout time.Duration
}

// newCommand returns the command of a hook.
//
// Errors: exit 64 for a program that does not exist or cannot be executed.
func newCommand(call config.Hook) (receiver, error) {
	path, err := exec.LookPath(call.Command[0])
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the command of the hook cannot be executed", At: "serve.on_issue.command", Why: err.Error(), Fix: "name a program that exists, with its path, and make it executable", Err: err}
	}
	return command{append([]string{path}, call.Command[1:]...), call.Timeout}, nil
}

// withheld are variables that belong to the service: its messages to systemd are not those of a command.
var withheld = []string{"NOTIFY_SOCKET=", "WATCHDOG_PID=", "WATCHDOG_USEC="}

// environment is that of the service without what is withheld, and the variables of the delivery.
func (e message) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(withheld, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	return append(env, "HOOK_ID="+e.ID, "HOOK_INIT="+e.Name, "HOOK_STATUS="+e.Status, "HOOK_DIRECTORY="+e.Directory, "HOOK_ATTEMPT="+strconv.Itoa(e.attempt))
}

// send executes the command in a process group of its own. When ctx ends, the group gets SIGTERM, and its remaining
// processes after grace SIGKILL.
func (c command) send(ctx context.Context, e message) error {
	cmd := exec.CommandContext(ctx, c.words[0], c.words[1:]...)
	var said tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(e.body), &said, &said
	cmd.Dir, cmd.Env = e.Directory, e.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ESRCH: all have ended
		return fmt.Errorf("it took longer than serve.on_issue.timeout, %s, and was ended%s", c.timeout, said.text())
	}
	if errors.Is(err, exec.ErrWaitDelay) { // the command ended well; a process that it left has its output open
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, said.text())
	}
	return nil
}

// tailBytes is the size of the end of an output that messages show.
const tailBytes = 1 << 10

// tail keeps the last bytes of what is written.
type tail struct{ last []byte }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p[max(0, len(p)-tailBytes):]...)
	t.last = slices.Delete(t.last, 0, max(0, len(t.last)-tailBytes))
	return len(p), nil
}

// text returns the output as a further clause of a message, in one line.
func (t *tail) text() string {
	words := strings.Join(strings.Fields(strings.ToValidUTF8(string(t.last), "?")), " ")
	if words == "" {
		return ""
	}
	return ": " + words
}
