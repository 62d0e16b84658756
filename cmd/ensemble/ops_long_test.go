//go:build long

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// weekFates are those of two initialisations a day: one is refused, one never comes, one stays degraded, one until a member
// comes, one comes late as a whole, the site of one is wrong at first, and the prediction of one is killed.
var weekFates = []fate{fateWhole, fateWrongSite, fateDamaged, fateWhole, fateKilled, fateFewer, fateWhole, fateLateInput, fateNever, fateWhole, fateLateMember, fateWhole, fateWhole, fateWhole}

// TestLongSuites runs a bad week of ten members in the suites of Cylc, ecFlow and Slurm. Products are those of an undisturbed run.
func TestLongSuites(t *testing.T) {
	const members = 10
	run := trainedOf(t, members)
	for _, c := range []struct {
		name  string
		start func(*site) (end func(), again func(time.Time))
	}{{"ecflow", (*site).ecflow}, {"cylc", (*site).cylc}, {"slurm", (*site).slurm}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, run, halfDays(lastDay, 7), members)
			s.suffer(weekFates, func(s *site) (end func(), again func(time.Time)) {
				s.due = time.Now().Add(time.Minute).Truncate(time.Second)
				return c.start(s)
			})
		})
	}
}

// printedFor returns the blocks of commands of docs/operations.md that a test runs, which their exemption names.
func printedFor(t *testing.T, test string) (commands []string) {
	t.Helper()
	for _, b := range blocks(t, operationsPage) {
		if strings.Contains(b.exempt, test) {
			commands = append(commands, b.commands)
		}
	}
	return commands
}

// firstOfYear is the initialisation of the commands of docs/operations.md.
var firstOfYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// printedSite is a site with the input of firstOfYear, on which the commands of the page are run without any other setting.
func printedSite(t *testing.T) *site {
	s := newSite(t, faulty(t).run, []time.Time{firstOfYear}, 4)
	s.deliverAll(s.inits)
	s.env = slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, "OPS=") || strings.HasPrefix(v, "SITE=") })
	return s
}

// shell runs commands in the folder of the suites.
func (s *site) shell(commands string) string {
	s.Helper()
	return s.run("bash", "-ec", commands)
}

// awaitDeliveries waits until the products of firstOfYear were delivered n times.
func (s *site) awaitDeliveries(n int) {
	s.Helper()
	s.until("a delivery", func() bool { return len(s.delivered()[name(firstOfYear)]) >= n })
}

// TestLongPrintedCylc runs the commands of docs/operations.md as they stand there: the suite, and a prediction again.
func TestLongPrintedCylc(t *testing.T) {
	s := printedSite(t)
	cylc := s.cylcProgram()
	t.Cleanup(func() {
		s.try(cylc, "stop", "--now", "--now", "ensemble")
		s.until("the end", func() bool { _, err := s.try(cylc, "ping", "ensemble"); return err != nil })
	})
	commands := printedFor(t, "TestLongPrintedCylc")
	s.shell(commands[0])
	s.awaitDeliveries(1)
	s.cylcPredicted(firstOfYear)
	s.predictedAgain(commands[1])
}

// predictedAgain runs a command, and waits until firstOfYear is predicted again.
func (s *site) predictedAgain(command string) {
	s.Helper()
	before, _ := s.predictions(firstOfYear)
	s.shell(command)
	s.until("another prediction", func() bool { now, _ := s.predictions(firstOfYear); return len(now) > len(before) })
}

// TestLongPrintedEcFlow runs the commands of docs/operations.md as they stand there: the suite, and a prediction again.
func TestLongPrintedEcFlow(t *testing.T) {
	s := printedSite(t)
	client := s.ecflowServer()
	t.Cleanup(func() { s.run(client, "--terminate=yes") })
	commands := printedFor(t, "TestLongPrintedEcFlow")
	s.shell(commands[0])
	s.awaitDeliveries(1)
	s.until("its end", func() bool {
		out, err := s.try(client, "--query", "state", "/ensemble/"+name(firstOfYear))
		return err == nil && strings.TrimSpace(out) == "complete"
	})
	s.predictedAgain(commands[1])
}

// TestLongPrintedSlurm runs the commands of docs/operations.md as they stand there: a week of predictions, one of them again, and a training.
func TestLongPrintedSlurm(t *testing.T) {
	s := printedSite(t)
	s.slurmCluster()
	text, err := os.ReadFile(faulty(t).config)
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "ENSEMBLE="+program)
	if err := os.WriteFile(filepath.Join(s.ops, "train.yaml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	out := s.shell(printedFor(t, "TestLongPrintedSlurm")[0])
	s.slurmEnd()
	if jobs := strings.Count(out, "Submitted batch job"); jobs != 7*2+1+1 {
		t.Errorf("%d jobs:\n%s", jobs, out)
	}
	s.awaitDeliveries(2)
	if _, err := os.Stat(filepath.Join(s.ops, "runs", "a", "model")); err != nil {
		t.Error(err)
	}
}

// TestLongPrintedService runs the first commands of docs/operations.md as they stand there: a service, until it is
// stopped, and a request.
func TestLongPrintedService(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:8642")
	if err != nil {
		t.Skip("skipped: the port of the page is in use: ", err)
	}
	l.Close()
	programs := installed(t)
	t.Setenv("ENSEMBLE_DECODE", filepath.Join(programs, "ensemble-decode"))
	t.Setenv("PAGE_DATA", pageData(t))
	serve, request, _ := strings.Cut(printedFor(t, "TestLongPrintedService")[0], "\n")
	serve, _, _ = strings.Cut(serve, "#")
	setup, err := filepath.Abs("testdata/pages/common.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", ". "+setup+"\nensemble train -q -c train.yaml --run-dir runs/a\n"+serve+"& pid=$!\n"+
		"for i in {1..600}; do [ ! -d products/2026012000 ] || break; sleep 0.2; done\n"+request+"kill -TERM $pid; wait $pid\n")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	var e *exec.ExitError
	if !errors.As(err, &e) || e.ExitCode() != int(exit.SaveAndStop) || !bytes.Contains(out, []byte(`"2026012000"`)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLongSlurmTraining trains as a job on a cluster on this machine. When stopped it saves, is requeued, and ends
// with the weights of an uninterrupted training. A wrong configuration ends the job without a retry.
func TestLongSlurmTraining(t *testing.T) {
	f := faulty(t)
	s := newSite(t, f.run, nil, 4)
	s.slurmCluster()
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
	s.slurmEnd()
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
