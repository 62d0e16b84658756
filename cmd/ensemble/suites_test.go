package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fate is what happens to an initialisation while a suite runs.
type fate int

const (
	fateWhole      fate = iota // the input is complete
	fateDamaged                // the control is cut off: refused with 65
	fateNever                  // no input comes
	fateFewer                  // a member never comes
	fateLateMember             // a member comes after the products of the last initialisation
	fateLateInput              // all input comes after them
	fateWrongSite              // a wrong setting of the site, which an operator corrects
	fateKilled                 // the prediction is killed
)

// expectation is what a suite has to do with an initialisation.
type expectation struct {
	alarms, delivered string // without the name of the initialisation; states of products in order
}

var expectations = map[fate]expectation{
	fateWhole:      {"", "ok"},
	fateDamaged:    {"refused gave_up", ""},
	fateNever:      {"late gave_up", ""},
	fateFewer:      {"degraded", "degraded"},
	fateLateMember: {"degraded", "degraded ok"},
	fateLateInput:  {"late", "ok"},
	fateWrongSite:  {"failed", "ok"},
	fateKilled:     {"", "ok"},
}

// isLate reports whether input comes after the products of the last initialisation.
func (f fate) isLate() bool { return f == fateLateMember || f == fateLateInput }

// present returns the number of members that come before the suite begins, or while it runs.
func (f fate) present(members int) int {
	switch f {
	case fateNever, fateLateInput:
		return 0
	case fateFewer, fateLateMember:
		return members - 1
	}
	return members
}

// longWait is how long a predict waits for input that comes.
const longWait = "+30m"

// amendUntil is a deadline of an amend in one to two hours, which counts from the initialisation as in a chain of jobs it must.
func amendUntil(x time.Time) string { return fmt.Sprintf("init+%dh", 2+int(time.Since(x).Hours())) }

// prepare sets the deadlines of all initialisations, and delivers incomplete input. What is complete comes while the suite runs.
func (s *site) prepare(fates []fate) {
	s.Helper()
	var text strings.Builder
	text.WriteString(`case "${init:-}" in` + "\n")
	for i, x := range s.inits {
		switch f := fates[i]; {
		case f.isLate():
			fmt.Fprintf(&text, "%s) AMEND_DEADLINE=%s ;;\n", name(x), amendUntil(x))
		case f == fateWrongSite:
			fmt.Fprintf(&text, "%s) DEADLINE=%s; [ ! -e %s ] || export ENSEMBLE_MEMBERS_ON_MISSING=perhaps ;;\n", name(x), longWait, s.wrong())
		case f == fateWhole, f == fateKilled:
			fmt.Fprintf(&text, "%s) DEADLINE=%s ;;\n", name(x), longWait)
		}
	}
	s.prepend(text.String() + "esac\n")
	if err := os.WriteFile(s.wrong(), nil, 0o644); err != nil {
		s.Fatal(err)
	}
	for i, x := range s.inits {
		for m := range fates[i].present(s.members) {
			switch f := fates[i]; {
			case f == fateDamaged && m == 0:
				s.deliver(x, m, s.content(x, m)[:1000])
			case f != fateWhole && f != fateKilled && f != fateWrongSite:
				s.deliver(x, m, s.content(x, m))
			}
		}
	}
}

// wrong is a file that exists as long as the setting of the site is wrong.
func (s *site) wrong() string { return filepath.Join(s.root, "wrong") }

// of returns the initialisations with the given fates.
func (s *site) of(fates []fate, which ...fate) (out []time.Time) {
	for i, x := range s.inits {
		if slices.Contains(which, fates[i]) {
			out = append(out, x)
		}
	}
	return out
}

