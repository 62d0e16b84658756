package score

import (
	"encoding/gob"
	"fmt"
	"io"
	"slices"
)

// saved is an accumulator as Save writes it. Words says what the sums are of, so that
// sums of another thing are never joined.
type saved struct {
	Version int
	Words   string
	Dates   []Date
}

const savedVersion = 1

// words describe all that two accumulators must have alike for their dates to be joined.
func (a *Accumulator) words() string {
	text := fmt.Sprintf("%s %s %s %s %d %s", a.target.Variable, a.target.Level, a.target.Lead, a.target.Unit, len(a.grid.Weights), a.grid.Name)
	text += fmt.Sprintf(" %v %g %d", a.areas(), a.o.Extremes, a.o.Climate)
	for i, s := range a.systems {
		text += fmt.Sprintf("\n%s %d %d", s.Name, s.MembersUsed, s.Gives)
		if s.Family != nil {
			text += " " + s.Family.ID
		}
		for _, p := range a.plan[i] {
			text += " " + p.ID
			if p.event >= 0 {
				text += fmt.Sprintf(">%g", a.o.Thresholds[p.event])
			}
		}
	}
	return text + fmt.Sprint(a.o.Thresholds)
}

// Save writes the sums of all dates, ascending, so that Load can join them elsewhere:
// files of sums, joined in any order, give the bits of one run over all dates.
func (a *Accumulator) Save(w io.Writer) error {
	return gob.NewEncoder(w).Encode(saved{savedVersion, a.words(), a.ordered()})
}

// Load joins the dates that Save wrote.
//
// Errors: sums of another target, other systems, scores or regions; dates that are
// there already. Then nothing is joined.
func (a *Accumulator) Load(r io.Reader) error {
	var s saved
	if err := gob.NewDecoder(r).Decode(&s); err != nil {
		return fmt.Errorf("score: sums cannot be read: %w", err)
	}
	if s.Version != savedVersion || s.Words != a.words() {
		return fmt.Errorf("score: sums of version %d of\n%s\nare not those of\n%s", s.Version, s.Words, a.words())
	}
	n := len(a.dates)
	members := slices.Clone(a.members)
	for _, d := range s.Dates {
		if err := a.Join(d); err != nil {
			a.dates, a.members = a.dates[:n], members
			return err
		}
	}
	return nil
}
