package casestudy

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Options select the event. Exactly one of Box, Track and EFIRadius is given.
type Options struct {
	Verify    verify.Options // Forecast, Analysis and Members are required; a climate for EFIRadius
	Dir       string         // folder of the study
	Box       string         // name of score.Boxes, or NAME=SOUTH:NORTH:WEST:EAST in degrees
	Track     string         // file for ReadTrack
	EFIRadius float64        // radius in km of the disc with the largest mean EFI
	Inits     []string       // as 1984-03-02 or 1984-03-02T00Z; empty: all, with a track those it covers
	Variables []string       // as ensemble.ParseVariableAt reads them; empty: all
	Maps      int            // initialisations of each target with maps, the first ones
	Version   string
}

// CaseStudy is the result, written as case.json.
type CaseStudy struct {
	Schema   string   `json:"schema"`
	Version  string   `json:"version"`
	Area     string   `json:"area"` // description
	Rows     []Row    `json:"rows"`
	Warnings []string `json:"warnings"`

	Dir    string         `json:"-"`
	panels []report.Panel // maps of all initialisations
}

// Row holds the mean CRPS of one target in the area, for one initialisation or all: of the network's
// distribution, and plain CRPS of the raw members, all and those that the network read. Means are weighted by
// area. CRPSS is relative to all raw members; its confidence interval is given for all initialisations
// together. CRPSSDomain is the CRPSS on the whole grid.
type Row struct {
	Variable    string       `json:"variable"`
	Level       string       `json:"level"`
	Lead        string       `json:"lead"`
	Unit        string       `json:"unit"`
	Init        string       `json:"init"`  // RFC 3339, or "all"
	Inits       int          `json:"inits"` // number of initialisations
	Lat         score.Number `json:"lat"`   // centre of the disc
	Lon         score.Number `json:"lon"`
	RadiusKM    score.Number `json:"radius_km"`
	EFI         score.Number `json:"efi"`           // mean EFI of all raw members in the area
	Points      int          `json:"points"`        // grid points in the area
	Members     int          `json:"members"`       // input members
	Network     score.Number `json:"crps_network"`  // CRPS in the variable's unit
	RawUsed     score.Number `json:"crps_raw_used"` // CRPS of the input members
	RawFull     score.Number `json:"crps_raw_full"` // CRPS of all members
	CRPSS       score.Number `json:"crpss"`
	CRPSSLow    score.Number `json:"crpss_low"`
	CRPSSHigh   score.Number `json:"crpss_high"`
	CRPSSDomain score.Number `json:"crpss_domain"`
	WorseShare  score.Number `json:"worse_share"` // fraction of the area where the network's CRPS exceeds that of all raw members
	FullMembers int          `json:"members_full"`
}

// Files of a study.
const (
	caseFile   = "case.json"
	caseTable  = "case.csv"
	caseSchema = "ensemble.case/1"
)

// DefaultMaps is the default of Options.Maps.
const DefaultMaps = 12

// TrackPoint is the position of a storm at a time, with the radius of its area.
type TrackPoint struct {
	Time               time.Time
	Lat, Lon, RadiusKM float64
}

// ReadTrack reads a table with the columns time (RFC 3339), lat, lon (degrees) and radius_km.
//
// Errors: exit 66 without the file; 65 for another format, or times that do not increase.
func ReadTrack(path string) ([]TrackPoint, error) {
	f, err := filesystem.Open(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	defer f.Close()
	bad := func(line int, why string) error {
		return &exit.Error{Code: exit.BadData, What: "not a track", At: fmt.Sprintf("%s, line %d", path, line), Why: why,
			Fix: "give a header time,lat,lon,radius_km and lines such as 2016-02-20T00:00:00Z,-17.2,178.4,500"}
	}
	r := csv.NewReader(f)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, bad(1, err.Error())
	}
	if len(rows) < 2 || !slices.Equal(rows[0], []string{"time", "lat", "lon", "radius_km"}) {
		return nil, bad(1, "the header or all data lines are missing")
	}
	var out []TrackPoint
	for i, row := range rows[1:] {
		var p TrackPoint
		if p.Time, err = time.Parse(time.RFC3339, row[0]); err != nil {
			return nil, bad(i+2, err.Error())
		}
		for k, to := range []*float64{&p.Lat, &p.Lon, &p.RadiusKM} {
			if *to, err = strconv.ParseFloat(row[k+1], 64); err != nil || math.IsNaN(*to) || math.IsInf(*to, 0) {
				return nil, bad(i+2, fmt.Sprintf("%q is not a number", row[k+1]))
			}
		}
		if math.Abs(p.Lat) > 90 || p.RadiusKM <= 0 || i > 0 && !p.Time.After(out[i-1].Time) {
			return nil, bad(i+2, "latitudes must be within ±90, radii positive, and times increasing")
		}
		out = append(out, p)
	}
	return out, nil
}

