package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// resident is a service in its own process.
type resident struct {
	*trial
	cmd      *exec.Cmd
	url      string
	messages io.Closer // closed if there is no reader

	mu     sync.Mutex
	log    bytes.Buffer
	listen chan string
	ended  chan struct{}
}

// serve starts a service and waits until it listens.
func (t *trial) serve(args ...string) *resident { t.Helper(); return t.serveBy(nil, args...) }

// serveBy starts a service by a program that executes it.
func (t *trial) serveBy(program []string, args ...string) *resident {
	t.Helper()
	s := &resident{trial: t, listen: make(chan string, 8), ended: make(chan struct{})}
	line := append(append(program, os.Args[0], "serve", "--listen", "127.0.0.1:0", "--threads", "1"), args...)
	s.cmd = exec.Command(line[0], line[1:]...)
	s.cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1000000000")
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.messages = out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.mu.Lock()
			fmt.Fprintln(&s.log, lines.Text())
			s.mu.Unlock()
			var record struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "listening" {
				s.listen <- record.Address
			}
		}
	}()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			<-s.ended
			_ = s.cmd.Wait()
		}
	})
	select {
	case at := <-s.listen:
		s.url = "http://" + strings.TrimPrefix(at, "tcp:")
	case <-s.ended:
		t.Fatalf("the service ended:\n%s", s.text())
	case <-time.After(patience):
		t.Fatal("the service does not listen")
	}
	return s
}

func (s *resident) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// patience is the timeout for fast events; it allows for a busy machine.
const patience = 2 * time.Minute

// awaitLog waits until the log contains words.
func (s *resident) awaitLog(words string, times int) {
	s.Helper()
	for until := time.Now().Add(patience); strings.Count(s.text(), words) < times; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			s.Fatalf("%q was not logged %d times:\n%s", words, times, s.text())
		}
	}
}

// stop ends the service by a signal and returns its exit code.
func (s *resident) stop(how syscall.Signal) exit.Code {
	s.Helper()
	if err := s.cmd.Process.Signal(how); err != nil {
		s.Fatal(err)
	}
	<-s.ended
	err := s.cmd.Wait()
	var e *exec.ExitError
	if err != nil && !errors.As(err, &e) {
		s.Fatal(err)
	}
	return exit.Code(s.cmd.ProcessState.ExitCode())
}

// get sends a request to the service.
func (s *resident) get(path string, header ...string) (*http.Response, []byte) {
	s.Helper()
	r, err := http.NewRequest("GET", s.url+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp, body
}

// tree returns the checksums of all files below a folder except hidden ones.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			sum := sha256.Sum256(text)
			out[strings.TrimPrefix(path, dir)] = hex.EncodeToString(sum[:])
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// systemd listens on a socket in place of systemd. The returned function expects these messages next, in order.
func systemd(t *testing.T) func(want ...string) {
	t.Helper()
	name := "@ensemble-test-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func(want ...string) {
		t.Helper()
		for _, w := range want {
			b := make([]byte, 1000)
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Read(b); err != nil || string(b[:n]) != w {
				t.Fatalf("systemd received %q, want %q (%v)", b[:n], w, err)
			}
		}
	}
}

// TestServeUnit: the systemd units are valid, and deny the service and its alarm what they do not need.
func TestServeUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("skipped: no systemd-analyze in PATH")
	}
	alarm, err := filepath.Abs("../../docs/ops/alarm.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var units []string
	for name, program := range map[string][2]string{"ensemble-serve.service": {"/usr/bin/ensemble ", os.Args[0] + " "}, "ensemble-alarm@.service": {"=/usr/share/ensemble/ops/alarm.sh ", "=" + alarm + " "}} {
		text, err := os.ReadFile("../../docs/ops/" + name)
		if err != nil {
			t.Fatal(err)
		}
		unit := filepath.Join(dir, name)
		here := bytes.Replace(text, []byte(program[0]), []byte(program[1]), 1) // the programs need not be installed
		if err := os.WriteFile(unit, here, 0o644); err != nil || bytes.Equal(here, text) {
			t.Fatalf("%s does not run %s: %v", name, program[0], err)
		}
		units = append(units, unit)
	}
	if out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	for _, unit := range units {
		out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit).CombinedOutput() // 2.0 of 10
		if err != nil {
			t.Errorf("security of %s: %v\n%s", unit, err, out)
		}
	}
}

