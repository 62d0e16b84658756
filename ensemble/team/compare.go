package team

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Fact is something that ranks compare because it affects the bits of results, such as the configuration or an instruction
// set.
type Fact struct {
	Name  string // in messages and records
	Value string // of this rank
	// Detail has lines of which the first that differs is shown in place of the value; "" shows the value.
	Detail string
	Effect Effect // of a difference
	Code   exit.Code
	Why    string // the consequence of a difference
	Fix    string
}

// Effect is what a difference between ranks causes.
type Effect int

// Effects of a difference.
const (
	Refused  Effect = iota // the job ends with the Code of the fact
	Warned                 // a warning
	Recorded               // a line of the record
)

// Comparison is the record of what the ranks of a job compared.
type Comparison struct {
	Ranks       int               `json:"ranks"`
	Processes   int               `json:"processes"`
	Mesh        string            `json:"mesh,omitempty"` // set by the caller
	Same        map[string]string `json:"same"`           // values by name
	Different   []Difference      `json:"different"`
	NotCompared []string          `json:"not_compared"`
	Warnings    []string          `json:"-"`
}

// Difference is a fact with several values.
type Difference struct {
	Name   string  `json:"name"`
	Values []Value `json:"values"` // by first rank
}

// Value is a value with the processes that have it.
type Value struct {
	Value     string `json:"value"`
	Processes []int  `json:"processes"`
}

// longValue is the length from which a value is compared and recorded by its checksum.
const longValue = 200

// Compare compares facts, which all ranks list in the same order. A single rank gets nil.
//
// Errors: the Code of the first refused fact that differs, on all ranks; lost ranks.
func (t *Team) Compare(facts ...Fact) (*Comparison, error) {
	if t == nil {
		return nil, nil
	}
	own := make([]string, len(facts))
	for i, f := range facts {
		if own[i] = f.Value; len(f.Value) > longValue {
			own[i] = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(f.Value)))
		}
	}
	all, err := AllGather(t.Comm, own)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Ranks: t.Size(), Processes: ProcessCount(t.Comm), Same: map[string]string{}, Different: []Difference{}, NotCompared: []string{}}
	for i, f := range facts {
		d := t.difference(f.Name, i, all)
		if len(d.Values) == 1 {
			c.Same[f.Name] = own[i]
			continue
		}
		c.Different = append(c.Different, d)
		if f.Effect == Recorded {
			continue
		}
		e, err := t.disagreement(f, d)
		if err != nil {
			return nil, err
		}
		if f.Effect == Refused {
			return nil, &agreedError{e}
		}
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %s: %s", e.What, e.At, e.Why))
	}
	return c, nil
}

// difference lists the values of fact i.
func (t *Team) difference(name string, i int, all [][]string) Difference {
	d := Difference{Name: name}
	for r, values := range all {
		at := slices.IndexFunc(d.Values, func(v Value) bool { return v.Value == values[i] })
		if at < 0 {
			at, d.Values = len(d.Values), append(d.Values, Value{Value: values[i]})
		}
		v := &d.Values[at]
		if p := t.Comm.Process(r); !slices.Contains(v.Processes, p) {
			v.Processes = append(v.Processes, p)
		}
	}
	return d
}

// disagreement describes a difference: the processes that differ from rank 0, and how the first of them does. All ranks
// call it.
func (t *Team) disagreement(f Fact, d Difference) (*exit.Error, error) {
	texts, err := AllGather(t.Comm, f.Value+"\n"+f.Detail)
	if err != nil {
		return nil, err
	}
	var others []int
	for _, v := range d.Values[1:] {
		others = append(others, v.Processes...)
	}
	slices.Sort(others)
	first := slices.IndexFunc(texts, func(s string) bool { return s != texts[0] })
	for r := range texts { // the first rank with another value: details may differ without
		if t.Comm.Process(r) == d.Values[1].Processes[0] {
			first = r
			break
		}
	}
	a, b := firstDifference(texts[0], texts[first])
	return &exit.Error{Code: f.Code, What: "the ranks do not agree: " + f.Name, At: fmt.Sprintf("ranks %v differ from rank 0", others),
		Why: fmt.Sprintf("rank 0 has %s, rank %d has %s; %s", a, t.Comm.Process(first), b, f.Why), Fix: f.Fix}, nil
}

// firstDifference returns the first lines that differ in two texts whose first line is a value and whose other lines, if
// any, are its details.
func firstDifference(a, b string) (string, string) {
	const most = 200
	x, y := strings.Split(strings.TrimSuffix(a, "\n"), "\n"), strings.Split(strings.TrimSuffix(b, "\n"), "\n")
	if len(x) > 1 && len(y) > 1 {
		x, y = x[1:], y[1:]
	}
	for i := range max(len(x), len(y)) {
		line := func(of []string) string {
			if i >= len(of) {
				return "nothing"
			}
			s := strings.TrimSpace(of[i])
			return fmt.Sprintf("%q", s[:min(len(s), most)])
		}
		if p, q := line(x), line(y); p != q {
			return p, q
		}
	}
	return fmt.Sprintf("%.*q", most, x[0]), fmt.Sprintf("%.*q", most, y[0])
}

// CheckSame returns an error on all ranks if a fact differs between them.
//
// Errors: as Compare.
func (t *Team) CheckSame(f Fact) error {
	_, err := t.Compare(f)
	return err
}

// together is the consequence of most differences.
const together = "all ranks compute one result together"

// Settings is a fact about the configuration or the command line, whose lines are detail.
func Settings(name, value, detail string) Fact {
	return Fact{Name: name, Value: value, Detail: detail, Code: exit.Usage, Why: together, Fix: "use the same program, configuration and command line on all nodes"}
}

// Diverged is a fact that ranks compute from the same input, and that can only differ after an error of a machine.
func Diverged(name, value string) Fact {
	return Fact{Name: name, Value: value, Code: exit.RankLost, Why: together, Fix: "resume from the last checkpoint, with --resume auto, on nodes of one kind"}
}

// CheckSameProgram returns an error on all ranks if some run another program than
// rank 0.
//
// Errors: exit 64 with those ranks.
func (t *Team) CheckSameProgram(version string) error {
	if t == nil {
		return nil
	}
	sum, err := programChecksum()
	if err != nil {
		return err
	}
	return t.CheckSame(Settings("the program", version+", SHA-256 "+sum, ""))
}