// trackAt interpolates a track linearly to a time, across the date line if that is shorter; false outside its
// period.
func trackAt(track []TrackPoint, t time.Time) (TrackPoint, bool) {
	for i, p := range track {
		if p.Time.Equal(t) {
			return p, true
		}
		if i == 0 || !(track[i-1].Time.Before(t) && t.Before(p.Time)) {
			continue
		}
		a := track[i-1]
		f := t.Sub(a.Time).Seconds() / p.Time.Sub(a.Time).Seconds()
		turn := math.Mod(p.Lon-a.Lon+540, 360) - 180
		return TrackPoint{t, a.Lat + f*(p.Lat-a.Lat), a.Lon + f*turn, a.RadiusKM + f*(p.RadiusKM-a.RadiusKM)}, true
	}
	return TrackPoint{}, false
}

// earthRadius is the mean radius of the Earth in km.
const earthRadius = 6371.0

// unitVector returns the unit vector of a position.
func unitVector(lat, lon float64) [3]float64 {
	s, c := math.Sincos(lat * math.Pi / 180)
	x, y := math.Sincos(lon * math.Pi / 180)
	return [3]float64{c * y, c * x, s}
}

// disc marks the points of a grid within a great-circle distance of a position.
func disc(directions [][3]float64, centre [3]float64, radiusKM float64) []bool {
	within := math.Cos(math.Min(radiusKM/earthRadius, math.Pi))
	in := make([]bool, len(directions))
	for p, d := range directions {
		in[p] = d[0]*centre[0]+d[1]*centre[1]+d[2]*centre[2] >= within
	}
	return in
}

// circle returns the outline of a disc, with continuous longitudes.
func circle(lat, lon, radiusKM float64) []report.Place {
	out := make([]report.Place, 73)
	a := radiusKM / earthRadius
	sin, cos := math.Sincos(lat * math.Pi / 180)
	for i := range out {
		bearing := float64(i) * 5 * math.Pi / 180
		y := math.Asin(sin*math.Cos(a) + cos*math.Sin(a)*math.Cos(bearing))
		x := math.Atan2(math.Sin(bearing)*math.Sin(a)*cos, math.Cos(a)-sin*math.Sin(y))
		out[i] = report.Place{Lon: lon + x*180/math.Pi, Lat: y * 180 / math.Pi}
	}
	return out
}

// study is a case study in progress.
type study struct {
	*verify.Verification
	o          Options
	box        score.Box
	track      []TrackPoint
	directions [][3]float64 // unit vectors of the points
	weights    []float64
	out        *CaseStudy
}

// event is the area at one initialisation.
type event struct {
	init    ensemble.Init
	in      []bool // [point]
	outline []report.Place
	centre  TrackPoint // centre of a disc; radius 0 for boxes
}

