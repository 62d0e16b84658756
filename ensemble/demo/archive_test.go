package demo

import (
	"bytes"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/grib"
)

// A message is read as it was written: header, bitmap, and values within half a step.
func TestMessage1(t *testing.T) {
	grid := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 5, NY: 3, Lat: []float64{90, 0, -90}, Lon: []float64{0, 72, 144, 216, 288}}
	r := rand.New(rand.NewPCG(1, 2))
	init := time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC)
	of := func(reference int) marsKeys {
		return marsKeys{classOperational, typePerturbed, streamHindcast, 145, 7, 11, time.Date(reference, 2, 28, 0, 0, 0, 0, time.UTC)}
	}
	var kinds []grib.ID
	for _, c := range []struct {
		variable  string
		level     ensemble.Level
		reference int
		value     func() float64
	}{
		{"z", ensemble.PressureLevel(500), 2018, func() float64 { return 55_000 + 2000*r.NormFloat64() }},
		{"z", ensemble.PressureLevel(500), 2019, func() float64 { return -3 * r.Float64() }},
		{"d", ensemble.PressureLevel(10), 2018, func() float64 { return 1e-5 * r.NormFloat64() }},
		{"tp", ensemble.Level{}, 2018, func() float64 { return 0 }},
		{"2t", ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, 2018, func() float64 { return 271.25 }},
	} {
		values := make([]float32, grid.Size())
		for i := range values {
			values[i] = float32(c.value())
		}
		v, _ := ensemble.VariableNamed(c.variable)
		m := encodeGRIB1(nil, grid, v, c.level, init, 48, of(c.reference), values)
		constant := slices.Max(values) == slices.Min(values)
		if !constant && int64(len(m)) != MessageBytes(grid.Size(), true) {
			t.Errorf("%s: %d bytes, said to be %d", c.variable, len(m), MessageBytes(grid.Size(), true))
		}
		idx, err := grib.ReadIndex(t.Context(), bytes.NewReader(m), int64(len(m)), &grib.GridCache{})
		if err != nil || len(idx.Faults) > 0 || len(idx.Fields) != 1 {
			t.Fatalf("%s: %v, %+v", c.variable, err, idx)
		}
		f := idx.Fields[0]
		if !f.Time.Init.Equal(init) || f.Time.Lead != 48*time.Hour || f.Member != (grib.Member{Known: true, InEnsemble: true, ID: 7, EnsembleSize: 11}) {
			t.Errorf("%s: time %+v, member %+v", c.variable, f.Time, f.Member)
		}
		kinds = append(kinds, f.Kind)
		p, ok, err := grib.ParseSimplePacking(m, grid.Size())
		if err != nil || ok == constant {
			t.Fatalf("%s: simple packing %v, %v", c.variable, ok, err)
		}
		if constant {
			continue
		}
		reach := float64(slices.Max(values) - slices.Min(values))
		for i, x := range values {
			got := p.Value(uint64(p.Data[2*i])<<8 | uint64(p.Data[2*i+1]))
			if math.Abs(got-float64(x)) > reach/math.MaxUint16*1.01 { // steps are at most twice the least
				t.Errorf("%s: value %d is %g, want %g", c.variable, i, got, x)
			}
		}
	}
	if kinds[0] != kinds[1] || kinds[0] == kinds[2] {
		t.Error("the year of the reference forecast makes another kind of field, or the variable none")
	}
	sst := make([]float32, grid.Size())
	sst[3], sst[4] = float32(math.NaN()), 300
	v, _ := ensemble.VariableNamed("sst")
	m := encodeGRIB1(nil, grid, v, ensemble.Level{}, init, 0, marsKeys{classERA5, typeAnalysis, streamAnalysis, 143, int(ensemble.NoMember), 0, init}, sst)
	idx, err := grib.ReadIndex(t.Context(), bytes.NewReader(m), int64(len(m)), &grib.GridCache{})
	if err != nil || len(idx.Faults) > 0 || idx.Fields[0].Member.InEnsemble || idx.Fields[0].Sections[3].Length == 0 {
		t.Errorf("an analysis with a missing value: %v, %+v", err, idx)
	}
}

// Weather is left out between starts that lie far apart, and nowhere else.
func TestCyclesOfDates(t *testing.T) {
	day := 24 * time.Hour
	first := time.Date(1998, 1, 1, 0, 0, 0, 0, time.UTC)
	cycles := func(c Config) []int {
		c.Members, c.Leads = 1, []ensemble.Lead{0, ensemble.Lead(2 * day)}
		c, err := c.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		return (&world{cfg: c}).cycles()
	}
	every := cycles(Config{FirstInit: first, Interval: 7 * day, Inits: 3})
	if len(every) != 4*(assimilationSpinUpDays+14+2)+1 || every[0] != -4*assimilationSpinUpDays {
		t.Errorf("%d cycles from %d", len(every), every[0])
	}
	dates := []time.Time{first, first.Add(7 * day), first.Add(14 * day)}
	if got := cycles(Config{InitTimes: dates}); !slices.Equal(got, every) {
		t.Errorf("the same starts as dates have %d cycles, want %d", len(got), len(every))
	}
	far := cycles(Config{InitTimes: append(dates, first.Add(365*day))})
	if n := len(every) + 4*(gapSpinUpDays+2) + 1; len(far) != n || far[len(every)] != 4*(365-gapSpinUpDays) {
		t.Errorf("%d cycles with a start a year later, want %d", len(far), n)
	}
	if _, err := (Config{InitTimes: []time.Time{first, first}}).WithDefaults(); err == nil {
		t.Error("a start comes twice")
	}
}

