package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// otherRun returns a copy of the trained run whose model has another checksum and the same forecasts.
func (t *trial) otherRun() string {
	t.Helper()
	run := filepath.Join(t.dir, "another")
	if err := os.CopyFS(run, os.DirFS(t.run)); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(run, "model", "model.json")
	text, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	record, err := os.ReadFile(filepath.Join(run, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(record, &m)
	}
	delete(m, "model_checksum")
	if record, _ = json.MarshalIndent(m, "", " "); err == nil {
		_, err = manifest.Seal(record)
		err = errors.Join(err, os.WriteFile(model, append(text, '\n'), 0o644), os.WriteFile(filepath.Join(run, "manifest.json"), record, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestPromoteAtOnce: two processes promote two models to one name concurrently, and some are killed. Each of the
// others succeeds or fails because the name is in use. The name always refers to one complete model, and the
// history has every promotion.
func TestPromoteAtOnce(t *testing.T) {
	f := faulty(t)
	runs := []string{f.run, f.otherRun()}
	name := filepath.Join(f.dir, "t850")
	type promotion struct {
		Version, Previous string
		Model             string `json:"model_checksum"`
	}
	done, busy := 0, 0
	for round := range 6 {
		before := done
		var cmds []*exec.Cmd
		var outputs []*printed
		for i := range runs {
			cmd, out := exec.Command(os.Args[0], "model", "promote", runs[(round+i)%2], "--as", name), &printed{}
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmds, outputs = append(cmds, cmd), append(outputs, out)
		}
		if round%2 == 1 {
			time.Sleep(time.Duration(7*round) * time.Millisecond)
			_ = cmds[0].Process.Kill() // it may have ended
		}
		for i, cmd := range cmds {
			_ = cmd.Wait() // the exit code is checked below
			switch code := exit.Code(cmd.ProcessState.ExitCode()); {
			case code == exit.OK:
				done++
			case code == exit.CannotWrite && strings.Contains(outputs[i].String(), "is in use"):
				busy++
			case cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() && round%2 == 1 && i == 0:
			default:
				t.Errorf("%q ends with %s: %s", cmd.Args[1:], cmd.ProcessState, outputs[i])
			}
		}
		if round%2 == 0 && done == before { // without a kill one of them must succeed
			t.Errorf("round %d: both were rejected", round)
		}
	}
	f.expect(exit.OK, nil, "model", "promote", runs[0], "--as", name)
	f.expect(exit.OK, []string{`"version":"` + version.String() + `"`, `"promotion":{"schema":"ensemble.promotion/1","version":"`}, "model", "promote", runs[1], "--as", name, "--json") // after all kills
	var now promotion
	text, err := os.ReadFile(filepath.Join(name, "current.json"))
	if err != nil || json.Unmarshal(text, &now) != nil {
		t.Fatal(err, string(text))
	}
	var list struct{ History []promotion }
	out := f.expect(exit.OK, nil, "model", "history", name, "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	before := promotion{}
	for i, p := range list.History {
		if p.Previous != before.Version || p.Version == before.Version {
			t.Errorf("change %d: %+v after %+v", i, p, before)
		}
		before = p
	}
	if before != now || len(list.History) < 2 {
		t.Errorf("the history ends with %+v of %d, the name refers to %+v; %d promotions, %d rejected", before, len(list.History), now, done, busy)
	}
	if versions, _ := filepath.Glob(filepath.Join(name, "versions", "*")); len(versions) != 2 {
		t.Errorf("versions %q", versions)
	}
	for _, left := range []string{".*", "versions/.*", "*.lock*"} {
		if files, _ := filepath.Glob(filepath.Join(name, left)); files != nil {
			t.Errorf("left: %q", files)
		}
	}
}

// TestServePromoted: a service keeps the model that a name referred to until it reloads its configuration. It
// issues later products with the new model and keeps the earlier ones.
func TestServePromoted(t *testing.T) {
	f := faulty(t)
	another, name := f.otherRun(), filepath.Join(f.dir, "t850")
	f.expect(exit.OK, nil, "model", "promote", f.run, "--as", name)
	if err := os.Mkdir(filepath.Join(f.dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(i int) string {
		day := lastDay.AddDate(0, 0, i)
		f.put(fmt.Sprintf("in/%d.grib2", i), join(cycle(day)...))
		return day.Format("2006010215")
	}
	first := put(0)
	s := f.serve("--run-dir", name, "--out", filepath.Join(f.dir, "out"), "--set", "members.poll=0.03s", "--input", filepath.Join(f.dir, "in", "*.grib2"))
	s.awaitLog(`"msg":"issued"`, 1)
	f.expect(exit.OK, nil, "model", "promote", another, "--as", name)
	second := put(1)
	s.awaitLog(`"msg":"issued"`, 2)
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.awaitLog(`"msg":"the configuration was reloaded"`, 1)
	third := put(2)
	model := func(init string) string {
		var m struct {
			Model string `json:"model_checksum"`
		}
		eventually(t, "init "+init, func() bool {
			r, body := s.get("/products/" + init + "/manifest.json")
			return r.StatusCode == 200 && json.Unmarshal(body, &m) == nil
		})
		return m.Model
	}
	s.awaitLog("existing products are kept", 2)
	if a, b, c := model(first), model(second), model(third); a != b || b == c {
		t.Errorf("models of three inits: %s, %s and, after the reload, %s", a, b, c)
	}
	if strings.Contains(s.text(), `"level":"ERROR"`) {
		t.Errorf("the log has errors:\n%s", s.text())
	}
	s.stop(syscall.SIGTERM)
}

// TestNoName: commands with a name that does not exist print nothing on standard output and create no name. A
// window without intervals is rejected.
func TestNoName(t *testing.T) {
	dir := t.TempDir()
	name, file := filepath.Join(dir, "t850"), filepath.Join(dir, "a.nc")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code exit.Code
		want string
	}{
		{[]string{"model", "history", name}, exit.NotYet, "the name points at no model"},
		{[]string{"model", "rollback", name}, exit.NotYet, "the name points at no model"},
		{[]string{"verify", "--rolling", name, "--forecast", file, "--analysis", file, "--window", "12"}, exit.Usage, "give 13 or more"},
	} {
		code, stdout, stderr := call(t, c.args...)
		if _, err := os.Stat(name); code != c.code || stdout != "" || !strings.Contains(stderr, c.want) || !os.IsNotExist(err) {
			t.Errorf("%q: exit %d, %v, %q, %s", c.args, code, err, stdout, stderr)
		}
	}
}
