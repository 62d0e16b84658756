package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// Format is the version of the files that Write makes.
const Format = 1

// schema names the kind of document that store.json is.
const schema = "ensemble.store"

// Variable is a quantity and the unit of its values.
type Variable struct {
	Name string `json:"name"`
	Unit string `json:"unit"` // SI
}

// Analyses are the analyses of a start: of these variables on all levels of the
// store, valid at the start's time plus each lead.
type Analyses struct {
	Variables []string `json:"variables"`
	Leads     []int64  `json:"leads_s"` // seconds
}

// Meta is what store.json says of a store.
type Meta struct {
	Schema   string  `json:"schema"`
	Format   int     `json:"format"`
	Version  string  `json:"version"`  // of the program that made it
	Identity string  `json:"identity"` // hash of all below but what was written
	Storage  Storage `json:"storage"`

	Variables []Variable        `json:"variables"`
	Levels    []ensemble.Level  `json:"levels"`
	Leads     []int64           `json:"leads_s"` // seconds
	Members   []ensemble.Member `json:"members"`
	Analyses  Analyses          `json:"analyses"`
	InitTimes []time.Time       `json:"inits"` // ascending
	Grid      *ensemble.Grid    `json:"grid"`
	// Interpolation is how fields came to Grid, where some were on another one.
	Interpolation string `json:"interpolation,omitempty"`
	// Origins are the forecast models of the forecasts; none in stores of older programs.
	Origins []ensemble.Origin `json:"origins,omitempty"`

	BandRows   int `json:"band_rows"`   // rows of the grid in a band; the last may have fewer
	ShardInits int `json:"shard_inits"` // starts in a shard; the last may have fewer

	Shards     []manifest.File `json:"shards"`
	Index      manifest.File   `json:"index"`
	Statistics []Statistic     `json:"statistics"`
	Inputs     []manifest.File `json:"inputs"`
	Warnings   []string        `json:"warnings"`
}

// Axes are those of the forecasts.
func (m *Meta) Axes() ensemble.Axes {
	a := ensemble.Axes{Levels: m.Levels, Leads: leads(m.Leads)}
	for _, v := range m.Variables {
		a.Variables = append(a.Variables, v.Name)
	}
	return a
}

// Inits are the starts in the terms of package ensemble, ascending.
func (m *Meta) Inits() []ensemble.Init {
	out := make([]ensemble.Init, len(m.InitTimes))
	for i, t := range m.InitTimes {
		out[i] = ensemble.InitAt(t)
	}
	return out
}

// AnalysisLeads are the leads at whose valid times there are analyses.
func (m *Meta) AnalysisLeads() []ensemble.Lead { return leads(m.Analyses.Leads) }

// Bytes is the size of all shards.
func (m *Meta) Bytes() int64 {
	var n int64
	for _, s := range m.Shards {
		n += s.Size
	}
	return n
}

func leads(seconds []int64) []ensemble.Lead {
	out := make([]ensemble.Lead, len(seconds))
	for i, s := range seconds {
		out[i] = ensemble.Lead(time.Duration(s) * time.Second)
	}
	return out
}

