// Package selftest tests an installation on its machine: kernels, libraries and file system, and a
// small job with expected scores.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// Options configures Run.
type Options struct {
	Dir      string // directory on the file system to test; default "."
	Threads  int    // 0: all available
	Progress *progress.Reporter
}

// Report is the result of all checks.
type Report struct {
	Program doctor.Program `json:"program"`
	Dir     string         `json:"dir"`
	Checks  []Check        `json:"checks"`
	Seconds float64        `json:"seconds"`
}

// Check is the result of one check.
type Check struct {
	Name    string  `json:"name"`
	State   State   `json:"state"`
	Detail  string  `json:"detail,omitempty"` // what was found
	Why     string  `json:"why,omitempty"`    // reason if it did not pass
	Fix     string  `json:"fix,omitempty"`
	Seconds float64 `json:"seconds"`
}

// State is the outcome of a check.
type State string

// Outcomes of checks.
const (
	Passed  State = "ok"
	Failed  State = "failed"  // present but not working
	Missing State = "missing" // required but not present
	Absent  State = "absent"  // optional and not present
	Skipped State = "skipped" // a prerequisite is missing or failed
)

// installation is the state that the checks share.
type installation struct {
	Options
	work  string // temporary directory within Dir
	pool  *decode.Pool
	files *demo.Files // data of the small job
}

// checkList lists the checks in order. find returns the result in words. An error with exit code 69 means
// that a library is missing, errSkip that a previous check failed.
var checkList = []struct {
	name     string
	optional bool
	find     func(*installation, context.Context) (string, error)
}{
	{"processor", false, (*installation).processor},
	{"kernels", false, (*installation).kernels},
	{"oneDNN", true, (*installation).oneDNN},
	{"decoding program", false, (*installation).decoder},
	{"GRIB", false, (*installation).grib},
	{"NetCDF", false, (*installation).netCDF},
	{"MPI", true, (*installation).mpi},
	{"GPU", true, (*installation).gpu},
	{"file replacement", false, (*installation).replacement},
	{"file locks", false, (*installation).locks},
	{"synthetic data", false, (*installation).demoData},
	{"train, predict, verify", false, (*installation).miniatureJob},
}

var errSkip = errors.New("a prerequisite did not pass")

// Run tests an installation, offline: kernels against reference kernels, every library, the file
// system of o.Dir, and a small job with expected scores.
//
// Errors: exit 1 with the report if a check failed, exit 69 with the report if required parts are
// missing; exit 73 if o.Dir is not writable; ctx.Err().
// Cost: about a minute.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Dir == "" {
		o.Dir = "."
	}
	if err := filesystem.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, exit.CreateError(o.Dir, err)
	}
	work, err := atomicfile.TempDir(o.Dir, ".ensemble-self-test-")
	if err != nil {
		return nil, exit.CreateError(o.Dir, err)
	}
	defer filesystem.RemoveAll(work)
	s := &installation{Options: o, work: work}
	defer func() {
		if s.pool != nil {
			s.pool.Close()
		}
	}()
	r := &Report{Program: doctor.CurrentProgram(), Dir: o.Dir}
	began := time.Now()
	task := o.Progress.Start("self-test", int64(len(checkList)))
	defer task.Done()
	for i, c := range checkList {
		task.Set(int64(i), c.name)
		t := time.Now()
		detail, err := c.find(s, ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		k := Check{Name: c.name, State: Passed, Detail: detail, Seconds: time.Since(t).Seconds()}
		switch {
		case errors.Is(err, errSkip):
			k.State, k.Why = Skipped, err.Error()
		case exit.CodeOf(err) == exit.NoDevice && c.optional:
			k.State = Absent
			k.Why, k.Fix = exit.Reason(err)
		case exit.CodeOf(err) == exit.NoDevice:
			k.State = Missing
			k.Why, k.Fix = exit.Reason(err)
		case err != nil:
			k.State = Failed
			k.Why, k.Fix = exit.Reason(err)
		}
		r.Checks = append(r.Checks, k)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, r.verdict()
}

// names lists the checks with an outcome.
func (r *Report) names(s State) string {
	var names []string
	for _, c := range r.Checks {
		if c.State == s {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

// verdict is the error of the report; nil if all required checks passed.
func (r *Report) verdict() error {
	if failed := r.names(Failed); failed != "" {
		return &exit.Error{Code: exit.No, What: "this installation does not work correctly", At: failed, Fix: "see the table; `ensemble doctor` lists the versions of all libraries"}
	}
	if missing := r.names(Missing); missing != "" {
		return &exit.Error{Code: exit.NoDevice, What: "parts of this installation are missing", At: missing, Fix: "install the missing parts in the table"}
	}
	return nil
}

// Sections is the report as a table with a row for each check, and a summary.
func (r *Report) Sections() answer.Sections {
	checks := answer.Section{Columns: []answer.Column{{}, {}, answer.NumberColumn("", "", "%.1f s"), {}}}
	for _, c := range r.Checks {
		text := c.Detail
		if c.State != Passed {
			text = c.Why
		}
		checks.Rows = append(checks.Rows, []any{c.State, c.Name, c.Seconds, text})
		if c.Fix != "" {
			checks.Rows = append(checks.Rows, []any{"", "", "", "fix: " + c.Fix})
		}
	}
	verdict := "all checks passed"
	switch {
	case r.names(Failed) != "":
		verdict = "failed: " + r.names(Failed)
	case r.names(Missing) != "":
		verdict = "missing: " + r.names(Missing)
	}
	return answer.Sections{{Text: []string{fmt.Sprintf("ensemble %s, %s, %s, in %s", r.Program.Version, r.Program.Go, r.Program.System, r.Dir)}}, checks,
		{Text: []string{fmt.Sprintf("%.0f s: %s", r.Seconds, verdict)}}}
}
