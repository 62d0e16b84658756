package mutation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options bounds the work of Run.
type Options struct {
	Limit   int                          // mutants that are tested, drawn at random; 0: all
	Seed    uint64                       // of the draw
	TimeOut time.Duration                // of the tests of one mutant, which are then taken to have noticed it; 0: a minute and three times the usual time
	Files   []string                     // base names of the files that are changed; nil: all
	Only    func(Mutant) bool            // the mutants that are drawn from; nil: all
	Skip    string                       // names of tests that are not run, as -skip of go test
	Slow    string                       // names of tests that are run only on mutants that the others do not notice, as -run of go test; "": none
	Tested  func(m Mutant, noticed bool) // called with each mutant after its tests; nil: not
}

// Report is what the tests of a package noticed.
type Report struct {
	Package  string
	Mutants  int      // of the package that compile, or that no test reaches, among those drawn
	Killed   int      // on which a test failed, or did not end
	TimedOut int      // of Killed: those whose tests did not end
	Survived []Mutant // on which all tests passed
	Noticed  []Mutant // the others
}

// Rate is the share of mutants that were noticed.
func (r Report) Rate() float64 { return float64(r.Killed) / float64(max(1, r.Mutants)) }

// Run tests mutants of a package, given by its import path or its folder. It changes no file: the go command reads the mutants in
// place of files (flag -overlay). Temporary files of the tests are in a folder of their own.
//
// Errors: the package does not build, or its tests fail without a change.
// Cost: compiling and running the tests of the package once for each mutant.
func Run(ctx context.Context, pkg string, o Options) (Report, error) {
	dir, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	r := runner{pkg: pkg, dir: dir, timeOut: o.TimeOut, skip: o.Skip, slow: o.Slow}
	if err := r.prepare(ctx); err != nil {
		return Report{}, err
	}
	all, err := r.mutants(o.Files)
	if err != nil {
		return Report{}, err
	}
	if o.Only != nil {
		all = slices.DeleteFunc(all, func(m Mutant) bool { return !o.Only(m) })
	}
	if o.Limit > 0 && o.Limit < len(all) {
		draw := rand.New(rand.NewPCG(o.Seed, 0))
		draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.Limit]
	}
	report := Report{Package: pkg}
	for _, m := range all {
		result, err := r.test(ctx, m)
		if err != nil {
			return report, err
		}
		switch result {
		case notCompiled:
			continue
		case survived:
			m.File = filepath.Base(m.File)
			report.Survived = append(report.Survived, m)
		case timedOut:
			report.TimedOut++
			report.Killed++
			report.Noticed = append(report.Noticed, m)
		default:
			report.Killed++
			report.Noticed = append(report.Noticed, m)
		}
		report.Mutants++
		if o.Tested != nil {
			o.Tested(m, result != survived)
		}
	}
	slices.SortFunc(report.Survived, func(a, b Mutant) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.from - b.from
	})
	return report, nil
}

// block is a block of statements from its first to its last line, and whether tests reach it.
type block struct {
	first, last int
	reached     bool
}

// runner tests mutants of one package.
type runner struct {
	pkg, dir string
	timeOut  time.Duration
	skip     string // as Options.Skip
	slow     string // as Options.Slow
	files    []string
	blocks   map[string][]block // of statements, by base name of the file
}

// goCommand is a call of the go command whose tests have their temporary files in a folder of the runner. Two processors at most, as
// mutants are tested beside other work.
func (r *runner) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+r.dir, "GOMAXPROCS=2")
	return cmd
}

