package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// The tests below run the suites of docs/ops with their schedulers.

// site is the site of a suite, with the folders of forecasts and products.
type site struct {
	*testing.T
	ops, input, products, logs string
	cycles                     []time.Time
	members                    int
	env                        []string
	daemons                    []*printed
}

// printed collects the output of a process.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// newSite creates a site with a trained model, for the given number of inits and members.
func newSite(t *testing.T, run string, cycles, members int, deadline time.Duration) *site {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "ensemble-site") // schedulers need short names without blanks
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	s := &site{T: t, ops: filepath.Join(root, "ops"), input: filepath.Join(root, "fc"), products: filepath.Join(root, "products"), logs: filepath.Join(root, "logs"), members: members}
	if err := os.CopyFS(s.ops, os.DirFS("../../docs/ops")); err != nil {
		t.Fatal(err)
	}
	for i := range cycles {
		s.cycles = append(s.cycles, lastDay.AddDate(0, 0, i))
	}
	program, err := filepath.Abs(os.Args[0])
	if err == nil {
		err = os.MkdirAll(s.input, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, v := range [][2]string{{"ENSEMBLE", program}, {"RUN_DIR", run}, {"INPUT", s.input}, {"PRODUCTS", s.products}, {"LOGS", s.logs},
		{"DEADLINE", fmt.Sprintf("+%gs", deadline.Seconds())}, {"AMEND_DEADLINE", "+10m"}, {"XDG_CACHE_HOME", os.Getenv("XDG_CACHE_HOME")}, {"ENSEMBLE_DECODE", os.Getenv("ENSEMBLE_DECODE")},
		{"ENSEMBLE_MEMBERS_POLL", "0.1s"}, {"ENSEMBLE_MEMBERS_EXPECTED", strconv.Itoa(members)}, {"ENSEMBLE_MEMBERS_MINIMUM", strconv.Itoa(members / 2)}, {"GOMAXPROCS", "1"},
		{"SOURCE_DATE_EPOCH", "1000000000"}} { // products of the same input are equal
		fmt.Fprintf(&text, "export %s='%s'\n", v[0], v[1])
	}
	text.WriteString(". \"$OPS/site.sh\"\n")
	if err := os.WriteFile(s.siteFile(), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "OPS="+s.ops, "SITE="+s.siteFile(), "HOME="+root, "LC_ALL=C.UTF-8")
	return s
}

func (s *site) siteFile() string { return filepath.Join(filepath.Dir(s.ops), "test-site.sh") }

// program finds a program of a scheduler, and skips the test without it.
func (s *site) program(name string, more ...string) string {
	s.Helper()
	for _, path := range append(more, name) {
		if found, err := exec.LookPath(path); err == nil {
			if found, err = filepath.Abs(found); err == nil {
				return found
			}
		}
	}
	s.Skipf("skipped: no %s here (scripts/setup.sh test installs it)", name)
	return ""
}

// run runs a command and waits for its end.
func (s *site) run(name string, args ...string) string {
	s.Helper()
	out, err := s.try(name, args...)
	if err != nil {
		s.Fatalf("%s %q: %v\n%s\n%s", name, args, err, out, s.logTails())
	}
	return out
}

func (s *site) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// daemon runs a command in the background, and stops it at the end of the test.
func (s *site) daemon(name string, args ...string) (out *printed, ended <-chan error) {
	s.Helper()
	cmd := exec.Command(name, args...)
	out = &printed{}
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.daemons = append(s.daemons, out)
	done, gone := make(chan error, 1), make(chan struct{})
	go func() {
		done <- cmd.Wait()
		close(gone)
	}()
	s.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-gone
		}
	})
	return out, done
}

// name formats an init for file names.
func name(c time.Time) string { return c.Format("2006010215") }

func (s *site) file(c time.Time, member int) string {
	return filepath.Join(s.input, fmt.Sprintf("fc_%s_m%02d.grib2", name(c), member))
}

// content returns the file of one member at an init.
func (s *site) content(c time.Time, member int) []byte {
	return join(without(cycleOf(c, s.members), func(m testgrib.Message) bool { return m.Member != member })...)
}

// deliver puts a file in place by renaming it, like a file transfer.
func (s *site) deliver(c time.Time, member int, text []byte) {
	s.Helper()
	tmp := filepath.Join(filepath.Dir(s.input), "arriving")
	err := os.WriteFile(tmp, text, 0o644)
	if err == nil {
		err = os.Rename(tmp, s.file(c, member))
	}
	if err != nil {
		s.Fatal(err)
	}
}

