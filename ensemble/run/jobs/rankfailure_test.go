package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/interrupt"
	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testseed"
	"github.com/ensemble-weather/ensemble/spatial/comm/launch"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// rankTraining is a training as every rank of a launcher receives it.
type rankTraining struct {
	Config, RunDir string
	Set            []string
	Set1           []string      // for rank 1 only
	Pause          time.Duration // before every step
	Slow           time.Duration // of a rank drawn at random in every step
	Leave1         bool          // rank 1 exits without training
	Panic1         int           // step at which rank 1 has a bug; 0: none
	PIDs           string        // folder with the process ID of each rank
}

// run trains as `ensemble train --resume auto` does, signals included.
func (r rankTraining) run() error {
	l, _ := launch.Detect(os.Getenv)
	if err := os.WriteFile(filepath.Join(r.PIDs, strconv.Itoa(l.Rank)), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	flag := interrupt.Watch(func() {})
	defer flag.Close()
	if l.Rank == 1 {
		r.Set = append(r.Set, r.Set1...)
	}
	if l.Rank == 1 && r.Leave1 {
		w, err := l.Join(time.Minute)
		return errors.Join(err, w.Close())
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{r.Config}, Set: r.Set})
	if err != nil {
		return team.EndTogether(err)
	}
	step := 0
	slow := func(step uint64) {
		if r.Slow > 0 && rand.New(rand.NewPCG(77, step)).IntN(l.Size) == l.Rank { // without launcher there is no size
			time.Sleep(r.Slow)
		}
	}
	_, err = train.Run(context.Background(), train.Options{Config: c, RunDir: r.RunDir, Resume: "auto", Version: "test", BeforeStep: slow, Stop: func() error {
		time.Sleep(r.Pause)
		if step++; l.Rank == 1 && step == r.Panic1 {
			panic("index out of range")
		}
		return flag.Err()
	}})
	return err
}

// launched is a running job.
type launched struct {
	*exec.Cmd
	launcher string
	out      bytes.Buffer
	pids     string
	begin    time.Time
}

// start starts a training on ranks, of which rank 1 may be another program.
func start(t *testing.T, launcher string, ranks int, r rankTraining, rank1 ...string) *launched {
	t.Helper()
	r.PIDs = t.TempDir()
	text, err := json.Marshal(job{Train: &r})
	if err != nil {
		t.Fatal(err)
	}
	if rank1 == nil {
		rank1 = []string{os.Args[0]}
	}
	args := append([]string{"-n", "1", os.Args[0], ":", "-n", "1"}, rank1...)
	if ranks > 2 {
		args = append(args, ":", "-n", fmt.Sprint(ranks-2), os.Args[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	l := &launched{Cmd: mpitest.Command(ctx, t, launcher, ranks, jobVariable+"="+string(text), "GOMAXPROCS=1"), launcher: launcher, pids: r.PIDs, begin: time.Now()}
	l.Args, l.Stdout, l.Stderr = append([]string{launcher}, args...), &l.out, &l.out
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	return l
}

// pid returns the process ID of a rank.
func (l *launched) pid(t *testing.T, rank int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.pids, strconv.Itoa(rank)))
	pid, err2 := strconv.Atoi(string(text))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return pid
}

// end waits for the end of the job and of its ranks.
func (l *launched) end(t *testing.T) (code exit.Code, out string) {
	t.Helper()
	err := l.Wait()
	var e *exec.ExitError
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(l.pids, "*"))
	for _, f := range files {
		rank, _ := strconv.Atoi(filepath.Base(f))
		pid := l.pid(t, rank)
		for begin := time.Now(); alive(pid); time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("rank %d is still there", rank)
			}
		}
	}
	out = fmt.Sprintf("%s: exit %d after %v\n%s", l.launcher, l.ProcessState.ExitCode(), time.Since(l.begin), &l.out)
	return exit.Code(l.ProcessState.ExitCode()), out
}

// alive reports whether a process runs or is stopped; zombies are not alive.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// atStep waits until a run has taken more steps than it had.
func (l *launched) atStep(t *testing.T, runDir string, more int) {
	t.Helper()
	steps := func() (n int) {
		events, err := rundir.ReadEvents(runDir)
		if err != nil {
			return 0 // missing: the training has not written it
		}
		for _, e := range events {
			if e.Kind == "step" {
				n++
			}
		}
		return n
	}
	for had := steps(); steps() < had+more; time.Sleep(5 * time.Millisecond) {
		if time.Since(l.begin) > 2*time.Minute {
			t.Fatalf("no steps: %s", &l.out)
		}
	}
}