// Run scores the network, its input members and all raw members in the area of an event, in numbers and maps.
//
// Reads: what verify.Run reads.
// Writes: case.json, case.csv, index.html and maps in Options.Dir.
// Errors: exit 64 for an area that is missing, or that contains no point or initialisation; those of
// verify.Run; 73 and 74 for the output.
func Run(ctx context.Context, o Options) (*CaseStudy, error) {
	s := &study{Verification: &verify.Verification{Options: o.Verify}, o: o, out: &CaseStudy{Schema: caseSchema, Version: o.Version, Dir: o.Dir}}
	if err := s.checkArea(); err != nil {
		return nil, err
	}
	var wanted []ensemble.VariableAt
	for _, text := range o.Variables {
		v, err := ensemble.ParseVariableAt(text)
		if err != nil {
			return nil, areaError(fmt.Sprintf("invalid variable %q", text), "--variable", err.Error(), "write it as "+ensemble.NameForms)
		}
		wanted = append(wanted, v)
	}
	defer s.Close()
	if err := s.Open(ctx); err != nil {
		return nil, err
	}
	s.weights = s.Grid.Weights()
	for j := range s.Grid.NY {
		for i := range s.Grid.NX {
			s.directions = append(s.directions, unitVector(s.Grid.LatAt(j, i), s.Grid.LonAt(j, i)))
		}
	}
	for _, t := range s.Targets {
		if len(wanted) > 0 && !slices.ContainsFunc(wanted, func(v ensemble.VariableAt) bool { return v.Matches(t.Key.Variable, t.Key.Level) }) {
			continue
		}
		events, err := s.events(ctx, t)
		if err != nil {
			return nil, err
		}
		if err := s.scoreTarget(ctx, t, events); err != nil {
			return nil, err
		}
	}
	if len(s.out.Rows) == 0 {
		return nil, areaError("no product has these variables", strings.Join(o.Variables, ", "), "", "give variables of the products, or remove --variable")
	}
	s.out.Warnings = append(s.out.Warnings, s.Warnings...)
	return s.out, s.out.save()
}

// areaError returns an error with exit code 64.
func areaError(what, at, why, fix string) error {
	return &exit.Error{Code: exit.Usage, What: what, At: at, Why: why, Fix: fix}
}

// checkArea checks the area before files are opened.
func (s *study) checkArea() (err error) {
	given := 0
	for _, is := range []bool{s.o.Box != "", s.o.Track != "", s.o.EFIRadius > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return areaError("a case study needs exactly one area", "--box, --track, --largest-efi", fmt.Sprintf("%d of them are given", given), "give one of them")
	}
	if len(s.o.Verify.Members) == 0 {
		return areaError("a case study needs the raw members", "--members", "skill scores are relative to them", "give --members")
	}
	switch {
	case s.o.Box != "":
		if s.box, err = score.ParseBox(s.o.Box); err != nil {
			return areaError("invalid box", "--box "+s.o.Box, strings.TrimPrefix(err.Error(), "score: "), "give a region's name, or NAME=SOUTH:NORTH:WEST:EAST in degrees")
		}
		s.out.Area = fmt.Sprintf("box %s, %g to %g° north, %g to %g° east", s.box.Name, s.box.South, s.box.North, s.box.West, s.box.East)
	case s.o.Track != "":
		s.out.Area = "along the track " + filepath.Base(s.o.Track)
		s.track, err = ReadTrack(s.o.Track)
	default:
		s.out.Area = fmt.Sprintf("disc of %g km with the largest absolute mean extreme forecast index, over all initialisations and positions", s.o.EFIRadius)
	}
	return err
}

