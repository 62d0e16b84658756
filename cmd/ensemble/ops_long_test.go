//go:build long

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// trainedOf returns a run whose model uses the given number of members.
func trainedOf(t *testing.T, members int) string {
	t.Helper()
	testdecoder.Path(t)
	dir := t.TempDir()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("fc_%02d.grib2", i)), join(cycleOf(firstDay.AddDate(0, 0, 14*i), members)...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(`version: 1
data:
  forecasts: [%s/fc_*.grib2]
  members: {use: %d, minimum: 2, full: %[2]d}
  leads: [0h, 24h, 48h]
  target_lead: 48h
  levels: [850hPa, 500hPa]
  variables: [t, gh]
  targets: [{variable: t, levels: [850hPa]}]
model: {base: 2, stages: 1, head: spread}
train: {epochs: 1, batch_size: 4, threads: 1, networks: 1, loss: {kind: mse}}
`, dir, members)
	config, run := filepath.Join(dir, "train.yaml"), filepath.Join(dir, "run")
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "train", "-c", config, "--run-dir", run, "--progress", "none"); code != exit.OK {
		t.Fatal(stderr)
	}
	return run
}

// TestLongSuites runs three inits of ten members, which arrive in random order, in the suites of Cylc, ecFlow and
// Slurm. A wrong site configuration fails once without a retry, and the operator reruns it. One member of the
// first init is late, one of the second is damaged at first, and the prediction of the third is killed. The
// products are those of an undisturbed run.
func TestLongSuites(t *testing.T) {
	const members, odd = 10, 4 // odd: the member that is late or damaged
	run := trainedOf(t, members)
	for _, c := range []struct {
		name  string
		start func(*site) (end func(), again func(time.Time))
		all   bool // inits are predicted concurrently
	}{
		{"ecflow", (*site).ecflow, false},
		{"cylc", (*site).cylcSuite, true},
		{"slurm", (*site).slurm, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, run, 3, members, 8*time.Second)
			want := s.undisturbed()
			good, err := os.ReadFile(s.siteFile())
			if err != nil {
				t.Fatal(err)
			}
			wrong := strings.Replace(string(good), ". ", "export ENSEMBLE_MEMBERS_ON_MISSING=perhaps\n. ", 1)
			if err := os.WriteFile(s.siteFile(), []byte(wrong), 0o644); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			end, again := c.start(s)
			refused := s.cycles[:1]
			if c.all {
				refused = s.cycles
			}
			var alarms []string
			for _, x := range refused {
				s.until("a rejection", func() bool { return s.alarmed("refused " + name(x)) })
				alarms = append(alarms, "refused "+name(x))
			}
			time.Sleep(2 * time.Second) // time for a retry, which must not happen
			if err := os.WriteFile(s.siteFile(), good, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, x := range refused {
				again(x)
			}

			r := rand.New(rand.NewPCG(7, 8))
			for _, k := range r.Perm(len(s.cycles) * members) {
				x, m := s.cycles[k/members], k%members
				switch {
				case m != odd:
					s.deliver(x, m, s.content(x, m))
				case x == s.cycles[1]:
					s.deliver(x, m, s.content(x, m)[:1000])
				}
				time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
			}
			pending := []func() bool{
				func() bool { return s.alarmed("degraded " + name(s.cycles[0])) },
				func() bool { return s.alarmed("degraded " + name(s.cycles[1])) },
				func() bool {
					pid := s.waiting(s.cycles[2])
					return pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
				},
			}
			s.until("all expected events", func() bool {
				left := 0
				for i, happened := range pending {
					if happened != nil && happened() {
						s.deliver(s.cycles[i], odd, s.content(s.cycles[i], odd))
						pending[i] = nil
					}
					if pending[i] != nil {
						left++
					}
				}
				return left == 0
			})
			end()
			s.finished(want, append(alarms, "degraded "+name(s.cycles[0]), "degraded "+name(s.cycles[1]))...)
			t.Logf("%s: 3 inits of %d members, %d rejected, 2 amended, 1 killed: right after %s, alarms %s", c.name, members, len(refused), time.Since(begun).Round(time.Second), strings.Join(s.alarms(), ", "))
		})
	}
}

