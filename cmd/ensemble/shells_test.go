package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// TestShells types some command lines into real shells at a terminal and presses Tab: it completes commands, flags,
// configuration keys and names of runs. (All lines: TestLongShells.)
func TestShells(t *testing.T) { completeLines(t, 3) }

// completeLines types n lines into each shell, which the seed selects.
func completeLines(t *testing.T, n int) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "ensemble")); err != nil { // TestMain runs it as the program
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "runs/winter-42"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "runs/winter-42/config.effective.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		_, script, _ := call(t, "completion", shell)
		if err := os.WriteFile(filepath.Join(dir, "completion."+shell), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lines := []struct{ typed, want string }{
		{"ensemble quant", "ensemble quantise "},
		{"ensemble train --run", "ensemble train --run-dir"},
		{"ensemble train --set train.batch_s", "--set train.batch_size="},
		{"ensemble predict --set members.on_mi", "--set members.on_missing="},
		{"ensemble predict --run-dir runs/w", "--run-dir runs/winter-42"},
		{"ensemble predict --overwrite al", "--overwrite always "},
		{"ensemble predict --format gr", "--format grib2 "},
		{"ensemble doctor --log-format j", "--log-format json "},
		{"ensemble report runs/w", "report runs/winter-42"},
	}
	for name, shell := range map[string]struct{ args, start string }{
		"bash": {"--norc --noprofile -i", "PS1=; source /usr/share/bash-completion/bash_completion; source completion.bash; echo READY$((6*7))"},
		"zsh":  {"-f -i", "PS1=; autoload -Uz compinit; compinit -u -D; source completion.zsh; compdef _ensemble ensemble; echo READY$((6*7))"},
		"fish": {"--no-config --private -i", "function fish_prompt; end; source completion.fish; echo READY(math 6 x 7)"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Skipf("skipped: no %s in PATH", name)
			}
			if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); name == "bash" && err != nil {
				t.Skip("skipped: no bash-completion on this machine, which the script for bash uses")
			}
			cmd := exec.Command(path, strings.Fields(shell.args)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "TERM=dumb", "COLUMNS=200")
			tty := openTerminal(t, cmd)
			tty.typeKeys(shell.start + "\r")
			tty.await("READY42")
			for _, l := range testseed.Some(t, lines, n) {
				tty.typeKeys(l.typed + "\t")
				tty.await(l.want)
				tty.typeKeys("\x15") // clears the line
			}
		})
	}
}

// terminal is the terminal of a shell.
type terminal struct {
	t      *testing.T
	master *os.File
	mu     sync.Mutex
	shown  bytes.Buffer
}

// openTerminal starts a shell at its own terminal and ends it with the test.
func openTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("skipped: no terminals here: %v", err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("skipped: no terminals here: %v", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	tty := &terminal{t: t, master: master}
	done := make(chan struct{})
	go func() {
		defer close(done)
		part := make([]byte, 4096)
		for {
			n, err := master.Read(part)
			tty.mu.Lock()
			tty.shown.Write(part[:n])
			tty.mu.Unlock()
			if err != nil { // EIO after the shell has exited
				return
			}
		}
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the session of the shell
		cmd.Wait()
		<-done
		master.Close()
	})
	return tty
}

func (y *terminal) typeKeys(keys string) {
	if _, err := y.master.WriteString(keys); err != nil {
		y.t.Fatal(err)
	}
}

var controls = regexp.MustCompile("\x1b(\\[[0-9;?>]*[a-zA-Z]|[=>]|\\][^\a]*\a)|[\a\r]|.\b")

// await waits until text is printed, and discards all output so far.
func (y *terminal) await(text string) {
	y.t.Helper()
	var shown string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		y.mu.Lock()
		shown = controls.ReplaceAllString(y.shown.String(), "")
		if strings.Contains(shown, text) {
			y.shown.Reset()
			y.mu.Unlock()
			return
		}
		y.mu.Unlock()
	}
	y.t.Fatalf("the shell never shows %q, but %q", text, shown)
}
