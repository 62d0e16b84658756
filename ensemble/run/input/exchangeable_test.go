package input

import (
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// In an ensemble without control number 0 is a member as any other: all initialisations have it, or none has, and a missing
// one is no missing control.
func TestMemberZeroWithoutControl(t *testing.T) {
	axes := ensemble.Axes{Variables: []string{"t"}, Levels: []ensemble.Level{ensemble.PressureLevel(850)}, Leads: []ensemble.Lead{0}}
	grid, err := ensemble.NamedGrid("20deg")
	if err != nil {
		t.Fatal(err)
	}
	day := func(d int) ensemble.Init { return ensemble.InitAt(time.Date(2024, 1, d, 0, 0, 0, 0, time.UTC)) }
	field := func(d int, m ensemble.Member, kind string) ensemble.Entry {
		return ensemble.Entry{Key: ensemble.Key{Variable: "t", Level: axes.Levels[0], Init: day(d), Member: m}, Kind: &ensemble.Kind{MemberType: kind, Grid: grid, Unit: "K", NativeUnit: "K"}, File: "fc.grib2"}
	}
	check := func(b RequiredFields, entries ...ensemble.Entry) []Fault {
		b.Axes = axes
		return CheckInventory(&ensemble.Catalogue{Entries: entries}, "fc.grib2", entries, []RequiredFields{b}, Destination{})
	}
	const control, perturbed = "unperturbed low-resolution control", "positive perturbation"
	none := RequiredFields{Members: []ensemble.Member{0, 1, 2}, OfTraining: true, Exchangeable: true}
	include := RequiredFields{Members: none.Members, OfTraining: true}

	whole := []ensemble.Entry{field(1, 0, control), field(1, 1, perturbed), field(1, 2, perturbed)}
	f := check(none, whole...)
	if len(f) != 1 || f[0].Code != exit.OK || !strings.Contains(f[0].Warning(), "the control is used as one more member") || !strings.Contains(f[0].Why, "member 0 as "+control) {
		t.Errorf("types of members: %+v", f)
	}
	if f := check(include, whole...); len(f) > 0 {
		t.Errorf("with control: %+v", f)
	}
	for _, same := range []string{"", perturbed} {
		if f := check(none, field(1, 0, same), field(1, 1, same), field(1, 2, same)); len(f) > 0 {
			t.Errorf("members of type %q: %+v", same, f)
		}
	}

	mixed := []ensemble.Entry{field(1, 0, ""), field(1, 1, ""), field(1, 2, ""), field(2, 1, ""), field(2, 2, ""), field(3, 1, ""), field(3, 2, "")}
	f = check(none, mixed...)
	if len(f) != 1 || f[0].Code != exit.BadData || f[0].What != "member 0 is in some initialisations only" || f[0].At != "initialisations without it: "+day(2).String()+", "+day(3).String() ||
		!strings.Contains(f[0].Why, "1 of 3 initialisations have it") || !strings.Contains(f[0].Fix, "`control: exclude`") {
		t.Errorf("some initialisations with member 0: %+v", f)
	}
	if f := check(include, mixed...); len(f) != 2 || f[0].What != "control member absent" {
		t.Errorf("with control: %+v", f)
	}
	stated := none
	stated.Members = []ensemble.Member{1, 2}
	if f := check(stated, field(1, 1, ""), field(1, 2, ""), field(2, 1, ""), field(2, 2, "")); len(f) > 0 { // entries are those of the required members
		t.Errorf("numbers that all have: %+v", f)
	}
	if f := check(none, append(mixed, field(4, 0, ""), field(4, 1, ""))...); len(f) != 2 || f[1].Code != exit.NotYet || !strings.Contains(f[1].What, "member 2 is missing") {
		t.Errorf("another member is missing too: %+v", f)
	}
	var many []ensemble.Entry
	for d := 1; d <= 20; d++ {
		many = append(many, field(d, 1, ""), field(d, 2, ""))
	}
	if f := check(none, append(many, field(20, 0, ""))...); len(f) != 1 || f[0].Fields != 19 || !strings.Contains(f[0].At, "and 9 more") {
		t.Errorf("many initialisations: %+v", f)
	}

	// A prediction: member 0 may still come.
	now := none
	now.OfTraining = false
	f = check(now, field(1, 1, ""), field(1, 2, ""))
	if len(f) != 1 || f[0].Code != exit.NotYet || !strings.Contains(f[0].What, "member 0 is in none") || !strings.Contains(f[0].Fix, "members.control: exclude") {
		t.Errorf("prediction without member 0: %+v", f)
	}
	f = check(now, mixed...)
	if len(f) != 2 || f[0].Code != exit.NotYet || !strings.Contains(f[0].What, "member 0 is missing at lead 0h and all others") {
		t.Errorf("prediction of several initialisations: %+v", f)
	}
}
