package config

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// The keys of a layout are those of a training and of a prediction alike.
func TestLayout(t *testing.T) {
	p, err := LoadPredict(Sources{Set: []string{"members.filename_pattern=ge[cp]([0-9]+)", "members.centres=[ecmf, kwbc]", "members.percentiles=members", "members.unnumbered=control", "members.pairs=members"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := LoadTrain(Sources{Files: []string{write(t, "train.yaml", good)},
		Set: []string{"data.members.filename_pattern=ge[cp]([0-9]+)", "data.members.centres=[ecmf, kwbc]", "data.members.percentiles=members", "data.members.unnumbered=control", "data.members.pairs=members"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []MemberLayout{p.Members.MemberLayout, c.Data.Members.MemberLayout} {
		if l.FilenamePattern != "ge[cp]([0-9]+)" || !slices.Equal(l.Centres, []string{"ecmf", "kwbc"}) || l.Percentiles != PercentilesAsMembers ||
			l.Unnumbered != UnnumberedAsControl || l.Pairs != PairsAsMembers {
			t.Errorf("%+v", l)
		}
	}
	if p, err = LoadPredict(Sources{}); err != nil || p.Members.FilenamePattern != "" || p.Members.Centres != nil || p.Members.Percentiles != "refuse" || p.Members.Unnumbered != "ignore" || p.Members.Pairs != "refuse" {
		t.Errorf("%v: %+v", err, p.Members.MemberLayout)
	}
	for _, bad := range []string{"filename_pattern=gep", "filename_pattern=ge(", "centres=[ECMF]", "percentiles=yes", "unnumbered=0", "pairs=yes"} {
		if _, err := LoadPredict(Sources{Set: []string{"members." + bad}}); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