// suffer runs a suite while each initialisation has its fate, and compares products, deliveries and alarms with the expected ones. The last
// initialisation is whole, and may not begin before s.due.
func (s *site) suffer(fates []fate, start func(*site) (end func(), again func(time.Time))) {
	s.Helper()
	want := s.undisturbed(s.of(fates, fateWhole, fateLateMember, fateLateInput, fateWrongSite, fateKilled))
	s.prepare(fates)
	begun := time.Now()
	end, again := start(s)
	for _, x := range s.of(fates, fateKilled) {
		s.until("a prediction to kill", func() bool {
			pids, _ := s.predictions(x)
			return len(pids) > 0
		})
		pids, _ := s.predictions(x)
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			s.Fatal(err)
		}
	}
	for _, x := range s.of(fates, fateWrongSite) {
		s.until("a failure", func() bool { return s.alarmed("failed " + name(x)) })
		if err := os.Remove(s.wrong()); err != nil {
			s.Fatal(err)
		}
		again(x)
	}
	s.deliverAll(s.of(fates, fateWhole, fateKilled, fateWrongSite))
	last := s.inits[len(s.inits)-1]
	s.until("the last initialisation", func() bool { return s.delivered()[name(last)] != nil })
	for _, x := range s.of(fates, fateLateMember, fateLateInput) {
		s.until("the alarm of "+name(x), func() bool { return s.alarmed("late "+name(x)) || s.delivered()[name(x)] != nil })
	}
	if s.beforeLate != nil {
		s.beforeLate()
	}
	s.deliverAll(s.of(fates, fateLateMember, fateLateInput))
	end()
	s.compare(fates, want)
	if _, times := s.predictions(last); len(times) != 1 || times[0].Before(s.due) {
		s.Errorf("%s was predicted at %v, due at %v", name(last), times, s.due)
	}
	s.Logf("%d initialisations of %d members after %s, delivered %v, alarms %q", len(s.inits), s.members, time.Since(begun).Round(time.Second), s.delivered(), s.alarms())
	if s.Failed() {
		s.Log(s.logTails())
	}
}

// deliverAll delivers what the input of initialisations lacks, in random order.
func (s *site) deliverAll(inits []time.Time) {
	s.Helper()
	for _, k := range rand.New(rand.NewPCG(7, 8)).Perm(len(inits) * s.members) {
		x, m := inits[k%len(inits)], k/len(inits)
		if _, err := os.Stat(s.file(x, m)); err != nil { // present files stay: a change while they are read fails
			s.deliver(x, m, s.content(x, m))
		}
	}
}

// compare compares products, deliveries and alarms with the expected ones.
func (s *site) compare(fates []fate, want map[time.Time]string) {
	s.Helper()
	var alarms []string
	delivered := s.delivered()
	for i, x := range s.inits {
		e := expectations[fates[i]]
		for _, word := range strings.Fields(e.alarms) {
			alarms = append(alarms, word+" "+name(x))
		}
		states := strings.Fields(e.delivered)
		if got := delivered[name(x)]; !slices.Equal(got, states) {
			s.Errorf("%s: delivered %q, want %q", name(x), got, states)
		}
		final := ""
		if len(states) > 0 {
			final = states[len(states)-1]
		}
		if status, sums := s.product(x); status != final || final == "ok" && sums != want[x] {
			s.Errorf("%s: status %q, want %q, sums\n%swant\n%s", name(x), status, final, sums, want[x])
		}
	}
	slices.Sort(alarms)
	if got := slices.Sorted(slices.Values(s.alarms())); !slices.Equal(got, alarms) {
		s.Errorf("alarms %q, want %q", got, alarms)
	}
	if left, _ := filepath.Glob(filepath.Join(s.products, ".*")); left != nil {
		s.Errorf("left: %q", left)
	}
}

// shortFates: one is refused, one stays degraded, one until a member comes after the last one is delivered.
var shortFates = []fate{fateDamaged, fateFewer, fateLateMember, fateWhole}

// testSuite runs two days of a suite. The last initialisation becomes due 15 seconds after the begin. Suites mostly wait,
// hence one runs beside the other.
func testSuite(t *testing.T, start func(*site) (end func(), again func(time.Time))) {
	t.Parallel()
	f := faulty(t)
	s := newSite(t, f.run, halfDays(lastDay, 2), 4)
	s.suffer(shortFates, func(s *site) (end func(), again func(time.Time)) {
		s.due = time.Now().Add(15 * time.Second).Truncate(time.Second)
		return start(s)
	})
}

