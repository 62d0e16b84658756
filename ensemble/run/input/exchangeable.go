package input

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// typesOfMemberFaults warns that the files distinguish a control from the perturbed members of an ensemble that is
// declared to have none. Only GRIB states types of members.
//
// Source: WMO-No. 306, code table 4.6: 0 and 1 are unperturbed controls.
func typesOfMemberFaults(entries []ensemble.Entry) []Fault {
	var control, perturbed ensemble.Entry
	for _, e := range entries {
		switch {
		case e.Kind == nil || e.MemberType == "":
		case strings.HasPrefix(e.MemberType, "unperturbed"):
			control = e
		default:
			perturbed = e
		}
	}
	if control.Kind == nil || perturbed.Kind == nil {
		return nil
	}
	return []Fault{Fault{Kind: FaultMixed, What: "the control is used as one more member",
		Why: fmt.Sprintf("data.members.control is none, and the files describe member %s as %s, member %s as %s", control.Member, control.MemberType, perturbed.Member, perturbed.MemberType)}.AtEntry(control)}
}

// someWithoutZeroFault reports whether some initialisations have member 0 beside others, and some only the others. Which
// numbers an ensemble without control has must then be stated.
func someWithoutZeroFault(entries []ensemble.Entry) (Fault, bool) {
	zero, others := map[ensemble.Init]bool{}, map[ensemble.Init]bool{}
	for _, e := range entries {
		if e.Member == ensemble.Control {
			zero[e.Init] = true
		} else {
			others[e.Init] = true
		}
	}
	var lack []string
	for _, i := range slices.SortedFunc(maps.Keys(others), func(a, b ensemble.Init) int { return a.Compare(b.Time) }) {
		if !zero[i] {
			lack = append(lack, i.String())
		}
	}
	with := len(others) - len(lack)
	if len(lack) == 0 || with == 0 {
		return Fault{}, false
	}
	return Fault{Kind: FaultMissing, Code: exit.BadData, What: "member 0 is in some initialisations only", At: "initialisations without it: " + humanise.List(lack),
		Why: fmt.Sprintf("data.members.control is none, so that member 0 is a member as any other; %d of %d initialisations have it", with, len(others)),
		Fix: "give the files of member 0, or write `control: exclude` under `data:` and `members:` to use the other numbers only", Fields: len(lack)}, true
}