// sums returns the checksums of the products of each init, whose manifest must exist; "" for a missing product.
func (s *site) sums() (out []string) {
	s.Helper()
	for _, c := range s.cycles {
		dir := filepath.Join(s.products, name(c))
		text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			out = append(out, "")
			continue
		}
		check := exec.Command("sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS")
		check.Dir = dir
		if wrong, err := check.CombinedOutput(); err != nil {
			s.Errorf("%s: %v: %s", dir, err, wrong)
		}
		got, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
		if err != nil || !strings.Contains(string(got), `"status": "ok"`) && !strings.Contains(string(got), `"status":"ok"`) {
			s.Errorf("%s: %v: %.200s", dir, err, got)
		}
		out = append(out, string(text))
	}
	return out
}

// undisturbed returns the checksums of the products made from complete input, and removes them.
func (s *site) undisturbed() []string {
	s.Helper()
	for _, c := range s.cycles {
		for m := range s.members {
			s.deliver(c, m, s.content(c, m))
		}
		s.run(filepath.Join(s.ops, "step.sh"), "predict", name(c))
	}
	want := s.sums()
	for _, dir := range []string{s.products, s.input, s.logs} {
		if err := os.RemoveAll(dir); err != nil {
			s.Fatal(err)
		}
	}
	if err := os.Mkdir(s.input, 0o755); err != nil {
		s.Fatal(err)
	}
	return want
}

// alarms returns the alarms that were sent: kind and init.
func (s *site) alarms() (out []string) {
	text, _ := os.ReadFile(filepath.Join(s.logs, "alarms"))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 {
			out = append(out, f[1]+" "+f[2])
		}
	}
	return out
}

// until waits until a condition holds.
func (s *site) until(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("timeout waiting for %s\n%s", what, s.logTails())
		}
	}
}

// alarmed reports whether an alarm was sent.
func (s *site) alarmed(want string) bool { return slices.Contains(s.alarms(), want) }

// logTails returns the last lines of all logs.
func (s *site) logTails() string {
	out, _ := exec.Command("sh", "-c", `tail -n 12 "$1"/* 2>/dev/null; ls -la "$2" "$3"`, "sh", s.logs, s.input, s.products).CombinedOutput()
	text := string(out)
	for _, d := range s.daemons {
		text += "\n" + d.String()
	}
	return text
}

// finished compares the products of a suite with the undisturbed ones, and its alarms with the expected ones.
func (s *site) finished(want []string, alarms ...string) {
	s.Helper()
	for i, got := range s.sums() {
		if got != want[i] || got == "" {
			s.Errorf("init %s:\n%swant\n%s", name(s.cycles[i]), got, want[i])
		}
	}
	slices.Sort(alarms)
	if got := slices.Sorted(slices.Values(s.alarms())); !slices.Equal(got, alarms) {
		s.Errorf("alarms %q, want %q", got, alarms)
	}
	if left, _ := filepath.Glob(filepath.Join(s.products, ".*")); left != nil {
		s.Errorf("left: %q", left)
	}
	if s.Failed() {
		s.Log(s.logTails())
	}
}

// oneLate delivers the only init of a site, with one member late and truncated at first: a degraded product is
// published, an alarm is sent, and the product is amended.
func (s *site) oneLate() {
	s.Helper()
	c := s.cycles[0]
	for m := range s.members - 1 {
		s.deliver(c, m, s.content(c, m))
	}
	s.deliver(c, s.members-1, s.content(c, s.members-1)[:1000])
	s.until("the alarm", func() bool { return s.alarmed("degraded " + name(c)) })
	s.deliver(c, s.members-1, s.content(c, s.members-1))
}

