package input

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Without a number the full ensemble is all members of the input; too few of them are refused.
func TestFullEnsembleIsAllMembers(t *testing.T) {
	have := []ensemble.Member{ensemble.NoMember, 0, 1, 2, 3}
	used, all, err := ChooseMembers(have, nil, 2, 0, "include")
	if err != nil || len(used) != 2 || len(all) != 4 {
		t.Errorf("%v of %v, %v", used, all, err)
	}
	if used, all, err = ChooseMembers(have, nil, 2, 0, "exclude"); err != nil || len(used) != 2 || len(all) != 3 {
		t.Errorf("without the control %v of %v, %v", used, all, err)
	}
	for _, count := range []int{1, 5} {
		if _, _, err := ChooseMembers(have[:count], nil, count, 0, "include"); exit.CodeOf(err) != exit.NotYet {
			t.Errorf("%d of %v: %v", count, have[:count], err)
		}
	}
}
