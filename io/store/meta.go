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

// schema identifies store.json.
const schema = "ensemble.store"

// Variable is a quantity and the unit of its values.
type Variable struct {
	Name string `json:"name"`
	// Unit is the SI unit in UDUNITS spelling.
	Unit string `json:"unit"`
}

// Analyses describes the analyses of an initialisation: these variables on all
// levels of the store, valid at the initialisation plus each lead.
type Analyses struct {
	Variables []string `json:"variables"`
	// Leads in seconds. Analyses are valid at the initialisation plus each lead.
	Leads []int64 `json:"leads_s"`
}

// Meta is the content of store.json.
//
// Source: docs/formats/store.md.
type Meta struct {
	// Schema is "ensemble.store".
	Schema string `json:"schema"`
	// Format is the version of the format. Other versions are rejected.
	Format int `json:"format"`
	// Checksum is that of store.json, which Write sets (manifest.SealedJSON).
	Checksum string `json:"checksum"`
	// Version of the program that wrote the store.
	Version string `json:"version"`
	// Identity is the hash of the plan and the contents of the inputs. Write
	// resumes a store only if it has the same identity.
	Identity string `json:"identity"`
	// Storage is the type of the stored values.
	Storage Storage `json:"storage"`

	// Variables, Levels, Leads, Members and Analyses are the axes of each
	// initialisation.
	Variables []Variable `json:"variables"`
	// Intervals are the statistics over time of fields that are not instantaneous.
	Intervals []ensemble.VariableStatistic `json:"intervals,omitempty"`
	Levels    []ensemble.Level             `json:"levels"`
	// Leads in seconds, ascending.
	Leads    []int64           `json:"leads_s"`
	Members  []ensemble.Member `json:"members"`
	Analyses Analyses          `json:"analyses"`
	// InitTimes lists the initialisations, ascending, UTC.
	InitTimes []time.Time `json:"inits"`
	// Grid is the grid of all fields, in normal order.
	Grid *ensemble.Grid `json:"grid"`
	// Interpolation describes the interpolation of inputs to Grid; empty without
	// one.
	Interpolation string `json:"interpolation,omitempty"`
	// Naming is what was stated of the names and units of the inputs, in their place.
	Naming ensemble.Naming `json:"naming,omitzero"`
	// Origins lists the forecast models; empty if the inputs do not state them.
	Origins []ensemble.Origin `json:"origins,omitempty"`

	// BandRows is the number of grid rows in a band; the last band may have fewer.
	BandRows int `json:"band_rows"`
	// ShardInits is the number of initialisations in a shard; the last shard may
	// have fewer.
	ShardInits int `json:"shard_inits"`

	// Shards and Index are the files of the store, with sizes and SHA-256.
	Shards []manifest.File `json:"shards"`
	Index  manifest.File   `json:"index"`
	// Statistics describes the values before storage, by kind, lead, variable and
	// level.
	Statistics []Statistic `json:"statistics"`
	// Inputs lists the files that the store was made from.
	Inputs   []manifest.File `json:"inputs"`
	Warnings []string        `json:"warnings"`
}

// Axes returns the axes of the forecasts.
func (m *Meta) Axes() ensemble.Axes {
	a := ensemble.Axes{Levels: m.Levels, Leads: leads(m.Leads), Statistics: m.Intervals}
	for _, v := range m.Variables {
		a.Variables = append(a.Variables, v.Name)
	}
	return a
}

// Inits returns the initialisations, ascending.
func (m *Meta) Inits() []ensemble.Init {
	out := make([]ensemble.Init, len(m.InitTimes))
	for i, t := range m.InitTimes {
		out[i] = ensemble.InitAt(t)
	}
	return out
}

// AnalysisLeads returns the leads of the analyses.
func (m *Meta) AnalysisLeads() []ensemble.Lead { return leads(m.Analyses.Leads) }

// Bytes returns the size of all shards.
func (m *Meta) Bytes() int64 {
	var n int64
	for _, s := range m.Shards {
		n += s.Size
	}
	return n
}

// files lists the files of a complete store, store.json first. The list of inputs is not one of them.
func (m *Meta) files() []string {
	names := []string{metaName, indexName, manifest.SumsName}
	for _, s := range m.Shards {
		names = append(names, s.Path)
	}
	return names
}

// leads converts seconds to leads.
func leads(seconds []int64) []ensemble.Lead {
	out := make([]ensemble.Lead, len(seconds))
	for i, s := range seconds {
		out[i] = ensemble.Lead(time.Duration(s) * time.Second)
	}
	return out
}

// identity returns the hash of everything that determines the bytes of the shards.
func (m *Meta) identity() (string, error) {
	// The identity excludes what does not change the shards, such as the version,
	// and what is known only after writing.
	plan := *m
	plan.Checksum, plan.Version, plan.Identity, plan.Shards, plan.Index, plan.Statistics, plan.Warnings = "", "", "", nil, manifest.File{}, nil, nil
	plan.Inputs, plan.Origins = nil, nil
	text, err := json.Marshal(plan)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", text)
	// Inputs count by content, so that moved files do not change the identity.
	for _, sum := range manifest.Checksums(m.Inputs) {
		fmt.Fprintln(h, sum)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// decodeMeta decodes store.json. at names the file in errors.
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
		return nil, bad("store.json is damaged", err.Error(), again)
	}
	switch {
	// Schema and format are checked first, because other members may differ.
	case head.Schema != schema:
		return nil, bad("not a store", fmt.Sprintf("schema %q, want %q", head.Schema, schema), "give the directory of a store")
	case head.Format != Format:
		return nil, bad("the store has another format version", fmt.Sprintf("its format is %d, this program reads %d", head.Format, Format), again)
	}
	m := &Meta{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, bad("store.json is damaged", err.Error(), again)
	}
	if err := m.check(); err != nil {
		return nil, bad("store.json contradicts itself", err.Error(), again)
	}
	if err := manifest.CheckSeal(text); err != nil {
		return nil, bad("store.json is damaged", err.Error(), again)
	}
	return m, nil
}

// check verifies the axes and the sizes of the shards.
func (m *Meta) check() error {
	if err := m.checkPlan(); err != nil {
		return err
	}
	l, err := m.layout()
	if err != nil {
		return err
	}
	if len(m.Shards) != l.shards() {
		return fmt.Errorf("%d shards, want %d for %d initialisations", len(m.Shards), l.shards(), l.inits)
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

// checkPlan verifies the metadata that are known before anything is written.
func (m *Meta) checkPlan() error {
	if !slices.Contains(Storages, m.Storage) {
		return fmt.Errorf("unknown storage %q, want one of %v", m.Storage, Storages)
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
			return fmt.Errorf("analyses have variable %s, which the forecasts lack", v)
		}
	}
	for i := 1; i < len(m.InitTimes); i++ {
		if !m.InitTimes[i].After(m.InitTimes[i-1]) {
			return fmt.Errorf("initialisations are not ascending: %s after %s", m.InitTimes[i], m.InitTimes[i-1])
		}
	}
	return nil
}

// distinct returns an error if a list has duplicates.
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

// checkGrid verifies that a grid has the coordinates that its kind requires.
func checkGrid(g *ensemble.Grid) error {
	if g == nil {
		return fmt.Errorf("no grid")
	}
	if g.NX < 1 || g.NY < 1 || g.NX > maxCount || g.NY > maxCount {
		return fmt.Errorf("a grid of %d rows of %d", g.NY, g.NX)
	}
	lat, lon := g.NY, g.NX
	// Regular grids have one latitude per row and one longitude per column, all
	// others one per point.
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
