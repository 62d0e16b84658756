package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestHealth: a service is healthy from its start on, and ready when its newest products are young; a stopped, a hanging and
// another server are not.
func TestHealth(t *testing.T) {
	f := faulty(t)
	in, out, socket := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out"), filepath.Join(f.dir, "s")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	s := f.serve("--run-dir", f.run, "--out", out, "--input", in, "--set", "serve.ready_max_age=1h", "--listen", "unix:"+socket)
	address := s.url[len("http://"):]
	f.expect(exit.OK, []string{"ok"}, "health", "--listen", address)
	f.expect(exit.OK, []string{"ok"}, "health", "--listen", "unix:"+socket)
	f.expect(exit.No, []string{"/readyz answered 503: ", address}, "health", "--listen", address, "--ready")
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Its threads still run when the signal is sent, and may answer; the parent continues once all are stopped.
	if err := unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	f.expect(exit.No, []string{"no response within 5s"}, "health", "--listen", address)
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.stop(syscall.SIGTERM)
	f.expect(exit.No, []string{"connection refused"}, "health", "--listen", address)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c)) // a response before it is none
			_, _ = c.Write([]byte("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"))
			c.Close()
		}
	}()
	f.expect(exit.No, []string{"/healthz answered 302"}, "health", "--listen", l.Addr().String())
}

// TestHealthOfContainers: a container whose process 1 does other work is healthy.
func TestHealthOfContainers(t *testing.T) {
	dir := t.TempDir()
	for line, want := range map[string]bool{"ensemble\x00serve\x00-c\x00serve.yaml\x00": true, "/usr/bin/ensemble\x00--log-format\x00text\x00serve\x00": true,
		"ensemble\x00predict\x00": false, "serve\x00": false, "": false} {
		path := filepath.Join(dir, "cmdline")
		if err := os.WriteFile(path, []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
		if isService(path) != want {
			t.Errorf("%q is a service: %v", line, !want)
		}
	}
	if isService(filepath.Join(dir, "none")) {
		t.Error("no file is a service")
	}
}