// launchers calls f for launchers of MPI and for that of TCP, each in a subtest.
type launchers func(t *testing.T, f func(t *testing.T, launcher string))

// onLaunchers calls f for every installed one.
func onLaunchers(t *testing.T, f func(t *testing.T, launcher string)) {
	for _, launcher := range installedLaunchers() {
		t.Run(launcher, func(t *testing.T) { f(t, mpitest.Path(t, launcher)) })
	}
}

// onALauncher calls f for an installed one, which the seed selects for each test and subtest. TestLongLaunchers has the others.
func onALauncher(t *testing.T, f func(t *testing.T, launcher string)) {
	some := testseed.Some(t, installedLaunchers(), 1)
	for _, launcher := range some[:1] {
		t.Run(launcher, func(t *testing.T) { f(t, mpitest.Path(t, launcher)) })
	}
}

// installedLaunchers returns the names of launchers whose libraries are there.
func installedLaunchers() []string {
	all := []string{mpitest.TCP}
	for i, launcher := range mpitest.Launchers {
		if _, err := exec.LookPath(launcher); err != nil {
			continue
		}
		if _, err := mpi.Probe(mpi.Implementations[i]); !errors.Is(err, dl.ErrNotFound) {
			all = append(all, launcher)
		}
	}
	return all
}

// failing is a training of 24 steps for failures: on 2 ranks, with dropout, random members and validation.
func failing(t *testing.T, dir string, set ...string) rankTraining {
	c := demotest.Config(t, demotest.Files(t))
	return rankTraining{Config: c.Files()[0].Path, RunDir: dir, Pause: 20 * time.Millisecond,
		Set: append([]string{"train.networks=1", "train.epochs=6", "train.mesh=lon:2", "train.stall_timeout=8s", "train.checkpoint.every=1 epoch"}, set...)}
}

// rankFailure is a failure of a rank, and the expected message.
type rankFailure struct {
	signal  syscall.Signal
	rank    int
	code    exit.Code // of the rank that reports the failure; 0: the launcher reports it
	message string
}