// TestServeAlarm: the unit of the service names the unit of alarms, which writes a line that names the failed unit.
func TestServeAlarm(t *testing.T) {
	text, err := os.ReadFile("../../docs/ops/ensemble-serve.service")
	if err != nil || !strings.Contains(string(text), "\nOnFailure=ensemble-alarm@%n.service\n") {
		t.Errorf("no OnFailure= of alarms (%v)", err)
	}
	text, err = os.ReadFile("../../docs/ops/ensemble-alarm@.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "\nExecStart=/usr/share/ensemble/ops/")
	line, _, _ = strings.Cut(line, "\n")
	logs := t.TempDir()
	cmd := exec.Command("bash", "-c", "../../docs/ops/"+strings.ReplaceAll(line, "%i", "ensemble-serve.service"))
	cmd.Env = append(os.Environ(), "LOGS="+logs)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	got, err := os.ReadFile(filepath.Join(logs, "alarms"))
	if err != nil || !strings.HasSuffix(string(got), "Z failed ensemble-serve.service it has failed and is not restarted, see journalctl -u ensemble-serve.service\n") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestServe: a service issues the products of predict when the files are complete. A late member completes an
// init. The service handles signals.
func TestServe(t *testing.T) {
	f := faulty(t)
	next := lastDay.AddDate(0, 0, 1)
	in, out := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	of := func(day time.Time, keep func(m int) bool) []byte {
		return join(without(cycle(day), func(x testgrib.Message) bool { return !keep(x.Member) })...)
	}
	f.put("in/a.grib2", of(lastDay, func(int) bool { return true }))
	f.put("in/b.grib2", of(next, func(m int) bool { return m < 2 }))
	file := f.put("serve.yaml", fmt.Appendf(nil, "version: 1\nrun_dir: %s\ninput: [%s]\nout: %s\nmembers: {poll: 0.03s}\nserve: {ready_max_age: 1000000h}\n", f.run, in, out))
	for _, name := range []string{"in/.b.grib2.Xa81bQ", "in/b.grib2.part", "in/a.grib2.idx"} { // a folder beside the input files
		f.put(name, []byte("GRIB, but not yet, or never"))
	}
	expectNotify := systemd(t)
	s := f.serve("-c", file)
	expectNotify("READY=1\nSTATUS=the model is ready")
	s.awaitLog(`"msg":"issued"`, 1)
	resp, body := s.get("/readyz")
	if resp.StatusCode != 200 || string(body) != "ok\n" {
		t.Errorf("/readyz: %s %q", resp.Status, body)
	}
	var status struct {
		Starts []struct{ Name, State, Why string } `json:"inits"`
		Unread []struct{}                          `json:"unreadable_files"`
		Aside  []struct{ File, Why string }        `json:"ignored_files"`
		Asides int                                 `json:"ignored_files_count"`
	}
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(5 * time.Millisecond) { // log lines come earlier, and another initialisation later
		if _, body = s.get("/status"); bytes.Contains(body, []byte(`"issued"`)) && bytes.Contains(body, []byte("member 2")) {
			break
		}
	}
	if json.Unmarshal(body, &status) != nil || len(status.Starts) != 2 || status.Starts[0].State != "waiting" || !strings.Contains(status.Starts[0].Why, "member 2") || status.Starts[1].State != "issued" ||
		len(status.Unread) > 0 || status.Asides != 3 || len(status.Aside) != 3 || !strings.Contains(status.Aside[2].Why, "incomplete") {
		t.Errorf("/status: %s", body)
	}
	f.put("in/c.grib2", of(next, func(m int) bool { return m >= 2 }))
	s.awaitLog(`"msg":"issued"`, 2)

	// Every listed file exists with its checksum, and ranges of it return its bytes.
	name := next.Format("2006010215")
	var list struct {
		Contents []struct{ Path, SHA256 string }
	}
	if _, body = s.get("/products/" + name + "/"); json.Unmarshal(body, &list) != nil || len(list.Contents) != 3 {
		t.Fatalf("%s", body)
	}
	for _, c := range list.Contents {
		resp, body := s.get("/products/" + name + "/" + c.Path)
		if sum := sha256.Sum256(body); resp.StatusCode != 200 || hex.EncodeToString(sum[:]) != c.SHA256 || resp.Header.Get("ETag") != `"`+c.SHA256+`"` {
			t.Errorf("%s: %s, ETag %s, sum %x", c.Path, resp.Status, resp.Header.Get("ETag"), sum)
		}
		part, some := s.get("/products/"+name+"/"+c.Path, "Range", "bytes=10-69")
		if part.StatusCode != 206 || !bytes.Equal(some, body[10:70]) {
			t.Errorf("%s: %s, %d bytes", c.Path, part.Status, len(some))
		}
	}

	// The page has text and maps with labels.
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, body = s.get("/")
		if strings.Contains(string(body), `class="map"`) || time.Now().After(until) {
			break
		}
	}
	for _, words := range []string{"2001-10-09 00:00Z", "3 used; 4 complete, 3 expected; control included", "<dd>ok</dd>", `role="img" aria-label="`, `href="/products/"`, "first file"} {
		if !strings.Contains(string(body), words) {
			t.Errorf("the page has no %q", words)
		}
	}
	if strings.Contains(string(body), "<script") {
		t.Error("the page has scripts")
	}

	// An invalid configuration is rejected; a valid one is used, and no product is made twice.
	sound, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f.put("serve.yaml", append(slices.Clone(sound), "inptu: [x]\n"...))
	hup := func() {
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hup()
	s.awaitLog("did you mean `input`?", 1)
	s.awaitLog("the previous one remains", 1)
	expectNotify("RELOADING=1\nSTATUS=reading the configuration again", "READY=1\nSTATUS=the model is ready; the new configuration was rejected, see the log")
	f.put("serve.yaml", sound)
	hup()
	s.awaitLog(`"msg":"the configuration was reloaded"`, 1)
	expectNotify("RELOADING=1\nSTATUS=reading the configuration again", "READY=1\nSTATUS=the model is ready")
	s.awaitLog(`"existing":true`, 2)
	if code := s.stop(syscall.SIGTERM); code != exit.SaveAndStop {
		t.Errorf("ended with %d, want 75:\n%s", code, s.text())
	}

	// Products record their command line, which gives the same bytes, also with a pattern.
	f.put("serve.yaml", bytes.Replace(sound, []byte("["+in+"]"), []byte("[\""+in+"/*.grib2\"]"), 1))
	got := tree(t, out)
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	for _, day := range []time.Time{lastDay, next} {
		f.expect(exit.OK, []string{"1 initialisation"}, "predict", "--threads", "1", "-c", file, "--init", day.Format("2006010215"))
	}
	want := tree(t, out)
	if len(got) < 6 || len(got) != len(want) {
		t.Errorf("files %q, want %q", got, want)
	}
	for path, sum := range want {
		if got[path] != sum {
			t.Errorf("%s differs from the product of predict", path)
		}
	}
}