// identity is the hash of what decides the bytes of the shards.
func (m *Meta) identity() (string, error) {
	plan := *m
	plan.Version, plan.Identity, plan.Shards, plan.Index, plan.Statistics, plan.Warnings = "", "", nil, manifest.File{}, nil, nil
	plan.Inputs, plan.Origins = nil, nil
	text, err := json.Marshal(plan)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", text)
	for _, sum := range manifest.Checksums(m.Inputs) {
		fmt.Fprintln(h, sum)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// decodeMeta reads store.json.
//
// Errors: exit 65 for another kind of document, another format, or values that
// contradict each other.
func decodeMeta(text []byte, at string) (*Meta, error) {
	bad := func(what, why, fix string) error {
		return &exit.Error{Code: exit.BadData, What: what, At: at, Why: why, Fix: fix}
	}
	const again = "prepare the store again with `ensemble data prepare`"
	var head struct {
		Schema string `json:"schema"`
		Format int    `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, bad("the description of the store is damaged", err.Error(), again)
	}
	switch {
	case head.Schema != schema:
		return nil, bad("this is no store", fmt.Sprintf("schema %q, want %q", head.Schema, schema), "name the folder of a store")
	case head.Format != Format:
		return nil, bad("the store is of another format", fmt.Sprintf("its format is %d, this program reads %d", head.Format, Format), again)
	}
	m := &Meta{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, bad("the description of the store is damaged", err.Error(), again)
	}
	if err := m.check(); err != nil {
		return nil, bad("the description of the store contradicts itself", err.Error(), again)
	}
	return m, nil
}

// check verifies that the axes are possible and that shards have the sizes that follow.
func (m *Meta) check() error {
	if err := m.checkPlan(); err != nil {
		return err
	}
	l, err := m.layout()
	if err != nil {
		return err
	}
	if len(m.Shards) != l.shards() {
		return fmt.Errorf("%d shards, want %d for %d starts", len(m.Shards), l.shards(), l.inits)
	}
	for k, s := range m.Shards {
		if s.Path != shardName(k) || s.Size != l.shardSize(k) {
			return fmt.Errorf("shard %d is %q of %d bytes, want %q of %d", k, s.Path, s.Size, shardName(k), l.shardSize(k))
		}
	}
	if m.Index.Path != indexName {
		return fmt.Errorf("the index is %q, want %q", m.Index.Path, indexName)
	}
	return nil
}

// checkPlan verifies what is known before anything is written.
func (m *Meta) checkPlan() error {
	if !slices.Contains(Storages, m.Storage) {
		return fmt.Errorf("storage %q", m.Storage)
	}
	if err := checkGrid(m.Grid); err != nil {
		return err
	}
	axes := m.Axes()
	for _, err := range []error{
		distinct("variable", axes.Variables), distinct("level", m.Levels), distinct("lead", m.Leads), distinct("member", m.Members),
		distinct("analysed variable", m.Analyses.Variables), distinct("lead of an analysis", m.Analyses.Leads),
	} {
		if err != nil {
			return err
		}
	}
	for _, v := range m.Analyses.Variables {
		if !slices.Contains(axes.Variables, v) {
			return fmt.Errorf("analyses have %s, which the forecasts have not", v)
		}
	}
	for i := 1; i < len(m.InitTimes); i++ {
		if !m.InitTimes[i].After(m.InitTimes[i-1]) {
			return fmt.Errorf("starts do not ascend: %s after %s", m.InitTimes[i], m.InitTimes[i-1])
		}
	}
	return nil
}

func distinct[T comparable](what string, list []T) error {
	seen := make(map[T]bool, len(list))
	for _, x := range list {
		if seen[x] {
			return fmt.Errorf("%s %v is listed twice", what, x)
		}
		seen[x] = true
	}
	return nil
}

// checkGrid verifies that a grid has the coordinates that its kind needs.
func checkGrid(g *ensemble.Grid) error {
	if g == nil {
		return fmt.Errorf("no grid")
	}
	if g.NX < 1 || g.NY < 1 || g.NX > maxCount || g.NY > maxCount {
		return fmt.Errorf("a grid of %d rows of %d", g.NY, g.NX)
	}
	lat, lon := g.NY, g.NX
	if g.Kind != ensemble.RegularLatLon && g.Kind != ensemble.RegularGaussian {
		lat, lon = g.NX*g.NY, g.NX*g.NY
	}
	if len(g.Lat) != lat || len(g.Lon) != lon {
		return fmt.Errorf("%d latitudes and %d longitudes, want %d and %d", len(g.Lat), len(g.Lon), lat, lon)
	}
	if (g.X != nil || g.Y != nil) && (len(g.X) != g.NX || len(g.Y) != g.NY) {
		return fmt.Errorf("%d x and %d y coordinates, want %d and %d", len(g.X), len(g.Y), g.NX, g.NY)
	}
	return nil
}