// TestFault37TCP: over TCP, where no launcher ends the other ranks, a killed one ends them at once with 71 and its number, once.
func TestFault37TCP(t *testing.T) {
	r := failing(t, filepath.Join(t.TempDir(), "run"), "train.stall_timeout=10m", "train.mesh=lon:3")
	l := start(t, mpitest.Path(t, mpitest.TCP), 3, r)
	l.atStep(t, r.RunDir, 2)
	if err := syscall.Kill(l.pid(t, 1), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, out := l.end(t)
	for _, want := range []string{"rank 0 ended with exit code 71", "rank 2 ended with exit code 71", "error[E071]: rank 1 was lost"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// TestFault37: a rank is killed. All ranks end within half a minute with a message that names it, no process is left, and
// the resumed training, interrupted once more, ends with the bits of an undisturbed one.
func TestFault37(t *testing.T) {
	checkRankFailures(t, onALauncher, []rankFailure{{syscall.SIGKILL, 1, 0, "illed"}, {syscall.SIGTERM, 0, exit.SaveAndStop, "error[E075]: "}})
}

// TestFault38: a rank is stopped. The watchdog of the others ends the job, with the same bits after it was resumed.
func TestFault38(t *testing.T) {
	checkRankFailures(t, onALauncher, []rankFailure{{syscall.SIGSTOP, 1, exit.RankLost, "error[E071]: rank 1 was lost"}})
}

// checkRankFailures compares a training that fails in these ways, on ranks of launchers, with one on
// ranks of this process. set are further settings.
func checkRankFailures(t *testing.T, on launchers, failures []rankFailure, set ...string) {
	whole := filepath.Join(t.TempDir(), "whole")
	r := failing(t, whole, set...)
	err := traintest.TrainOnRanks(2, func(int) train.Options {
		c, err := config.LoadTrain(config.Sources{Files: []string{r.Config}, Set: r.Set})
		if err != nil {
			t.Error(err)
		}
		return train.Options{Config: c, RunDir: whole, Version: "test"}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.Digest(t, whole)
	on(t, func(t *testing.T, launcher string) {
		t.Parallel() // mostly waiting
		r := failing(t, filepath.Join(t.TempDir(), "run"), set...)
		for _, c := range failures {
			l := start(t, launcher, 2, r)
			l.atStep(t, r.RunDir, 2)
			begin := time.Now()
			if err := syscall.Kill(l.pid(t, c.rank), c.signal); err != nil {
				t.Fatal(err)
			}
			code, out := l.end(t)
			hidden := strings.HasSuffix(launcher, "mpich") || c.code == 0
			if code == exit.OK || code != c.code && !hidden || !strings.Contains(out, c.message) || c.code != 0 && strings.Count(out, "error[E") != 1 {
				t.Errorf("%v to rank %d: want exit %d and %q\n%s", c.signal, c.rank, c.code, c.message, out)
			}
			if d := time.Since(begin); d > time.Minute {
				t.Errorf("%v to rank %d: ended after %v", c.signal, c.rank, d)
			}
		}
		r.Pause = 0
		if code, out := start(t, launcher, 2, r).end(t); code != exit.OK {
			t.Fatal(out)
		}
		if runtest.Digest(t, r.RunDir) != want {
			t.Error("the run that was disturbed ends with other bits")
		}
		if _, err := rundir.ReadManifest(r.RunDir); err != nil {
			t.Error(err)
		}
	})
}

// TestFault39: ranks that differ in what determines a training are rejected with their numbers before
// anything is written, as is a rank that exits.
func TestFault39(t *testing.T) { checkUnlikeRanks(t, onALauncher) }

// checkUnlikeRanks checks each difference on ranks of launchers.
func checkUnlikeRanks(t *testing.T, on launchers) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other-program")
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, append(program, 0), 0o700); err != nil {
		t.Fatal(err)
	}
	data := filepath.Dir(demotest.Files(t).GRIB2[0])
	// A node with different file contents under the same names.
	node := filepath.Join(dir, "node")
	if err := os.CopyFS(node, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := runtest.FlipLastByte(filepath.Join(node, filepath.Base(demotest.Files(t).GRIB2[0]))); err != nil {
		t.Fatal(err)
	}
	mounted := fmt.Sprintf("mount --bind %s %s && exec %s", node, data, os.Args[0])
	for _, c := range []struct {
		what    string
		job     func(r *rankTraining)
		rank1   []string
		code    exit.Code
		message []string
	}{
		{"configuration", func(r *rankTraining) { r.Set1 = []string{"train.seed=2"} }, nil, exit.Usage, []string{"the ranks do not agree: the configuration", "ranks [1] differ from rank 0", `rank 1 has "seed: 2"`}},
		{"program", nil, []string{other}, exit.Usage, []string{"the ranks do not agree: the program", "ranks [1] differ from rank 0", "SHA-256"}},
		{"data", nil, []string{"unshare", "-m", "sh", "-c", mounted}, exit.BadData, []string{"the ranks do not agree: the input files", "ranks [1] differ from rank 0", filepath.Base(demotest.Files(t).GRIB2[0])}},
		{"instruction set", nil, []string{"env", "ONEDNN_MAX_CPU_ISA=SSE41", os.Args[0]}, exit.Usage, []string{"the ranks do not agree: the instruction set", "ranks [1] differ from rank 0", "ONEDNN_MAX_CPU_ISA=SSE41"}},
		{"leaves", func(r *rankTraining) { r.Leave1, r.Set = true, append(r.Set, "train.stall_timeout=3s") }, nil, exit.RankLost, []string{"rank 1 was lost", "it has already finished"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.what == "data" {
				if out, err := exec.Command("unshare", "-m", "sh", "-c", strings.Replace(mounted, "exec "+os.Args[0], "true", 1)).CombinedOutput(); err != nil {
					t.Skipf("skipped: no files of its own for a rank: %v: %s", err, out)
				}
			}
			on(t, func(t *testing.T, launcher string) {
				r := failing(t, filepath.Join(t.TempDir(), "run"))
				if c.job != nil {
					c.job(&r)
				}
				code, out := start(t, launcher, 3, withMesh(r, "lon:3"), c.rank1...).end(t)
				// The launcher of Open MPI 4.1 may crash at its own end, after it reported how the rank ended.
				crashed := code == -1 && strings.Contains(out, "PMIx_server_finalize") && regexp.MustCompile(fmt.Sprintf(`Exit code: +%d\b`, c.code)).MatchString(out)
				if code != c.code && !crashed && !strings.HasSuffix(launcher, "mpich") || code == exit.OK || strings.Count(out, fmt.Sprintf("error[E%03d]", c.code)) != 1 {
					t.Error(out)
				}
				for _, want := range c.message {
					if !strings.Contains(out, want) {
						t.Errorf("no %q in %s", want, out)
					}
				}
				if _, err := os.Stat(r.RunDir); err == nil {
					t.Error("a run directory was made")
				}
			})
		})
	}
}

// TestOneRankFailsOneReport: what goes wrong on one rank only ends all ranks at once, without the stall timeout, with one message that
// names the rank, and so does what goes wrong on all.
func TestOneRankFailsOneReport(t *testing.T) {
	checkOneReport(t, map[string]string{"no data": mpitest.Launchers[0], "panic": mpitest.Launchers[1], "no data on all": mpitest.Launchers[1],
		"configuration": mpitest.Launchers[1], "configuration on all": mpitest.Launchers[0]})
}

// checkOneReport checks failures under the launcher that is stated for each, or, if only is nil, under all.
func checkOneReport(t *testing.T, only map[string]string) {
	data, empty := filepath.Dir(demotest.Files(t).GRIB2[0]), t.TempDir()
	mounted := func(what, over string) []string {
		return []string{"unshare", "-m", "sh", "-c", fmt.Sprintf("mount --bind %s %s && exec %s", what, over, os.Args[0])}
	}
	for _, c := range []struct {
		what    string
		job     func(r *rankTraining)
		rank1   []string
		code    exit.Code // 0: that of a panic of this test program
		message string    // once
		rank    string
	}{
		{"no data", nil, mounted(empty, data), exit.NotYet, "error[E066]", "(rank 1)"},
		{"no data on all", func(r *rankTraining) { r.Set = append(r.Set, "data.forecasts=["+filepath.Join(empty, "*.grib2")+"]") }, nil, exit.NotYet, "error[E066]", "(rank "},
		{"configuration on all", func(r *rankTraining) { r.Set = append(r.Set, "train.epochs=none") }, nil, exit.Usage, "error[E064]", "(rank "},
		{"configuration", func(r *rankTraining) { r.Set1 = append(r.Set1, "train.epochs=none") }, nil, exit.Usage, "error[E064]", "(rank 1)"},
		{"panic of a hosted rank", func(r *rankTraining) { r.Panic1 = 3 }, nil, exit.Bug, "index out of range", "(rank 1)"},
		{"panic", func(r *rankTraining) { r.Panic1 = 3 }, nil, 0, "panic: rank 1: index out of range", "rank 1: "},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.rank1 != nil {
				if out, err := exec.Command("unshare", "-m", "mount", "--bind", empty, data).CombinedOutput(); err != nil {
					t.Skipf("skipped: no files of its own for a rank: %v: %s", err, out)
				}
			}
			onLaunchers(t, func(t *testing.T, launcher string) {
				if only != nil && filepath.Base(launcher) != only[c.what] {
					return
				}
				t.Parallel() // mostly waiting
				r := failing(t, filepath.Join(t.TempDir(), "run"), "train.stall_timeout=10m")
				if c.job != nil {
					c.job(&r)
				}
				mesh := "lon:3"
				if strings.Contains(c.what, "hosted") {
					mesh = "lon:4" // the third process hosts two
				}
				code, out := start(t, launcher, 3, withMesh(r, mesh), c.rank1...).end(t)
				if code == exit.OK || c.code != 0 && code != c.code && !strings.HasSuffix(launcher, "mpich") {
					t.Errorf("want exit %d\n%s", c.code, out)
				}
				if strings.Count(out, "error[E")+strings.Count(out, "panic: rank") != 1 || !strings.Contains(out, c.message) || !strings.Contains(out, c.rank) {
					t.Errorf("want %q once, of %q\n%s", c.message, c.rank, out)
				}
			})
		})
	}
}

func withMesh(r rankTraining, mesh string) rankTraining {
	r.Set = append(r.Set, "train.mesh="+mesh)
	return r
}