// cylcSuite runs the suite.
func (s *site) cylcSuite() (end func(), again func(time.Time)) {
	s.Helper()
	cylc := s.cylc()
	conf := filepath.Join(filepath.Dir(s.ops), "cylc-conf")
	if err := os.Mkdir(conf, 0o755); err != nil {
		s.Fatal(err)
	}
	text := "[platforms]\n    [[localhost]]\n        hosts = localhost\n        cylc path = " + filepath.Dir(cylc) + "\n[scheduler]\n    [[main loop]]\n        plugins =\n"
	if err := os.WriteFile(filepath.Join(conf, "global.cylc"), []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	s.env = append(s.env, "CYLC_CONF_PATH="+conf, "PATH="+filepath.Dir(cylc)+":"+os.Getenv("PATH"))
	out, ended := s.daemon(cylc, append([]string{"vip", "--no-detach", "--workflow-name=ops"}, s.cylcArgs()...)...)
	end = func() {
		s.Helper()
		select {
		case err := <-ended:
			if err != nil {
				s.Fatalf("%v\n%s\n%s", err, out, s.logTails())
			}
		case <-time.After(time.Minute):
			s.Fatalf("the suite does not end:\n%s\n%s", out, s.logTails())
		}
	}
	return end, func(c time.Time) {
		s.until("a stalled suite", func() bool { return strings.Contains(out.String(), "Workflow stalled") })
		s.run(cylc, "trigger", "ops//"+c.Format("20060102T15Z")+"/predict")
	}
}

// TestLongSlurmTraining trains as a job on a cluster on this machine. When stopped it saves, is requeued, and ends
// with the weights of an uninterrupted training. A wrong configuration ends the job without a retry.
func TestLongSlurmTraining(t *testing.T) {
	f := faulty(t)
	s := newSite(t, f.run, 0, 4, time.Second)
	end, _ := s.slurm()
	text, err := os.ReadFile(f.config)
	if err != nil {
		t.Fatal(err)
	}
	config := f.put("train.yaml", bytes.Replace(text, []byte("epochs: 1,"), []byte("epochs: 100,"), 1))
	whole, run, wrong := filepath.Join(f.dir, "whole"), filepath.Join(f.dir, "run"), filepath.Join(f.dir, "wrong")
	f.expect(exit.OK, nil, "train", "-c", config, "--run-dir", whole, "--progress", "none")
	s.run("sh", "-c", ". "+s.siteFile()+"; sbatch --export=ALL,CONFIG="+config+".none,RUN="+wrong+" --output="+filepath.Join(f.dir, "wrong.out")+" "+filepath.Join(s.ops, "slurm", "train.sbatch"))
	job := strings.Fields(s.run("sh", "-c", ". "+s.siteFile()+"; sbatch --export=ALL,CONFIG="+config+",RUN="+run+" --output="+filepath.Join(f.dir, "train.out")+" "+filepath.Join(s.ops, "slurm", "train.sbatch")))
	id := job[len(job)-1]
	jobLog := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(f.dir, name))
		return string(text)
	}
	s.until("a first checkpoint", func() bool {
		_, err := os.Stat(filepath.Join(run, "checkpoints", "LATEST"))
		return err == nil
	})
	s.run("scancel", "--signal=USR1", id)
	s.until("the job in the queue again", func() bool { return strings.Contains(s.run("squeue", "-h", "-j", id, "-o", "%T"), "PENDING") })
	if _, err := os.Stat(filepath.Join(run, "manifest.json")); err == nil {
		t.Error("it had ended before the signal: the test has no effect")
	}
	s.run("scontrol", "update", "JobId="+id, "StartTime=now+3seconds") // Slurm delays a requeued job by two minutes; in the second in which it ended the update fails
	end()
	if _, err := os.Stat(filepath.Join(run, "model")); err != nil {
		t.Fatalf("%v:\n%s", err, jobLog("train.out"))
	}
	weights := func(run string) string { return tree(t, filepath.Join(run, "model"))["/weights-00.safetensors"] }
	if got, want := weights(run), weights(whole); got != want || want == "" {
		t.Errorf("weights %s, want %s:\n%s", got, want, jobLog("train.out"))
	}
	if text := jobLog("train.out"); !strings.Contains(text, "error[E075]") || strings.Count(text, "error[") != 1 {
		t.Errorf("log of the job:\n%s", text)
	}
	if text := jobLog("wrong.out"); strings.Count(text, "error[E0") != 1 {
		t.Errorf("log of the job with a wrong configuration:\n%s", text)
	}
}

// waiting returns the process of the prediction of an init, 0 if there is none.
func (s *site) waiting(c time.Time) int {
	text, err := os.ReadFile(filepath.Join(s.logs, "predict-"+name(c)+".pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0 while the file is being written; the next call reads it
	return pid
}
