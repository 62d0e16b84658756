// Package selftest tries an installation on its machine: every part by using it, and a whole job in miniature against
// recorded scores.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// Options says where and how Run works.
type Options struct {
	Dir      string // whose file system is tried and holds the scratch; default "."
	Threads  int    // 0: all that the machine gives
	Progress *progress.Reporter
}

// Report says what of an installation works.
type Report struct {
	Program doctor.Program `json:"program"`
	Dir     string         `json:"dir"`
	Checks  []Check        `json:"checks"`
	Seconds float64        `json:"seconds"`
}

// Check is one check of Run.
type Check struct {
	Name    string  `json:"name"`
	State   State   `json:"state"`
	Detail  string  `json:"detail,omitempty"` // what was found
	Why     string  `json:"why,omitempty"`    // it did not pass
	Fix     string  `json:"fix,omitempty"`
	Seconds float64 `json:"seconds"`
}

// State is how a check ended.
type State string

// How checks end.
const (
	Passed  State = "ok"
	Failed  State = "failed"  // it is here and does not do what it must
	Missing State = "missing" // and needed
	Absent  State = "absent"  // and not needed
	Skipped State = "skipped" // as something that it needs is missing or failed
)

// installation is what the checks share.
type installation struct {
	Options
	work  string // scratch below Dir
	pool  *decode.Pool
	files *demo.Files // of the miniature
}

// checkList lists the checks in their order. find gives what was found; an error that
// carries exit 69 says that a library is missing, errSkip that another check has said so.
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
	{"invented weather", false, (*installation).demoData},
	{"train, predict, verify", false, (*installation).miniatureJob},
}

var errSkip = errors.New("what it needs did not pass")

// Run tries what an installation has to do on this machine, without network and
// within about a minute: kernels against the reference, every library by using it, the
// file system under o.Dir, and a whole job in miniature against recorded scores.
//
// Errors: exit 1 with the report if a check failed, exit 69 with it if all that did not
// pass is missing; exit 73 if nothing can be written under o.Dir; ctx.Err().
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Dir == "" {
		o.Dir = "."
	}
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, exit.CreateError(o.Dir, err)
	}
	work, err := atomicfile.TempDir(o.Dir, ".ensemble-self-test-")
	if err != nil {
		return nil, exit.CreateError(o.Dir, err)
	}
	defer os.RemoveAll(work)
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

func (r *Report) names(s State) string {
	var names []string
	for _, c := range r.Checks {
		if c.State == s {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

// verdict is the error that the report amounts to.
func (r *Report) verdict() error {
	if failed := r.names(Failed); failed != "" {
		return &exit.Error{Code: exit.No, What: "this installation does not work as it must", At: failed, Fix: "see the table; the versions of all libraries are in `ensemble doctor`"}
	}
	if missing := r.names(Missing); missing != "" {
		return &exit.Error{Code: exit.NoDevice, What: "parts of this installation are missing", At: missing, Fix: "install what the table names"}
	}
	return nil
}

// Sections are the report for people: a row for each check, then what they amount to.
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
	verdict := "it works"
	switch {
	case r.names(Failed) != "":
		verdict = "failed: " + r.names(Failed)
	case r.names(Missing) != "":
		verdict = "missing: " + r.names(Missing)
	}
	return answer.Sections{{Text: []string{fmt.Sprintf("ensemble %s, %s, %s, in %s", r.Program.Version, r.Program.Go, r.Program.System, r.Dir)}}, checks,
		{Text: []string{fmt.Sprintf("%.0f s: %s", r.Seconds, verdict)}}}
}