// All that protocols ask for has values that the quantity can have, in both seasons, and
// is another one in every state.
func TestWeatherIsPlausible(t *testing.T) {
	grid := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 12, NY: 7, Lat: []float64{90, 60, 30, 0, -30, -60, -90}, Lon: make([]float64, 12)}
	for i := range grid.Lon {
		grid.Lon[i] = 30 * float64(i)
	}
	pl := newPlanet()
	w := newDiagnostics(pl, grid)
	tr := newNatureRun(newModel(natural, pl), 5, 0)
	var psi state
	tr.g.streamfunction(&psi, &tr.q)
	single := []string{"sst", "tcw", "tcwv", "cp", "msl", "tcc", "10u", "10v", "2t", "tp", "skt"}
	last := map[string][]float32{}
	for _, day := range []float64{20, 200} {
		w.set(&psi, day, 2)
		tp, cp := make([]float64, npoint), make([]float64, npoint)
		w.addPrecipitation(tp, cp, 2)
		w.tp, w.cp = tp, cp
		check := func(name string, l ensemble.Level) {
			v, _ := ensemble.VariableNamed(name)
			x := make([]float32, grid.Size())
			if err := w.field(x, name, l); err != nil {
				t.Fatal(err)
			}
			scale := 1.0
			if v.Unit == "kg m-2" && v.Period != "" {
				scale = 1000 // archives have metres
			}
			r, ok := v.Plausible(l)
			missing := 0
			for _, y := range x {
				if y != y {
					missing++
				} else if !r.Contains(scale * float64(y)) {
					t.Errorf("%s at %s on day %g: %g", name, l, day, y)
				}
			}
			if !ok || missing > 0 != v.IsMasked() || missing == len(x) {
				t.Errorf("%s at %s: range known %v, %d of %d values missing", name, l, ok, missing, len(x))
			}
			last[name+l.String()] = x
		}
		for _, hPa := range []float64{1000, 925, 850, 700, 500, 400, 300, 200, 100, 50, 10} {
			for _, name := range []string{"z", "t", "q", "w", "d", "u", "v"} {
				check(name, ensemble.PressureLevel(hPa))
			}
		}
		for _, name := range single {
			check(name, ensemble.SingleLevel.ForVariable(name))
		}
	}
	for a, x := range last {
		for b, y := range last {
			if a < b && slices.Equal(x, y) {
				t.Errorf("%s and %s are one field", a, b)
			}
		}
	}
	if err := w.field(make([]float32, grid.Size()), "vo", ensemble.PressureLevel(500)); err == nil {
		t.Error("there is weather for a variable that is not made")
	}
}

// TestArchiveProgress: both stages are counted from 0 to their end, the second in fields that are written.
func TestArchiveProgress(t *testing.T) {
	dir := t.TempDir()
	init := ensemble.InitAt(time.Date(2001, 1, 3, 0, 0, 0, 0, time.UTC))
	lead := ensemble.Lead(24 * time.Hour)
	level := []ensemble.Level{ensemble.PressureLevel(500), ensemble.PressureLevel(850)}
	a := Archive{Leads: []ensemble.Lead{lead}, Members: 2, FirstMember: 1, Grid: Grid(), Threads: 1,
		Days:   []ArchiveDay{{Reference: init.Time, Inits: []ensemble.Init{init}, Files: []ArchiveFile{{filepath.Join(dir, "fc.grib"), []string{"t"}, level}}}},
		Months: []ArchiveMonth{{ValidTimes: []ensemble.Valid{init.Valid(lead)}, Files: []ArchiveFile{{filepath.Join(dir, "an.grib"), []string{"t", "u"}, level}}}}}
	seen, steps := map[string][2]int{}, map[string]int{}
	a.Progress = func(stage string, done, all int) {
		if last, ok := seen[stage]; ok != (done > 0) || done < last[0] || ok && all != last[1] {
			t.Errorf("%s: %d of %d after %v", stage, done, all, last)
		}
		seen[stage] = [2]int{done, all}
		steps[stage]++
	}
	if err := a.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := seen["write"]; w != [2]int{8, 8} || steps["write"] != 4 {
		t.Errorf("write: %v in %d steps, want 8 of 8 fields in 4", w, steps["write"])
	}
	if s := seen["integrate"]; s[0] != s[1] || steps["integrate"] != s[1]+1 {
		t.Errorf("integrate: %v in %d steps", s, steps["integrate"])
	}
}
