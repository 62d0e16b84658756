package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostileEnv makes the test binary a process that enters the sandbox and then does what foreign code would.
const hostileEnv = "ENSEMBLE_TEST_HOSTILE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(hostileEnv); dir != "" {
		hostile(dir)
		return
	}
	os.Exit(m.Run())
}

// hostile prints a line for each attempt: its name and the error, "" if it succeeded.
func hostile(dir string) {
	state, err := Enter(3, []string{filepath.Join(dir, "given")}, "")
	say := func(what string, err error) {
		text := ""
		if err != nil {
			text = err.Error()
		}
		os.Stdout.WriteString(what + ": " + text + "\n")
	}
	say("enter", err)
	os.Stdout.WriteString("state: " + state.String() + "\n")
	_, err = os.ReadFile(filepath.Join(dir, "given", "a"))
	say("read given", err)
	_, err = os.ReadFile(filepath.Join(dir, "secret"))
	say("read secret", err)
	_, err = os.ReadFile(filepath.Join(dir, "given", "link")) // to secret
	say("read by link", err)
	say("write given", os.WriteFile(filepath.Join(dir, "given", "new"), []byte("x"), 0o666))
	say("truncate given", os.Truncate(filepath.Join(dir, "given", "a"), 0))
	say("remove given", os.Remove(filepath.Join(dir, "given", "a")))
	say("rename given", os.Rename(filepath.Join(dir, "given", "a"), filepath.Join(dir, "given", "b")))
	say("chmod given", os.Chmod(filepath.Join(dir, "given", "a"), 0o777))
	child := exec.Command("/bin/true")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stdout // instead of /dev/null, which cannot be written
	say("run", child.Run())
	say("become", unix.Exec("/bin/true", []string{"true"}, nil))
	_, err = net.DialTimeout("tcp", "127.0.0.1:1", time.Second)
	say("connect", err)
	_, err = net.DialTimeout("unix", filepath.Join(dir, "socket"), time.Second)
	say("connect unix", err)
	_, err = net.Listen("tcp", "127.0.0.1:0")
	say("listen", err)
	say("signal the parent", syscall.Kill(os.Getppid(), 0))
	say("trace the parent", unix.PtraceAttach(os.Getppid()))
	var b [8]byte
	_, err = unix.ProcessVMReadv(os.Getppid(), []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 4096, Len: 8}}, 0)
	say("read the parent", err)
	_, err = os.ReadFile("/proc/1/environ")
	say("read an environment", err)
	_, err = os.ReadFile("/etc/passwd")
	say("read users", err)
	_, err = unix.FcntlInt(9, unix.F_GETFD, 0)
	say("inherited descriptor", err)
	done := make(chan struct{})
	for range 20 { // threads work
		go func() { time.Sleep(time.Millisecond); done <- struct{}{} }()
	}
	for range 20 {
		<-done
	}
	fd, err := unix.MemfdCreate("memory", 0)
	if err == nil {
		var f *os.File
		f, err = os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
		if err == nil {
			_, err = f.WriteString("memory")
		}
	}
	say("write memory", err)
}

// A process in the sandbox reads what it was given, and does nothing else.
func TestFault46(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "given"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secret", "given/a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "given", "link")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	inherited, err := os.Open(filepath.Join(dir, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), hostileEnv+"="+dir)
	c.Stderr = os.Stderr
	for range 7 { // descriptors 3 to 9
		c.ExtraFiles = append(c.ExtraFiles, inherited)
	}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		what, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		said[what] = text
	}
	for _, what := range []string{"enter", "read given", "write memory"} {
		if text, ok := said[what]; !ok || text != "" {
			t.Errorf("%s: %q", what, text)
		}
	}
	calls := []string{"chmod given", "run", "become", "connect", "connect unix", "listen", "signal the parent", "trace the parent", "read the parent", "inherited descriptor"}
	files := []string{"read secret", "read by link", "write given", "truncate given", "remove given", "rename given", "read an environment", "read users"}
	if !strings.Contains(said["state"], "seccomp") {
		t.Skip("the kernel has no seccomp")
	}
	for _, what := range calls {
		if said[what] == "" {
			t.Errorf("%s succeeded", what)
		}
	}
	if !strings.Contains(said["state"], "Landlock") {
		t.Skip("the kernel has no Landlock")
	}
	for _, what := range files {
		if said[what] == "" {
			t.Errorf("%s succeeded", what)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "given", "a")); err != nil || string(text) != "given/a" {
		t.Errorf("given: %q, %v", text, err)
	}
}