// freePort returns a port that is not in use and outside the range that the system assigns.
func freePort(t *testing.T) string {
	t.Helper()
	var err error
	for range 100 {
		port := strconv.Itoa(12_000 + rand.IntN(20_000)) // Linux assigns ports from 32768
		var l net.Listener
		if l, err = net.Listen("tcp", ":"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal(err)
	return ""
}

// TestStep runs step.sh, which all suites use, with every outcome of a prediction.
func TestStep(t *testing.T) {
	f := faulty(t)
	s := newSite(t, f.run, 1, 4, 100*time.Millisecond)
	c := name(s.cycles[0])
	step := filepath.Join(s.ops, "step.sh")
	alarm := ""
	ends := func(code int, alarms string, env ...string) {
		t.Helper()
		old := s.env
		s.env = append(s.env[:len(s.env):len(s.env)], env...)
		defer func() { s.env = old }()
		out, err := s.try(step, "predict", c)
		var e *exec.ExitError
		got := 0
		if errors.As(err, &e) {
			got = e.ExitCode()
		}
		if got != code || strings.Join(s.alarms(), ", ") != alarms || out != "" {
			t.Errorf("exit %d, alarms %q, want %d and %q: %s%s", got, s.alarms(), code, alarms, out, s.logTails())
		}
		text, _ := os.ReadFile(filepath.Join(s.logs, "alarms")) // the file does not exist without alarms
		alarm = string(text)
		os.Remove(filepath.Join(s.logs, "alarms"))
	}
	alarmContains := func(want string) {
		t.Helper()
		if !strings.Contains(alarm, want) {
			t.Errorf("the alarm is %q, not %q", alarm, want)
		}
	}
	ends(75, "", "TRIES=2")
	ends(1, "gave_up "+c, "TRIES=2", "TRY=2")
	alarmContains("*" + c + "*.grib2") // the missing files
	none := filepath.Join(s.ops, "none.sh")
	if err := os.WriteFile(none, []byte(". "+s.siteFile()+"\nENSEMBLE=/none\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ends(1, "refused "+c, "SITE="+none)
	alarmContains("/none cannot be run")
	for m := range 3 {
		s.deliver(s.cycles[0], m, s.content(s.cycles[0], m))
	}
	ends(10, "degraded "+c)
	ends(1, "refused "+c, "TRIES=9", "ENSEMBLE_MEMBERS_ON_MISSING=perhaps")
	s.deliver(s.cycles[0], 3, s.content(s.cycles[0], 3))
	ends(0, "")
	s.sums()
}

// TestEcFlowSuite runs one init of docs/ops/ecflow, with a member that is damaged at first.
func TestEcFlowSuite(t *testing.T) {
	f := faulty(t)
	s := newSite(t, f.run, 1, 4, 700*time.Millisecond)
	want := s.undisturbed()
	end, _ := s.ecflow()
	s.oneLate()
	end()
	s.finished(want, "degraded "+name(s.cycles[0]))
}

// ecflow starts the suite. It returns a function that waits for its end, and one that reruns an init as an
// operator would.
func (s *site) ecflow() (end func(), again func(time.Time)) {
	s.Helper()
	server, client := s.program("ecflow_server"), s.program("ecflow_client")
	home := filepath.Join(filepath.Dir(s.ops), "ecflow-home")
	if err := os.Mkdir(home, 0o755); err != nil {
		s.Fatal(err)
	}
	port := freePort(s.T)
	s.env = append(s.env, "ECF_HOST=localhost", "ECF_PORT="+port, "ECF_HOME="+home)
	s.daemon("sh", "-c", `cd "$ECF_HOME" && exec "$0" --port "$ECF_PORT"`, server)
	s.until("the server", func() bool { _, err := s.try(client, "--ping"); return err == nil })
	def, err := os.ReadFile(filepath.Join(s.ops, "ecflow", "ensemble.def"))
	if err != nil {
		s.Fatal(err)
	}
	text := strings.NewReplacer(s.siteNames()...).Replace(string(def))
	first, last := s.cycles[0].Format("20060102"), s.cycles[len(s.cycles)-1].Format("20060102")
	if text = strings.Replace(text, "20260101 20361231", first+" "+last, 1); !strings.Contains(text, first) || strings.Contains(text, "/usr/") {
		s.Fatal(text)
	}
	path := filepath.Join(home, "site.def")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	s.run(client, "--load="+path)
	s.run(client, "--restart")
	s.run(client, "--begin=ensemble")
	end = func() {
		s.Helper()
		state := ""
		for end := time.Now().Add(3 * time.Minute); !strings.Contains(state, "complete") && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			state = s.run(client, "--query", "state", "/ensemble")
		}
		if !strings.Contains(state, "complete") {
			out, _ := exec.Command("sh", "-c", `find "$1" -name '*.[0-9]*' -exec tail -n 20 {} +; tail -n 20 "$1"/*.log`, "sh", home).CombinedOutput()
			s.Fatalf("the suite is %s\n%s\n%s\n%s", state, s.run(client, "--get_state"), out, s.logTails())
		}
		s.run(client, "--terminate=yes")
	}
	return end, func(time.Time) { s.run(client, "--run", "/ensemble/cycle/predict") }
}

// siteNames are the paths of an installed suite, each with that of this site.
func (s *site) siteNames() []string {
	const at = "/usr/share/doc/ensemble/examples/ops"
	return []string{at + "/site.sh", s.siteFile(), at, s.ops}
}

// TestCylcSuite: docs/ops/cylc is a valid workflow. It runs in TestLongCylcSuite.
func TestCylcSuite(t *testing.T) {
	f := faulty(t)
	s := newSite(t, f.run, 1, 4, time.Second)
	if out := s.run(s.cylc(), append([]string{"validate"}, s.cylcArgs()...)...); !strings.Contains(out, "Valid for cylc-8") {
		t.Error(out)
	}
}

func (s *site) cylc() string { return s.program("cylc", "../../build/cylc/bin/cylc") }

func (s *site) cylcArgs() []string {
	point := func(c time.Time) string { return c.Format("20060102T15Z") }
	return []string{filepath.Join(s.ops, "cylc"), "--set", fmt.Sprintf("OPS='%s'", s.ops), "--set", fmt.Sprintf("SITE='%s'", s.siteFile()),
		"--set", fmt.Sprintf("FIRST='%s'", point(s.cycles[0])), "--set", fmt.Sprintf("LAST='%s'", point(s.cycles[len(s.cycles)-1])), "--set", "DELAY='PT1S'"}
}

// TestSlurmJob runs one init of docs/ops/slurm on a cluster on this machine.
func TestSlurmJob(t *testing.T) {
	f := faulty(t)
	s := newSite(t, f.run, 1, 4, 700*time.Millisecond)
	want := s.undisturbed()
	end, _ := s.slurm()
	s.oneLate()
	end()
	s.finished(want, "degraded "+name(s.cycles[0]))
}

// slurm starts a cluster of one node and submits the job of each init.
func (s *site) slurm() (end func(), again func(time.Time)) {
	s.Helper()
	sbatch, squeue := s.program("sbatch"), s.program("squeue")
	home := filepath.Join(filepath.Dir(s.ops), "slurm-home")
	for _, dir := range []string{"state", "spool"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			s.Fatal(err)
		}
	}
	key := make([]byte, 1024)
	for i := range key {
		key[i] = byte(rand.Uint32())
	}
	if err := os.WriteFile(filepath.Join(home, "key"), key, 0o600); err != nil {
		s.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		s.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	user := s.run("id", "-un")
	conf := strings.NewReplacer("HOME", home, "NODE", host, "USER", strings.TrimSpace(user), "PORT1", freePort(s.T), "PORT2", freePort(s.T)).Replace(`ClusterName=test
SlurmctldHost=NODE(127.0.0.1)
SlurmUser=USER
SlurmdUser=USER
AuthType=auth/munge
AuthInfo=socket=HOME/munge
CredType=cred/munge
SlurmctldPort=PORT1
SlurmdPort=PORT2
StateSaveLocation=HOME/state
SlurmdSpoolDir=HOME/spool
SlurmctldPidFile=HOME/slurmctld.pid
SlurmdPidFile=HOME/slurmd.pid
SlurmctldLogFile=HOME/slurmctld.log
SlurmdLogFile=HOME/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
NodeName=NODE NodeAddr=127.0.0.1 CPUs=2
PartitionName=all Nodes=NODE Default=YES OverSubscribe=FORCE:8
`)
	if err := os.WriteFile(filepath.Join(home, "slurm.conf"), []byte(conf), 0o644); err != nil {
		s.Fatal(err)
	}
	s.env = append(s.env, "SLURM_CONF="+filepath.Join(home, "slurm.conf"), "LOGS_SLURM="+filepath.Join(home, "out"), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	at := func(name string) string { return filepath.Join(home, name) }
	s.daemon(s.program("munged", "/usr/sbin/munged"), "--foreground", "--force", "--key-file="+at("key"), "--socket="+at("munge"), "--pid-file="+at("munge.pid"), "--log-file="+at("munge.log"), "--seed-file="+at("seed"))
	s.until("munge", func() bool { _, err := os.Stat(at("munge")); return err == nil })
	s.daemon(s.program("slurmctld", "/usr/sbin/slurmctld"), "-D")
	s.daemon(s.program("slurmd", "/usr/sbin/slurmd"), "-D", "-N", host)
	s.until("the node", func() bool {
		out, err := s.try("sinfo", "-h", "-o", "%T")
		return err == nil && strings.Contains(out, "idle")
	})
	submit := func(c time.Time) {
		s.run(sbatch, "--export=ALL,CYCLE="+name(c), "--output="+at("predict-"+name(c)), filepath.Join(s.ops, "slurm", "predict.sbatch"))
	}
	for _, c := range s.cycles {
		submit(c)
	}
	end = func() {
		s.Helper()
		s.until("the end of all jobs", func() bool { return strings.TrimSpace(s.run(squeue, "-h")) == "" })
		if s.Failed() {
			out, _ := exec.Command("sh", "-c", `tail -n 20 "$1"/*.log "$1"/out* "$1"/predict*`, "sh", home).CombinedOutput()
			s.Log(string(out))
		}
	}
	return end, submit
}