// TestSuiteTimes: docs/operations.md states the times and limits of the suites.
func TestSuiteTimes(t *testing.T) {
	page, err := os.ReadFile(operationsPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, text, stated string }{
		{"site.sh", "${DEADLINE:=init+6h40m}", "at `DEADLINE` (`init+6h40m`)"},
		{"site.sh", "${AMEND_DEADLINE:=init+18h}", "until `AMEND_DEADLINE` (`init+18h`)"},
		{"site.sh", "${AMEND_EVERY:=1800}", "each half hour (`AMEND_EVERY`)"},
		{"site.sh", "${TRIES:=4}", "are tried four times (`TRIES`)"},
		{"site.sh", "${RETRY_DELAY:=5m}", "5 min apart (`RETRY_DELAY`)"},
		{"cylc/flow.cylc", "default('T00, T12')", "`CYCLES"},
		{"cylc/flow.cylc", "default('PT3H')", "| `predict` | 3 h after the initialisation |"},
		{"cylc/flow.cylc", "default('PT3H')", "`DUE` (`PT3H`)"},
		{"cylc/flow.cylc", "limit = 4\n", "| four predictions; initialisations of 7 days |"},
		{"cylc/flow.cylc", "runahead limit = P7D\n", "| four predictions; initialisations of 7 days |"},
		{"cylc/flow.cylc", "execution time limit = PT5H", "`predict` after 5 h, `deliver` 1 h, `amend` 16 h |"},
		{"cylc/flow.cylc", "execution time limit = PT1H\n", "`predict` after 5 h, `deliver` 1 h, `amend` 16 h |"},
		{"cylc/flow.cylc", "execution time limit = PT16H", "`predict` after 5 h, `deliver` 1 h, `amend` 16 h |"},
		{"ecflow/ensemble.def", ":HH * 100 + 300", "| `300` in the trigger of `start`, for 03:00, at most 500;"},
		{"ecflow/ensemble.def", "limit predictions 4\n", "| four predictions | limits of the partition"},
		{"ecflow/init.def", "autocancel 1\n", "is removed a day after its end"},
		{"ecflow/init.def", "edit TIME_LIMIT 5h", "`predict` after 5 h, `deliver` 1 h, `amend` 16 h |"},
		{"ecflow/init.def", "edit TIME_LIMIT 1h\n", "`predict` after 5 h, `deliver` 1 h, `amend` 16 h |"},
		{"ecflow/init.def", "edit TIME_LIMIT 16h", "`predict` after 5 h, `deliver` 1 h, `amend` 16 h |"},
		{"slurm/submit.sh", "${DUE:=10800}", "`DUE` (10800 s)"},
		{"slurm/predict.sbatch", "#SBATCH --time=05:00:00\n", "| each job after 5 h; then requeued |"},
		{"slurm/predict.sbatch", "${AMEND_WAIT:-60}", "looks for a minute every `AMEND_EVERY`"},
		{"slurm/predict.sbatch", "--signal=B:TERM@120\n", "Two minutes before the time limit jobs are stopped (`--signal=B:TERM@120`)"},
		{"slurm/train.sbatch", "--signal=USR1@300\n", "five minutes before it (`USR1@300`)"},
	} {
		text, err := os.ReadFile(filepath.Join("../../docs/ops", c.file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.text) || !strings.Contains(string(page), c.stated) {
			t.Errorf("docs/ops/%s has %q: %t; docs/operations.md states %q: %t", c.file, c.text, strings.Contains(string(text), c.text), c.stated, strings.Contains(string(page), c.stated))
		}
	}
}

const operationsPage = "../../docs/operations.md"

// runNowhere are the commands of docs/operations.md that no test runs, by their first words, and why.
var runNowhere = map[string]string{
	"install -D -m 644": "systemctl needs systemd as the first process of the system, which a container lacks, and editor a person. TestServeUnit checks the unit; TestPagesBlocks configurations",
	"make image":        "needs a builder of images, and the right to create namespaces in a container",
}

// TestPrintedOperations: a test runs every command of docs/operations.md, or runNowhere states why it cannot. Tests of long
// duration read the commands from the page.
func TestPrintedOperations(t *testing.T) {
	tests, err := os.ReadFile("ops_long_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	left := maps.Clone(runNowhere)
	for _, b := range blocks(t, operationsPage) {
		if b.commands == "" || b.exempt == "" {
			continue // TestLongPages runs the others
		}
		if test := regexp.MustCompile(`TestLong\w+`).FindString(b.exempt); test != "" {
			if !strings.Contains(string(tests), "printedFor(t, \""+test+"\")") {
				t.Errorf("%s:%d: no test %s", operationsPage, b.line, test)
			}
			continue
		}
		known := false
		for _, test := range regexp.MustCompile(`Test\w+`).FindAllString(b.exempt, -1) {
			known = true
			if !bytes.Contains(all, []byte("func "+test+"(")) {
				t.Errorf("%s:%d: no test %s", operationsPage, b.line, test)
			}
		}
		for begin := range runNowhere {
			if strings.HasPrefix(b.commands, begin) {
				known = true
				delete(left, begin)
			}
		}
		if !known {
			t.Errorf("%s:%d: no test runs %q", operationsPage, b.line, b.commands)
		}
	}
	for begin := range left {
		t.Errorf("%s does not have %q", operationsPage, begin)
	}
}

func TestEcFlowSuite(t *testing.T) { testSuite(t, (*site).ecflow) }

func TestCylcSuite(t *testing.T) { testSuite(t, (*site).cylc) }

func TestSlurmSuite(t *testing.T) { testSuite(t, (*site).slurm) }

// ecflow starts the suite. It returns a function that waits for its end, and one that runs a prediction again as an operator would.
func (s *site) ecflow() (end func(), again func(time.Time)) {
	s.Helper()
	client := s.ecflowServer()
	def, err := os.ReadFile(filepath.Join(s.ops, "ecflow", "ensemble.def"))
	if err != nil {
		s.Fatal(err)
	}
	clock := ""
	if !s.due.IsZero() { // of the suite: three hours after the last initialisation when it is due
		clock = fmt.Sprintf("  clock real %d\n", int(s.inits[len(s.inits)-1].Add(3*time.Hour).Sub(s.due).Seconds()))
	}
	first, last := s.inits[0].Format("20060102"), s.inits[len(s.inits)-1].Format("20060102")
	text := strings.NewReplacer("/usr/share/ensemble/ops", s.ops, "suite ensemble\n", "suite ensemble\n"+clock, "20260101 20361231", first+" "+last).Replace(string(def))
	path := filepath.Join(s.root, "site.def")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	s.run(client, "--load="+path)
	s.run(client, "--begin=ensemble")
	state := func(node string) string {
		out, _ := s.try(client, "--query", "state", "/ensemble/"+node) // fails until the node exists
		return strings.TrimSpace(out)
	}
	end = func() {
		s.Helper()
		s.until("the last family", func() bool { return state("day") == "complete" })
		for _, x := range s.inits {
			for _, task := range []string{"predict", "deliver", "amend"} {
				s.until(name(x)+"/"+task, func() bool { return slices.Contains([]string{"complete", "aborted"}, state(name(x)+"/"+task)) })
			}
		}
		if s.Failed() {
			s.Log(s.run(client, "--get_state"))
		}
		s.run(client, "--terminate=yes")
	}
	return end, func(x time.Time) {
		s.until("the end of the job", func() bool { return state(name(x)+"/predict") == "aborted" })
		s.run(client, "--run", "/ensemble/"+name(x)+"/predict")
	}
}

// ecflowServer starts a server, and returns the client's program.
func (s *site) ecflowServer() string {
	s.Helper()
	server, client := s.program("ecflow_server"), s.program("ecflow_client")
	home := filepath.Join(s.root, "ecflow-home")
	if err := os.Mkdir(home, 0o755); err != nil {
		s.Fatal(err)
	}
	port := freePort(s.T)
	s.env = append(s.env, "ECF_HOST=localhost", "ECF_PORT="+port, "ECF_HOME="+home, "ECF_INTERVAL=1")
	s.daemon("sh", "-c", `cd "$ECF_HOME" && exec "$0" --port "$ECF_PORT"`, server)
	s.until("the server", func() bool { _, err := s.try(client, "--ping"); return err == nil })
	s.run(client, "--restart")
	return client
}

// cylc runs the suite.
func (s *site) cylc() (end func(), again func(time.Time)) {
	s.Helper()
	cylc := s.cylcProgram()
	last := s.inits[len(s.inits)-1]
	due := max(0, s.due.Sub(last))
	out, ended := s.daemon(cylc, "vip", "./cylc", "--no-detach", "--workflow-name=ensemble", fmt.Sprintf("--set=OPS='%s'", s.ops), fmt.Sprintf("--set=FIRST='%s'", point(s.inits[0])),
		fmt.Sprintf("--set=LAST='%s'", point(last)), fmt.Sprintf("--set=DUE='PT%dS'", int(due.Seconds())))
	end = func() {
		s.Helper()
		select {
		case err := <-ended:
			if err != nil {
				s.Fatalf("%v\n%s\n%s", err, out, s.logTails())
			}
		case <-time.After(10 * time.Minute):
			s.Fatalf("the suite does not end:\n%s\n%s", out, s.logTails())
		}
	}
	return end, func(x time.Time) {
		s.cylcPredicted(x)
		s.run(cylc, "trigger", "ensemble//"+point(x)+"/predict")
	}
}

// point formats an initialisation as a cycle of Cylc.
func point(x time.Time) string { return x.Format("20060102T15Z") }

// cylcPredicted waits until the scheduler knows that the first prediction of an initialisation has ended: it ignores triggers of running tasks.
func (s *site) cylcPredicted(x time.Time) {
	s.Helper()
	s.until("the end of the task", func() bool {
		log, _ := os.ReadFile(filepath.Join(s.root, "cylc-run", "ensemble", "runN", "log", "scheduler", "log"))
		return bytes.Contains(log, []byte(point(x)+"/predict/01:running] => "))
	})
}

// cylcProgram returns the program, and configures it for this machine.
func (s *site) cylcProgram() string {
	s.Helper()
	cylc := s.program("cylc", "../../build/cylc/bin/cylc")
	conf := filepath.Join(s.root, "cylc-conf")
	if err := os.Mkdir(conf, 0o755); err != nil {
		s.Fatal(err)
	}
	text := "[platforms]\n    [[localhost]]\n        hosts = localhost\n        cylc path = " + filepath.Dir(cylc) + "\n[scheduler]\n    [[main loop]]\n        plugins =\n"
	if err := os.WriteFile(filepath.Join(conf, "global.cylc"), []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	s.env = append(s.env, "CYLC_CONF_PATH="+conf, "PATH="+filepath.Dir(cylc)+":"+os.Getenv("PATH"))
	return cylc
}

// TestSlurmChain: a job of Slurm submits one further job for an amend that is not at its end, and none otherwise. With an
// AMEND_DEADLINE that begins anew in each job nothing is submitted, but products are delivered.
func TestSlurmChain(t *testing.T) {
	s := newSite(t, faulty(t).run, []time.Time{lastDay}, 4)
	bin, steps := filepath.Join(s.root, "bin"), filepath.Join(s.root, "steps")
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(bin, "sbatch"), "echo sbatch \"$@\" >>"+steps+"\nexit ${SBATCH_CODE:-0}\n")
	write(filepath.Join(s.ops, "step.sh"), "echo $1 $2 >>"+steps+"\n[ $1 = deliver ] || exit $STEP_CODE\n")
	write(filepath.Join(s.ops, "alarm.sh"), "echo alarm \"$@\" >>"+steps+"\n")
	day := name(lastDay)
	amend := "sbatch --export=ALL,STEP=amend,AMEND_WAIT=60 --begin=now+1800 --job-name=amend-" + day + " --cpus-per-task=1 --nice " + s.ops + "/slurm/predict.sbatch"
	const refused = "AMEND_DEADLINE=6h does not count from the initialisation, so an amend, whose jobs all begin anew, would not end: "
	base := append(slices.Clone(s.env), "PATH="+bin+":"+os.Getenv("PATH"), "INIT="+day)
	for _, c := range []struct {
		what, env string
		code      int
		want      []string
	}{
		{"whole", "STEP_CODE=0", 0, []string{"predict " + day, "deliver " + day}},
		{"degraded", "STEP_CODE=10", 0, []string{"predict " + day, amend, "deliver " + day}},
		{"nothing", "STEP_CODE=11", 0, []string{"predict " + day, amend}},
		{"failed", "STEP_CODE=1", 1, []string{"predict " + day}},
		{"more may come", "STEP=amend STEP_CODE=12", 0, []string{"amend " + day, amend}},
		{"the end", "STEP=amend STEP_CODE=0", 0, []string{"amend " + day}},
		{"no end, degraded", "STEP_CODE=10 AMEND_DEADLINE=6h", 64, []string{"predict " + day, "alarm failed " + day + " amend: " + refused, "deliver " + day}},
		{"no end, nothing", "STEP_CODE=11 AMEND_DEADLINE=+6h", 64, []string{"predict " + day, "alarm failed " + day + " amend: AMEND_DEADLINE=+6h "}},
		{"no end, whole", "STEP_CODE=0 AMEND_DEADLINE=6h", 0, []string{"predict " + day, "deliver " + day}},
		{"sbatch fails", "STEP_CODE=10 SBATCH_CODE=1", 1, []string{"predict " + day, amend, "alarm failed " + day + " amend: cannot be submitted", "deliver " + day}},
	} {
		os.Remove(steps)
		s.env = append(slices.Clone(base), strings.Fields(c.env)...)
		_, err := s.try("bash", filepath.Join(s.ops, "slurm", "predict.sbatch"))
		if code, got := codeOf(t, err), linesOf(t, steps); code != c.code || !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: exit %d after\n%s\nwant %d after\n%s", c.what, code, strings.Join(got, "\n"), c.code, strings.Join(c.want, "\n"))
		}
	}
	submit := filepath.Join(s.ops, "slurm", "submit.sh")
	for _, c := range []struct {
		deadline string
		code     int
		words    string
		want     []string
	}{
		{"6h", 64, refused + s.siteFile() + ": write init+18h, or a time of day such as 18:00Z", nil},
		{"init+6h", 0, "", []string{"sbatch --begin=2026-01-01T03:00:00 --export=ALL,INIT=2026010100 ", "sbatch --begin=2026-01-01T15:00:00 --export=ALL,INIT=2026010112 "}},
		{"06:40Z", 0, "", []string{"sbatch ", "sbatch "}},
	} {
		os.Remove(steps)
		s.env = append(slices.Clone(base), "AMEND_DEADLINE="+c.deadline)
		out, err := s.try(submit, "20260101")
		if code, got := codeOf(t, err), linesOf(t, steps); code != c.code || !strings.Contains(out, c.words) || !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: exit %d, %s, submitted %q, want %d, %q", c.deadline, code, out, got, c.code, c.want)
		}
	}
}

