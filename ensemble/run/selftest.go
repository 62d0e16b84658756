package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// SelfTestOptions says where and how SelfTest works.
type SelfTestOptions struct {
	Dir      string // whose file system is tried and holds the scratch; default "."
	Threads  int    // 0: all that the machine gives
	Progress *progress.Reporter
}

// SelfTestReport says what of an installation works.
type SelfTestReport struct {
	Program ProgramFound `json:"program"`
	Dir     string       `json:"dir"`
	Checks  []SelfCheck  `json:"checks"`
	Seconds float64      `json:"seconds"`
}

// SelfCheck is one check of SelfTest.
type SelfCheck struct {
	Name    string    `json:"name"`
	State   SelfState `json:"state"`
	Detail  string    `json:"detail,omitempty"` // what was found
	Why     string    `json:"why,omitempty"`    // it did not pass
	Fix     string    `json:"fix,omitempty"`
	Seconds float64   `json:"seconds"`
}

// SelfState is how a check ended.
type SelfState string

// How checks end.
const (
	SelfPassed  SelfState = "ok"
	SelfFailed  SelfState = "failed"  // it is here and does not do what it must
	SelfMissing SelfState = "missing" // and needed
	SelfAbsent  SelfState = "absent"  // and not needed
	SelfSkipped SelfState = "skipped" // as something that it needs is missing or failed
)

// selfTest is what the checks share.
type selfTest struct {
	SelfTestOptions
	work  string // scratch below Dir
	pool  *decode.Pool
	files *demo.Files // of the miniature
}

// selfChecks lists the checks in their order. find gives what was found; an error that
// carries exit 69 says that a library is missing, errSkip that another check has said so.
var selfChecks = []struct {
	name     string
	optional bool
	find     func(*selfTest, context.Context) (string, error)
}{
	{"processor", false, (*selfTest).processor},
	{"kernels", false, (*selfTest).kernels},
	{"oneDNN", true, (*selfTest).oneDNN},
	{"decoding program", false, (*selfTest).decoder},
	{"GRIB", false, (*selfTest).grib},
	{"NetCDF", false, (*selfTest).netCDF},
	{"MPI", true, (*selfTest).mpi},
	{"GPU", true, (*selfTest).gpu},
	{"file replacement", false, (*selfTest).replacement},
	{"file locks", false, (*selfTest).locks},
	{"invented weather", false, (*selfTest).weather},
	{"train, predict, verify", false, (*selfTest).job},
}

var errSkip = errors.New("what it needs did not pass")

// SelfTest tries what an installation has to do on this machine, without network and
// within about a minute: kernels against the reference, every library by using it, the
// file system under o.Dir, and a whole job in miniature against recorded scores.
//
// Errors: exit 1 with the report if a check failed, exit 69 with it if all that did not
// pass is missing; exit 73 if nothing can be written under o.Dir; ctx.Err().
func SelfTest(ctx context.Context, o SelfTestOptions) (*SelfTestReport, error) {
	if o.Dir == "" {
		o.Dir = "."
	}
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, exit.Create(o.Dir, err)
	}
	work, err := atomicfile.TempDir(o.Dir, ".ensemble-self-test-")
	if err != nil {
		return nil, exit.Create(o.Dir, err)
	}
	defer os.RemoveAll(work)
	s := &selfTest{SelfTestOptions: o, work: work}
	defer func() {
		if s.pool != nil {
			s.pool.Close()
		}
	}()
	r := &SelfTestReport{Program: thisProgram(), Dir: o.Dir}
	began := time.Now()
	task := o.Progress.Start("self-test", int64(len(selfChecks)))
	defer task.Done()
	for i, c := range selfChecks {
		task.Set(int64(i), c.name)
		t := time.Now()
		detail, err := c.find(s, ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		k := SelfCheck{Name: c.name, State: SelfPassed, Detail: detail, Seconds: time.Since(t).Seconds()}
		switch {
		case errors.Is(err, errSkip):
			k.State, k.Why = SelfSkipped, err.Error()
		case exit.CodeOf(err) == exit.NoDevice && c.optional:
			k.State = SelfAbsent
			k.Why, k.Fix = parts(err)
		case exit.CodeOf(err) == exit.NoDevice:
			k.State = SelfMissing
			k.Why, k.Fix = parts(err)
		case err != nil:
			k.State = SelfFailed
			k.Why, k.Fix = parts(err)
		}
		r.Checks = append(r.Checks, k)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, r.verdict()
}

func (r *SelfTestReport) names(s SelfState) string {
	var names []string
	for _, c := range r.Checks {
		if c.State == s {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

// verdict is the error that the report amounts to.
func (r *SelfTestReport) verdict() error {
	if failed := r.names(SelfFailed); failed != "" {
		return &exit.Error{Code: exit.No, What: "this installation does not work as it must", At: failed, Fix: "see the table; the versions of all libraries are in `ensemble doctor`"}
	}
	if missing := r.names(SelfMissing); missing != "" {
		return &exit.Error{Code: exit.NoDevice, What: "parts of this installation are missing", At: missing, Fix: "install what the table names"}
	}
	return nil
}

// WriteText prints the report for a person.
func (r *SelfTestReport) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "ensemble %s, %s, %s, in %s\n\n", r.Program.Version, r.Program.Go, r.Program.System, r.Dir)
	for _, c := range r.Checks {
		text := c.Detail
		if c.State != SelfPassed {
			text = c.Why
		}
		fmt.Fprintf(&b, "%-8s %-23s %6.1f s  %s\n", c.State, c.Name, c.Seconds, text)
		if c.Fix != "" {
			fmt.Fprintf(&b, "%-43sfix: %s\n", "", c.Fix)
		}
	}
	verdict := "it works"
	switch {
	case r.names(SelfFailed) != "":
		verdict = "failed: " + r.names(SelfFailed)
	case r.names(SelfMissing) != "":
		verdict = "missing: " + r.names(SelfMissing)
	}
	fmt.Fprintf(&b, "\n%.0f s: %s\n", r.Seconds, verdict)
	_, err := io.WriteString(w, b.String())
	return err
}