// events lists the initialisations, each with its area.
func (s *study) events(ctx context.Context, t *verify.VerifiedTarget) (all []event, err error) {
	inits, err := s.starts(t)
	if err != nil {
		return nil, err
	}
	if s.o.EFIRadius > 0 {
		e, err := s.largestEFI(ctx, t, inits)
		return []event{e}, err
	}
	for _, init := range inits {
		e := event{init: init}
		if s.o.Box != "" {
			r, err := s.box.Region(s.Grid)
			if err != nil {
				return nil, areaError("the box contains no grid point", "--box "+s.o.Box, strings.TrimPrefix(err.Error(), "score: "), "give a box on the grid of the products")
			}
			b := s.box
			e.in, e.outline = r.Mask, boxOutline(b.South, b.North, b.West, b.East)
		} else {
			p, ok := trackAt(s.track, init.Valid(t.Key.Lead).Time)
			if !ok {
				continue
			}
			e.centre, e.in, e.outline = p, disc(s.directions, unitVector(p.Lat, p.Lon), p.RadiusKM), circle(p.Lat, p.Lon, p.RadiusKM)
			if !slices.Contains(e.in, true) {
				return nil, areaError("no grid point lies within the track's radius", "--track "+s.o.Track, fmt.Sprintf("%g km about %g, %g", p.RadiusKM, p.Lat, p.Lon), "give larger radii")
			}
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, areaError("no product is valid within the times of the track", "--track "+s.o.Track, fmt.Sprintf("%s at %s, lead %s", t.Key.Variable, t.Key.Level, t.Key.Lead), "give products that are valid within the times of the track")
	}
	return all, nil
}

// boxOutline returns the outline of a box.
func boxOutline(south, north, west, east float64) (out []report.Place) {
	const steps = 36
	for i := range steps + 1 {
		out = append(out, report.Place{Lon: west + (east-west)*float64(i)/steps, Lat: south})
	}
	for i := range steps + 1 {
		out = append(out, report.Place{Lon: east - (east-west)*float64(i)/steps, Lat: north})
	}
	return append(out, out[0])
}

// starts lists the requested initialisations.
func (s *study) starts(t *verify.VerifiedTarget) ([]ensemble.Init, error) {
	if len(s.o.Inits) == 0 {
		return t.Inits, nil
	}
	var out []ensemble.Init
	for _, text := range s.o.Inits {
		at := slices.IndexFunc(t.Inits, func(i ensemble.Init) bool {
			return i.UTC().Format("2006-01-02T15Z") == text || i.UTC().Format("2006-01-02") == text || i.UTC().Format(time.RFC3339) == text
		})
		if at < 0 {
			return nil, areaError("this initialisation is not published", "--init "+text, fmt.Sprintf("%s at %s, lead %s, has %s to %s", t.Key.Variable, t.Key.Level, t.Key.Lead, t.Inits[0], t.Inits[len(t.Inits)-1]),
				"give initialisations of the products, as 2016-02-19 or 2016-02-19T00Z")
		}
		out = append(out, t.Inits[at])
	}
	return out, nil
}

// efi returns the EFI of all raw members; nil without a climate.
//
// Shape: [point].
func (s *study) efi(t *verify.VerifiedTarget, c *scoring.Case) []float32 {
	q := s.Climate.Find(t.Key.Target())
	if q == nil {
		return nil
	}
	out := make([]float32, s.Grid.Size())
	score.EFIMap(out, q.At(c.Init.Valid(t.Key.Lead).Time), c.Members, score.EFI)
	return out
}

// largestEFI finds the initialisation and the disc with the largest absolute mean EFI; of equal ones the
// first. Centres are at most CouplingPoints points of the grid.
func (s *study) largestEFI(ctx context.Context, t *verify.VerifiedTarget, inits []ensemble.Init) (best event, err error) {
	if s.Climate.Find(t.Key.Target()) == nil {
		return best, areaError("no extreme forecast index", fmt.Sprintf("%s at %s", t.Key.Variable, t.Key.Level), "it needs climate quantiles", "train with climate.source and give --run-dir, or give --climate")
	}
	largest := -1.0
	for _, init := range inits {
		cases, err := s.Cases(ctx, t, []ensemble.Init{init})
		if err != nil {
			return best, err
		}
		index := s.efi(t, &cases[0])
		for _, p := range scoring.SparsePoints(s.Grid, scoring.CouplingPoints) {
			in := disc(s.directions, s.directions[p], s.o.EFIRadius)
			mean, n := s.mean(index, in)
			if n > 0 && math.Abs(mean) > largest {
				largest = math.Abs(mean)
				best = event{init: init, in: in, centre: TrackPoint{Lat: s.Grid.LatAt(p/s.Grid.NX, p%s.Grid.NX), Lon: s.Grid.LonAt(p/s.Grid.NX, p%s.Grid.NX), RadiusKM: s.o.EFIRadius}}
			}
		}
	}
	best.outline = circle(best.centre.Lat, best.centre.Lon, s.o.EFIRadius)
	return best, nil
}

// mean returns the weighted mean of a field over an area, and the number of its points.
func (s *study) mean(field []float32, in []bool) (mean float64, n int) {
	var weight float64
	for p, v := range field {
		if (in == nil || in[p]) && v == v {
			mean, weight, n = mean+s.weights[p]*float64(v), weight+s.weights[p], n+1
		}
	}
	return mean / weight, n
}

// caseScores is the CRPS of one initialisation.
//
// Shape: [point].
// Missing: NaN where any input is missing.
type caseScores struct{ network, used, full []float32 }

// scores computes the CRPS of network, input members and all members at every point.
func (s *study) scores(t *verify.VerifiedTarget, c *scoring.Case) caseScores {
	n := s.Grid.Size()
	out := caseScores{make([]float32, n), make([]float32, n), make([]float32, n)}
	few, all, par := make([]float64, len(c.Used)), make([]float64, len(c.Members)), make([]float64, len(c.Parameters))
	for p := range n {
		y := float64(c.Obs[p])
		for i, m := range c.Used {
			few[i] = float64(c.Members[m][p])
		}
		for i, f := range c.Members {
			all[i] = float64(f[p])
		}
		network, _, _ := dist.NormalCRPS(float64(c.Mean[p]), float64(c.Sigma[p]), y)
		if t.Family != nil {
			network = t.Family.CRPS(nil, model.ParameterFields(c.Parameters).At(par, p), y)
		}
		used, full := dist.KernelCRPS(few, y, dist.Plain), dist.KernelCRPS(all, y, dist.Plain)
		if missing := network + used + full; missing != missing {
			network, used, full = missing, missing, missing
		}
		out.network[p], out.used[p], out.full[p] = float32(network), float32(used), float32(full)
	}
	return out
}

// scoreTarget adds the rows and maps of a target.
func (s *study) scoreTarget(ctx context.Context, t *verify.VerifiedTarget, events []event) error {
	v, _ := ensemble.VariableNamed(t.Key.Variable)
	var sums [][]float64 // per initialisation: weight, weighted CRPS of network, input members and all members, in the area and on the whole grid
	var rows []Row
	for i, e := range events {
		cases, err := s.Cases(ctx, t, []ensemble.Init{e.init})
		if err != nil {
			return err
		}
		c := &cases[0]
		if c.Mean == nil {
			return areaError("no distribution among the products", fmt.Sprintf("%s at %s", t.Key.Variable, t.Key.Level), "a case study scores means and spreads", "give products of a model with head distribution")
		}
		f, index := s.scores(t, c), s.efi(t, c)
		sums = append(sums, append(s.sumsOf(f, e.in), s.sumsOf(f, nil)...))
		row := s.row(t, v.Unit, sums[i:], len(c.Used), len(c.Members))
		row.Init, row.EFI = e.init.Format(time.RFC3339), score.Missing()
		if e.centre.RadiusKM > 0 {
			row.Lat, row.Lon, row.RadiusKM = score.Number(e.centre.Lat), score.Number(e.centre.Lon), score.Number(e.centre.RadiusKM)
		}
		if index != nil {
			mean, _ := s.mean(index, e.in)
			row.EFI = score.Number(mean)
		}
		for p := range f.full {
			if e.in[p] && f.full[p] == f.full[p] {
				row.Points++
			}
		}
		rows = append(rows, row)
		if i < s.o.Maps {
			s.drawMaps(t, v, e, c, f, index, row)
		}
	}
	if s.o.Maps > 0 && len(events) > s.o.Maps {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s at %s: maps of the first %d of %d initialisations", t.Key.Variable, t.Key.Level, s.o.Maps, len(events)))
	}
	if len(rows) > 1 {
		all := s.row(t, v.Unit, sums, rows[0].Members, rows[0].FullMembers)
		all.Init, all.EFI = "all", score.Missing()
		for _, r := range rows {
			all.Points += r.Points
		}
		_, low, high, err := s.o.Verify.Bootstrap.Interval(sums, crpssOf)
		if err != nil {
			return err
		}
		all.CRPSSLow, all.CRPSSHigh = score.Number(low), score.Number(high)
		rows = append(rows, all)
	}
	s.out.Rows = append(s.out.Rows, rows...)
	return nil
}

// sumsOf returns the sums over an area that scores are computed from: Σ w, Σ w CRPS of network, input members
// and all members, and Σ w of points where the network's CRPS exceeds that of all members. Points without
// CRPS are skipped.
func (s *study) sumsOf(f caseScores, in []bool) []float64 {
	out := make([]float64, 5)
	for p, w := range s.weights {
		if in != nil && !in[p] || f.full[p] != f.full[p] {
			continue
		}
		out[0] += w
		for k, x := range [][]float32{f.network, f.used, f.full} {
			out[k+1] += w * float64(x[p])
		}
		if f.network[p] > f.full[p] {
			out[4] += w
		}
	}
	return out
}

// crpssOf returns the CRPSS of the network against all raw members, 1 − Σ w CRPS(network) / Σ w
// CRPS(members), summed over initialisations and points of the area with weights w.
func crpssOf(sums []float64) float64 { return 1 - sums[1]/sums[3] }

// row returns the row of one or several initialisations.
func (s *study) row(t *verify.VerifiedTarget, unit string, sums [][]float64, used, full int) Row {
	total := make([]float64, len(sums[0]))
	for _, r := range sums {
		for k, v := range r {
			total[k] += v
		}
	}
	mean := func(k int) score.Number { return score.Number(total[k] / total[0]) }
	nan := score.Missing()
	return Row{Variable: t.Key.Variable, Level: t.Key.Level.String(), Lead: t.Key.Lead.String(), Unit: unit, Inits: len(sums), Members: used, FullMembers: full,
		Network: mean(1), RawUsed: mean(2), RawFull: mean(3), CRPSS: score.Number(crpssOf(total)), CRPSSLow: nan, CRPSSHigh: nan,
		CRPSSDomain: score.Number(crpssOf(total[5:])), WorseShare: mean(4), Lat: nan, Lon: nan, RadiusKM: nan}
}

// drawMaps adds the maps of an initialisation: CRPS of the three systems on one scale, the change of CRPS by the
// network, the EFI, and errors of the means.
func (s *study) drawMaps(t *verify.VerifiedTarget, v ensemble.Variable, e event, c *scoring.Case, f caseScores, index []float32, row Row) {
	quantity, begin := report.QuantityName(t.Key.Variable, t.Key.Level.String()), e.init.UTC().Format("2006-01-02 15Z")
	name := fmt.Sprintf("%s, %s +%s", quantity, begin, t.Key.Lead)
	near, places := mapExtent(s.Grid, e.outline)
	field := func(title string, values []float32) report.Map {
		return report.Map{Title: title, Grid: near, Values: ensemble.Take(values, places), Outline: e.outline}
	}
	panel := func(what, unit string, diverging bool, maps ...report.Map) {
		s.out.panels = append(s.out.panels, report.Panel{Title: name + ": " + what, Unit: unit, Valid: e.init.Valid(t.Key.Lead), Diverging: diverging, Maps: maps, Variable: quantity + " +" + t.Key.Lead.String(), Lead: begin})
	}
	full, used := fmt.Sprintf("all %d raw members", row.FullMembers), fmt.Sprintf("%d raw members", row.Members)
	panel("CRPS", v.Unit, false, field(full, f.full), field(used, f.used), field(fmt.Sprintf("network from %d members", row.Members), f.network))
	change := reports.Difference(f.network, f.full)
	words := func(where string, crpss score.Number) string {
		return fmt.Sprintf("network minus %s: CRPSS %s %+.1f %% (negative: the network is better)", full, where, 100*float64(crpss))
	}
	panel("change of CRPS", v.Unit, true, field(words("in the area", row.CRPSS), change))
	if near != s.Grid {
		panel("change of CRPS", v.Unit, true, report.Map{Title: words("everywhere", row.CRPSSDomain), Grid: s.Grid, Values: change, Outline: e.outline})
	}
	if index != nil {
		panel("extreme forecast index", "1", true, field(full+"; 1: all members above the climate, −1: below", index))
	}
	mean, _ := scoring.MeanStd(c.Members, 1)
	panel("errors of the mean", v.Unit, true, field("mean of "+full+" minus analysis", reports.Difference(mean, c.Obs)), field("network’s mean minus analysis", reports.Difference(c.Mean, c.Obs)))
}

// mapExtent returns the part of a grid around an outline, extended by half its size on each side, and the
// indices of its points; the whole grid if that is not rectangular or hardly larger.
func mapExtent(g *ensemble.Grid, outline []report.Place) (*ensemble.Grid, []int) {
	whole := make([]int, g.Size())
	for p := range whole {
		whole[p] = p
	}
	if g.Kind != ensemble.RegularLatLon && g.Kind != ensemble.RegularGaussian {
		return g, whole
	}
	low, high := outline[0], outline[0]
	for _, p := range outline {
		low = report.Place{Lon: min(low.Lon, p.Lon), Lat: min(low.Lat, p.Lat)}
		high = report.Place{Lon: max(high.Lon, p.Lon), Lat: max(high.Lat, p.Lat)}
	}
	x, y := (high.Lon-low.Lon)/2, (high.Lat-low.Lat)/2
	if high.Lon-low.Lon+2*x > 300 {
		return g, whole
	}
	part, places, err := g.Crop(ensemble.Area{North: min(90, high.Lat+y), West: low.Lon - x, South: max(-90, low.Lat-y), East: high.Lon + x})
	if err != nil || part == g || part.NX < 4 || part.NY < 4 {
		return g, whole
	}
	return part, places
}

// save writes the table, the page with its maps and, last, case.json.
func (c *CaseStudy) save() error {
	page := &report.Page{Title: "Case " + filepath.Base(c.Dir), Panels: c.panels, Tables: []report.Table{report.TableOf("CRPS in the area", c.table())}, Warnings: c.Warnings,
		Status: []report.Fact{{Name: "area", Text: c.Area}, {Name: "program", Text: c.Version}}}
	for i, r := range c.Rows {
		if next := i + 1; next == len(c.Rows) || c.Rows[next].target() != r.target() { // all initialisations of a target
			page.Status = append(page.Status, report.Fact{Name: r.target(), Text: fmt.Sprintf("CRPSS against all %d raw members %.1f %%", r.FullMembers, 100*r.CRPSS)})
		}
	}
	return reports.SaveFindings(c.Dir, caseTable, c.Rows, page, caseFile, c)
}

// Outputs lists the files of the study, without images.
func (c *CaseStudy) Outputs() []string {
	return []string{filepath.Join(c.Dir, caseTable), filepath.Join(c.Dir, "report", "index.html"), filepath.Join(c.Dir, caseFile)}
}

// Sections returns area, rows and files as text.
func (c *CaseStudy) Sections() answer.Sections {
	s := c.table()
	s.Text = []string{c.Area}
	return answer.Sections{s, {Text: c.Outputs()}}
}

// table returns the rows as a table.
func (c *CaseStudy) table() answer.Section {
	percent := func(name string) answer.Column { return answer.NumberColumn(name, "", "%.1f %%") }
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("target", "init", "centre"), answer.NumberColumns("%.2f", "EFI"), answer.NumberColumns("%.4g", "network", "raw, used", "raw, all"), answer.TextColumns("unit"),
		[]answer.Column{percent("CRPSS"), {Name: "interval"}, percent("CRPSS, whole grid"), answer.NumberColumn("worse in", "", "%.0f %%")})}
	for _, r := range c.Rows {
		var about, between any
		if r.RadiusKM == r.RadiusKM {
			about = fmt.Sprintf("%.1f° N %.1f° E", float64(r.Lat), float64(r.Lon))
		}
		if r.CRPSSLow == r.CRPSSLow {
			between = fmt.Sprintf("%.1f to %.1f", 100*r.CRPSSLow, 100*r.CRPSSHigh)
		}
		s.Rows = append(s.Rows, []any{r.target(), r.Init, about, r.EFI, r.Network, r.RawUsed, r.RawFull, r.Unit, 100 * r.CRPSS, between, 100 * r.CRPSSDomain, 100 * r.WorseShare})
	}
	return s
}

// target names the target of a row.
func (r *Row) target() string { return r.Variable + " " + r.Level + " +" + r.Lead }