// codeOf returns the exit code of a command that ended with an error.
func codeOf(t *testing.T, err error) int {
	t.Helper()
	var e *exec.ExitError
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	if e == nil {
		return 0
	}
	return e.ExitCode()
}

// linesOf returns the lines of a file; none if it does not exist.
func linesOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// slurm starts a cluster of one node and submits the jobs of all initialisations.
func (s *site) slurm() (end func(), again func(time.Time)) {
	s.Helper()
	home := s.slurmCluster()
	submit := func(env, first, last string) {
		s.run("sh", "-c", "cd "+home+" && "+env+" "+filepath.Join(s.ops, "slurm", "submit.sh")+" "+first+" "+last)
	}
	last := s.inits[len(s.inits)-1]
	s.env = append(s.env, "AMEND_EVERY=8", "AMEND_WAIT=4")
	submit(fmt.Sprintf("DUE=%d", int(max(0, s.due.Sub(last)).Seconds())), s.inits[0].Format("20060102"), last.Format("20060102"))
	s.beforeLate = func() {
		s.until("an amend that waits without a CPU", func() bool {
			return regexp.MustCompile(`amend-\d+ BeginTime`).MatchString(s.run("squeue", "-h", "-t", "PENDING", "-o", "%j %r"))
		})
	}
	return s.slurmEnd, func(x time.Time) { submit("CYCLES="+x.Format("15"), x.Format("20060102"), "") }
}

