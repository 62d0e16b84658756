package serve

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/lease"
)

// known writes the list of initialisations of a service.
func known(t *testing.T, out string, list ...InitStatus) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Join(out, stateDir), 0o777), jsonfile.Write(initsFile(out), knownInits{initsSchema, list})); err != nil {
		t.Fatal(err)
	}
}

var firstInit = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestDecide: which action applies to which state, and the errors of others.
func TestDecide(t *testing.T) {
	out := t.TempDir()
	decide := func(code exit.Code, words string, action Action) {
		t.Helper()
		made, _, err := Decide(out, firstInit, action)
		if exit.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), words) || err == nil && made.Action != action {
			t.Errorf("%s: %+v, %v; want exit %d and %q", action, made, err, code, words)
		}
	}
	decide(exit.NotYet, "no service has run", Accept)
	known(t, out)
	decide(exit.NotYet, "the service knows none", Accept)
	known(t, out, InitStatus{Name: "2026010112", State: kept})
	decide(exit.NotYet, "the service knows 2026010112", Accept)
	for _, c := range []struct {
		status InitStatus
		fit    []Action
	}{
		{InitStatus{State: issued}, nil},
		{InitStatus{State: waiting}, nil},
		{InitStatus{State: skipped}, nil},
		{InitStatus{State: late}, []Action{Acknowledge}},
		{InitStatus{State: degraded}, []Action{Acknowledge}},
		{InitStatus{State: failed}, []Action{Retry, Acknowledge}},
		{InitStatus{State: failed, Acknowledged: &firstInit}, []Action{Retry}},
		{InitStatus{State: kept, Why: "it cannot be used"}, []Action{Dismiss}},
		{InitStatus{State: kept, CanAccept: true}, []Action{Accept, Dismiss}},
		{InitStatus{State: issued, CanAccept: true}, []Action{Accept}}, // dismissed before
		{InitStatus{State: issued, Undelivered: "p"}, []Action{AcknowledgeDelivery}},
		{InitStatus{State: degraded, Undelivered: "p"}, []Action{Acknowledge, AcknowledgeDelivery}},
	} {
		c.status.Name, c.status.Revision = "2026010100", "r"
		known(t, out, c.status)
		for _, a := range []Action{Accept, Dismiss, Retry, Acknowledge, AcknowledgeDelivery} {
			code := exit.No
			for _, fit := range c.fit {
				if fit == a {
					code = exit.OK
				}
			}
			decide(code, "nothing to "+string(a), a)
		}
	}
	all, err := readDecisions(out)
	d, of := all["2026010100"], all["2026010100"+deliverySuffix]
	if err != nil || len(all) != 2 || d.Action != Acknowledge || d.Revision != "r" || d.Schema != decisionSchema || of.Action != AcknowledgeDelivery || of.Revision != "p" || of.Init != d.Init {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.WriteFile(initsFile(out), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	decide(exit.BadData, "its schema is", Accept)
}

// TestDecideTogether: of decisions at the same moment each is whole, and each but the first names the one that it
// replaces, or is refused while another is made.
func TestDecideTogether(t *testing.T) {
	out := t.TempDir()
	known(t, out, InitStatus{Name: "2026010100", State: kept, CanAccept: true, Revision: "r"})
	put(t, filepath.Join(decisionsDir(out), ".2026010100.json.partial-abc"), "{") // of a killed command
	const n = 20
	var wait sync.WaitGroup
	var mu sync.Mutex
	made, replaced := map[time.Time]Action{}, map[time.Time]bool{}
	for i := range n {
		action := []Action{Accept, Dismiss}[i%2]
		wait.Go(func() {
			for { // until the others are done
				d, earlier, err := Decide(out, firstInit, action)
				if errors.Is(err, lease.ErrHeld) {
					continue
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				made[d.Time] = action
				if earlier != nil {
					if replaced[earlier.Time] {
						t.Errorf("the decision of %s was replaced twice", earlier.Time)
					}
					replaced[earlier.Time] = true
				}
				return
			}
		})
	}
	wait.Wait()
	all, err := readDecisions(out)
	last := all["2026010100"]
	if err != nil || len(made) != n || len(replaced) != n-1 || made[last.Time] != last.Action || replaced[last.Time] {
		t.Errorf("%d decisions, %d replaced, %+v, %v", len(made), len(replaced), all, err)
	}
	left, err := os.ReadDir(decisionsDir(out))
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestDecideReadOnly: a product directory that cannot be written is exit 73 with its path.
func TestDecideReadOnly(t *testing.T) {
	out := t.TempDir()
	known(t, out, InitStatus{Name: "2026010100", State: failed, Revision: "r"})
	if os.Getenv("DECIDE_IN") != "" {
		_, _, err := Decide(os.Getenv("DECIDE_IN"), firstInit, Retry)
		if exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "read-only file system") || !strings.Contains(err.Error(), os.Getenv("DECIDE_IN")) {
			t.Errorf("%v", err)
		}
		return
	}
	line := []string{"--user", "--map-root-user", "--mount", "sh", "-c", `mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"`, "sh", out}
	if text, err := exec.Command("unshare", append(line, "true")...).CombinedOutput(); err != nil {
		t.Skipf("skipped: no file system can be mounted here: %v %s", err, text)
	}
	cmd := exec.Command("unshare", append(line, os.Args[0], "-test.run", "^TestDecideReadOnly$", "-test.v")...)
	cmd.Env = append(os.Environ(), "DECIDE_IN="+out)
	if text, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestReadDecisions: a damaged decision is an error, and does not hide others; other files are no decisions.
func TestReadDecisions(t *testing.T) {
	out := t.TempDir()
	if all, err := readDecisions(out); err != nil || len(all) != 0 {
		t.Errorf("without a folder: %v, %v", all, err)
	}
	known(t, out, InitStatus{Name: "2026010100", State: failed, Revision: "r"})
	if _, _, err := Decide(out, firstInit, Retry); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"2026010112.json": "{", "2026010206.json": `{"schema": "other"}`, "2026010200.json.partial": "", "notes.json": "{}", ".2026010100.lock": ""} {
		put(t, filepath.Join(decisionsDir(out), name), text)
	}
	all, err := readDecisions(out)
	if len(all) != 1 || all["2026010100"].Action != Retry || err == nil || !strings.Contains(err.Error(), "2026010112.json") || !strings.Contains(err.Error(), "2026010206.json") {
		t.Errorf("%v, %v", all, err)
	}
}

// TestUnreadDecisions: decisions hold while the disk does not return them, so that no acknowledged alert is raised again. One whose file
// is removed is withdrawn.
func TestUnreadDecisions(t *testing.T) {
	out := t.TempDir()
	known(t, out, InitStatus{Name: "2026010100", State: failed, Revision: "r"})
	if _, _, err := Decide(out, firstInit, Acknowledge); err != nil {
		t.Fatal(err)
	}
	o := Options{Predict: predict.Options{Out: out}}
	u := &issuer{state: newState(o), log: slog.New(slog.DiscardHandler), o: o}
	if err := u.openHook(u.log); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want int) {
		t.Helper()
		if u.updateDecisions(); len(u.decisions) != want {
			t.Errorf("%s: %v, want %d", when, u.decisions, want)
		}
	}
	check("at first", 1)
	for _, kind := range []faultfs.Kind{faultfs.ReadDir, faultfs.Open, faultfs.Read} {
		s, restore := faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: []faultfs.Kind{kind}, Err: unix.EIO})
		check("without "+string(kind), 1)
		restore()
		if len(s.Injected()) == 0 {
			t.Errorf("no %s was made", kind)
		}
	}
	if err := os.Remove(filepath.Join(decisionsDir(out), "2026010100.json")); err != nil {
		t.Fatal(err)
	}
	check("after its removal", 0)
}