// prepare lists the files of the package, and runs its tests without a change: for their time, and for the lines that they reach.
func (r *runner) prepare(ctx context.Context) error {
	out, err := r.goCommand(ctx, "list", "-f", `{{.Dir}}{{range .GoFiles}}{{"\n"}}{{.}}{{end}}{{range .CgoFiles}}{{"\n"}}{{.}}{{end}}`, r.pkg).Output()
	if err != nil {
		return fmt.Errorf("list %s: %w", r.pkg, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, name := range lines[1:] {
		r.files = append(r.files, filepath.Join(lines[0], name))
	}
	profile := filepath.Join(r.dir, "cover.out")
	if out, err := r.goCommand(ctx, "test", "-vet=off", "-count=1", "-skip", r.skip, "-coverprofile", profile, r.pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("the tests of %s fail without a change: %w\n%s", r.pkg, err, out)
	}
	if err := r.readProfile(profile); err != nil {
		return err
	}
	began := time.Now()
	if out, err := r.goCommand(ctx, "test", "-vet=off", "-count=1", "-skip", r.skip, r.pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("the tests of %s fail without a change: %w\n%s", r.pkg, err, out)
	}
	if r.timeOut == 0 {
		r.timeOut = time.Minute + 3*time.Since(began)
	}
	return nil
}

// readProfile reads the blocks of statements, and which of them tests reach.
func (r *runner) readProfile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r.blocks = map[string][]block{}
	for line := range strings.Lines(string(raw)) { // file.go:first.column,last.column statements count
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ".go:")
		fields := strings.FieldsFunc(rest, func(c rune) bool { return c == '.' || c == ',' || c == ' ' })
		if !ok || len(fields) != 6 {
			continue
		}
		first, err1 := strconv.Atoi(fields[0])
		last, err2 := strconv.Atoi(fields[2])
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("coverage of %s: %w", r.pkg, err)
		}
		base := filepath.Base(name) + ".go"
		r.blocks[base] = append(r.blocks[base], block{first, last, fields[5] != "0"})
	}
	return nil
}

// mutants lists the mutants of the package, in files with these base names.
func (r *runner) mutants(names []string) ([]Mutant, error) {
	var all []Mutant
	for _, path := range r.files {
		if names != nil && !slices.Contains(names, filepath.Base(path)) {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		of, err := Of(path, src)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// outcome is what became of a mutant.
type outcome int

const (
	killed outcome = iota
	survived
	timedOut
	notCompiled
)

// isReached reports whether a test may reach the line of a mutant. Lines outside of blocks, such as those of cases and variables, count
// as reached.
func (r *runner) isReached(m Mutant) bool {
	unreached := false
	for _, b := range r.blocks[filepath.Base(m.File)] {
		if b.first <= m.Line && m.Line <= b.last {
			if b.reached {
				return true
			}
			unreached = true
		}
	}
	return !unreached
}

// test compiles a mutant and runs the tests of the package if they reach it.
func (r *runner) test(ctx context.Context, m Mutant) (outcome, error) {
	src, err := os.ReadFile(m.File)
	if err != nil {
		return 0, err
	}
	changed := filepath.Join(r.dir, "mutant.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {m.File: changed}})
	if err != nil {
		return 0, err
	}
	replace := filepath.Join(r.dir, "overlay.json")
	if err := errors.Join(os.WriteFile(changed, m.apply(src), 0o644), os.WriteFile(replace, overlay, 0o644)); err != nil {
		return 0, err
	}
	if !r.isReached(m) {
		if r.goCommand(ctx, "build", "-overlay", replace, "-o", os.DevNull, r.pkg).Run() != nil {
			return notCompiled, ctx.Err()
		}
		return survived, ctx.Err()
	}
	binary := filepath.Join(r.dir, "mutant.test")
	if r.goCommand(ctx, "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", replace, "-o", binary, r.pkg).Run() != nil {
		return notCompiled, ctx.Err()
	}
	if r.slow == "" {
		return r.runTests(ctx, m, binary, "-test.skip", r.skip)
	}
	fast := r.slow
	if r.skip != "" {
		fast += "|" + r.skip
	}
	result, err := r.runTests(ctx, m, binary, "-test.skip", fast)
	if result == survived && err == nil {
		result, err = r.runTests(ctx, m, binary, "-test.run", r.slow, "-test.skip", r.skip)
	}
	return result, err
}

// addressSpace is what the tests of a mutant may take, in KiB: a loop that does not end must not take the memory of other programs.
const addressSpace = 8 << 20

// inLimits is a command within addressSpace.
func inLimits(ctx context.Context, name string, args ...string) *exec.Cmd {
	script := fmt.Sprintf(`ulimit -v %d && exec "$@"`, addressSpace)
	return exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh", name}, args...)...)
}

// runTests runs tests of a compiled mutant, which flags select.
func (r *runner) runTests(ctx context.Context, m Mutant, binary string, selection ...string) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, r.timeOut)
	defer cancel()
	cmd := inLimits(limited, binary, append([]string{"-test.failfast"}, selection...)...)
	cmd.Dir = filepath.Dir(m.File)
	cmd.Env = append(os.Environ(), "TMPDIR="+r.dir, "GOMAXPROCS=2", "GOMEMLIMIT=2GiB")
	cmd.WaitDelay = time.Second // children of the tests may hold its output
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case limited.Err() != nil:
		return timedOut, nil
	case err != nil:
		return killed, nil
	}
	return survived, nil
}