// slurmEnd waits for the end of all jobs.
func (s *site) slurmEnd() {
	s.Helper()
	s.until("the end of all jobs", func() bool { return strings.TrimSpace(s.run("squeue", "-h")) == "" })
	if s.Failed() {
		out, _ := exec.Command("sh", "-c", `tail -n 20 "$1"/*.log "$1"/*.out`, "sh", filepath.Join(s.root, "slurm-home")).CombinedOutput()
		s.Log(string(out))
	}
}

// slurmCluster starts a cluster of one node, and returns the folder of its files.
func (s *site) slurmCluster() string {
	s.Helper()
	s.program("sbatch")
	home := filepath.Join(s.root, "slurm-home")
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
	s.env = append(s.env, "SLURM_CONF="+filepath.Join(home, "slurm.conf"), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	at := func(name string) string { return filepath.Join(home, name) }
	s.daemon(s.program("munged", "/usr/sbin/munged"), "--foreground", "--force", "--key-file="+at("key"), "--socket="+at("munge"), "--pid-file="+at("munge.pid"), "--log-file="+at("munge.log"), "--seed-file="+at("seed"))
	s.until("munge", func() bool { _, err := os.Stat(at("munge")); return err == nil })
	s.daemon(s.program("slurmctld", "/usr/sbin/slurmctld"), "-D")
	s.daemon(s.program("slurmd", "/usr/sbin/slurmd"), "-D", "-N", host)
	s.until("the node", func() bool {
		out, err := s.try("sinfo", "-h", "-o", "%T")
		return err == nil && strings.Contains(out, "idle")
	})
	return home
}

// replaceIn replaces texts of a file of the suites, which must be there.
func (s *site) replaceIn(file string, pairs ...string) {
	s.Helper()
	path := filepath.Join(s.ops, file)
	text, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !bytes.Contains(text, []byte(pairs[i])) {
			s.Fatalf("%s has no %q", file, pairs[i])
		}
	}
	if err := os.WriteFile(path, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644); err != nil {
		s.Fatal(err)
	}
}

// TestEcFlowLimit: a step that hangs, and ignores signals, is ended after its time limit with an alarm, and its task is aborted.
func TestEcFlowLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, faulty(t).run, []time.Time{lastDay}, 4)
	s.deliverAll(s.inits)
	hang := filepath.Join(s.root, "hang.sh")
	if err := os.WriteFile(hang, []byte("#!/bin/bash\ntrap '' TERM\nwhile :; do sleep 0.1; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.prepend("export DELIVER=" + hang + "\n")
	s.replaceIn("ecflow/init.def", "TIME_LIMIT 1h", "TIME_LIMIT 2s")
	s.replaceIn("ecflow/include/step.h", "--kill-after=2m", "--kill-after=1s")
	client := s.ecflowServer()
	def := filepath.Join(s.root, "site.def")
	s.run("sh", "-c", "sed -e 's|/usr/share/ensemble/ops|"+s.ops+"|' -e 's|20260101 20361231|"+lastDay.Format("20060102 20060102")+"|' ecflow/ensemble.def >"+def)
	s.run(client, "--load="+def)
	s.run(client, "--begin=ensemble")
	s.until("the end of the step", func() bool {
		out, _ := s.try(client, "--query", "state", "/ensemble/"+name(lastDay)+"/deliver")
		return strings.TrimSpace(out) == "aborted"
	})
	if !s.alarmed("failed " + name(lastDay)) {
		t.Errorf("no alarm: %q", s.alarms())
	}
	if pids := processesWith(hang); len(pids) > 0 {
		t.Errorf("it still runs: %d", pids)
	}
}
