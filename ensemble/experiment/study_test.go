package experiment

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// experimentSources are the small data with a short training.
func experimentSources(t *testing.T) config.Sources {
	f := demotest.Files(t)
	c := demotest.Config(t, f)
	path := filepath.Join(t.TempDir(), "train.yaml")
	if err := os.WriteFile(path, c.YAML(), 0o644); err != nil {
		t.Fatal(err)
	}
	return config.Sources{Files: []string{path}, Set: []string{"train.networks=1", "train.epochs=1"}}
}

// Networks of two and of all members are trained concurrently, and compared with each other and with all raw
// members. A second call does not train them again.
func TestExperimentMembers(t *testing.T) {
	src := experimentSources(t)
	variants, err := Variants(Members, src, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, last := variants[0], variants[len(variants)-1]
	if first.Name != "members-02" || len(variants) < 2 {
		t.Fatalf("variants %+v", variants)
	}
	o := StudyOptions{Config: src, Dir: t.TempDir(), Variants: []Variant{first, last}, Reference: last.Name, Version: "test"}
	e, err := RunStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	byVariant := map[string]int{}
	for _, r := range e.Rows {
		if score.IsDistributionCRPS(r.Score) {
			byVariant[r.Variant]++
		}
		scores, err := trained.ReadScores(filepath.Join(o.Dir, r.Variant, "seed-1"))
		if err != nil {
			t.Fatal(err)
		}
		if v := scores.Find(r.Score, scoring.SystemNetwork, r.Variable, r.Level, r.Lead); v == nil || v.Value != r.Value || r.N == 0 {
			t.Errorf("row %+v, its training has %+v", r, v)
		}
		own := r.Variant == last.Name
		if own != (r.SkillScoreReference == 0) || r.SkillScoreReference < r.SkillScoreReferenceLow || r.SkillScoreReference > r.SkillScoreReferenceHigh { // there is no interval with few inits
			t.Errorf("%s over %s: %g, %g to %g", r.Variant, last.Name, r.SkillScoreReference, r.SkillScoreReferenceLow, r.SkillScoreReferenceHigh)
		}
		if want := 1 - r.Value/r.RawFull; score.IsDistributionCRPS(r.Score) != (math.Abs(float64(r.SkillScoreRaw-want)) < 1e-6) || !score.IsDistributionCRPS(r.Score) && r.RawUsed == r.RawUsed { // no CRPS of the spread
			t.Errorf("skill score relative to all raw members %g, want %g", r.SkillScoreRaw, want)
		}
	}
	compared := map[string]int{}
	for i, r := range e.Rows { // the paired means on common inits agree with the scores
		for _, s := range e.Rows[i+1:] {
			if s.Variable == r.Variable && s.Level == r.Level && s.Lead == r.Lead && s.Score == r.Score {
				compared[r.Score]++
				if want := 1 - r.Value/s.Value; !(math.Abs(float64(r.SkillScoreReference-want)) < 1e-6) {
					t.Errorf("%s relative to %s: %g, want %g", r.Variant, s.Variant, r.SkillScoreReference, want)
				}
			}
		}
	}
	if compared[score.CRPSGauss.ID] == 0 || compared[score.SpreadRMSE.ID] > 0 { // all members have the spread of all
		t.Errorf("pairs of rows by score: %v", compared)
	}
	if byVariant[first.Name] == 0 || byVariant[first.Name] != byVariant[last.Name] {
		t.Errorf("rows %v", byVariant)
	}
	for _, path := range e.Outputs() {
		if s, err := os.Stat(path); err != nil || s.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(o.Dir, "report", "index.html"))
	if err != nil || !strings.Contains(string(page), "members used") || !strings.Contains(string(page), first.Name) {
		t.Errorf("page: %v", err)
	}
	at := filepath.Join(o.Dir, first.Name, "seed-1", trained.ScoresFile)
	before, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RunStudy(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(at); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("trained again: %v", err)
	}
}

func TestExperimentVariants(t *testing.T) {
	src := experimentSources(t)
	variants, err := Variants(Ablation, src, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variants { // every variant is a valid configuration
		s := src
		s.Set = append(slices.Clone(src.Set), v.Set...)
		if _, err := config.LoadTrain(s); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if len(variants) < 4 || variants[0].Name != "base" || variants[0].Set != nil {
		t.Errorf("variants %+v", variants)
	}
	for _, text := range []string{"", "a/b x=1", "x=1", "wide model.base", ".. x=1", "Wide x=1"} {
		if _, err := ParseVariant(text); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%q: %v", text, err)
		}
	}
	if v, err := ParseVariant("wide model.base=32 train.epochs=2"); err != nil || v.Name != "wide" || len(v.Set) != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := Variants(Members, src, []int{1}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("one member: %v", err)
	}
	twice := StudyOptions{Config: src, Dir: t.TempDir(), Variants: []Variant{{Name: "a"}, {Name: "a"}}}
	if _, err := RunStudy(context.Background(), twice); exit.CodeOf(err) != exit.Usage {
		t.Errorf("two of one name: %v", err)
	}
	for _, set := range []string{"train.seed=2", "train.threads=2", "data.analyses=[x.nc]"} {
		other := StudyOptions{Config: src, Dir: t.TempDir(), Variants: []Variant{{Name: "a"}, {Name: "b", Set: []string{set}}}}
		if _, err := RunStudy(context.Background(), other); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "variant b changes") {
			t.Errorf("%s: %v", set, err)
		}
	}
	var row StudyRow
	if err := row.compare(nil, nil); err != nil || row.SkillScoreReference == row.SkillScoreReference {
		t.Errorf("no starts in common: %v, %v", row.SkillScoreReference, err)
	}
}

// TestBeyondChance: of many comparisons only those remain that a false discovery rate allows; rows of the reference and without
// an interval are no tests.
func TestBeyondChance(t *testing.T) {
	e := Study{Reference: "base", Rows: []StudyRow{{Variant: "base", P: 1}, {Variant: "a", P: 0.001}, {Variant: "a", P: 0.03}, {Variant: "b", P: 0.04}, {Variant: "b", P: 0.5}, {Variant: "b", P: score.Missing()}}}
	e.decide()
	var got []string
	for _, r := range e.Rows {
		got = append(got, r.verdict())
	}
	// The limits of four tests are 0.0125, 0.025, 0.0375 and 0.05.
	if want := []string{"-", "yes", "no", "no", "no", "-"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if text := e.table().Notes[1]; !strings.Contains(text, "4 comparisons with base") || !strings.Contains(text, "5 %") {
		t.Errorf("note %q", text)
	}
}

// TestExperimentSeeds: a row of several seeds has their mean and standard deviation, and its skill scores use the
// mean score of each init.
func TestExperimentSeeds(t *testing.T) {
	src := experimentSources(t)
	kinds, err := Variants(Networks, src, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range kinds {
		names = append(names, v.Name)
	}
	if !slices.Equal(names, []string{"base", "drn", "lenet", "unet2d"}) {
		t.Errorf("kinds %q", names)
	}
	o := StudyOptions{Config: src, Dir: t.TempDir(), Variants: kinds[:2], Reference: "base", Seeds: 2, Version: "test"}
	e, err := RunStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var rows []StudyRow // of distributions
	for _, r := range e.Rows {
		if score.IsDistributionCRPS(r.Score) {
			rows = append(rows, r)
		}
	}
	if len(rows) != 2 || len(e.Rows) != 4 || rows[1].Variant != "drn" {
		t.Fatalf("rows %+v", e.Rows)
	}
	for _, r := range e.Rows {
		var values, roots []float64
		for _, seed := range []string{"seed-1", "seed-2"} {
			scores, err := trained.ReadScores(filepath.Join(o.Dir, r.Variant, seed))
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, float64(scores.Find(r.Score, scoring.SystemNetwork, r.Variable, r.Level, r.Lead).Value))
		}
		if !score.IsDistributionCRPS(r.Score) { // the skill score uses the root of mean squares, which is close to the mean of roots
			for _, r := range e.Rows[:2] {
				if r.Score == score.SpreadRMSE.ID {
					roots = append(roots, float64(r.Value))
				}
			}
			if own := r.Variant == "base"; own != (r.SkillScoreReference == 0) || !own && !(math.Abs(float64(r.SkillScoreReference)-(1-float64(r.Value)/roots[0])) < 0.01) {
				t.Errorf("%s: skill score %g of %g relative to %g", r.Variant, r.SkillScoreReference, r.Value, roots)
			}
		}
		mean, sd := (values[0]+values[1])/2, math.Abs(values[0]-values[1])/math.Sqrt2
		if sd == 0 || math.Abs(float64(r.Value)-mean) > 1e-12 || math.Abs(float64(r.SD)-sd) > 1e-12 {
			t.Errorf("%s: %g ± %g, the seeds score %v", r.Variant, r.Value, r.SD, values)
		}
		if !score.IsDistributionCRPS(r.Score) {
			continue
		}
		if u := float64(r.Unweighted); u == mean || math.Abs(u-mean) > 0.3*mean || !(r.UnweightedSD > 0) {
			t.Errorf("%s: %g ± %g without weights, %g with them", r.Variant, u, r.UnweightedSD, mean)
		}
		// The decomposition of the skill score uses the scores per init, here on the same points.
		if want := 1 - mean/float64(r.RawFull); math.Abs(float64(r.SkillScoreRaw)-want) > 1e-6 {
			t.Errorf("%s: skill score relative to all raw members %g, want %g", r.Variant, r.SkillScoreRaw, want)
		}
	}
	if want := 1 - rows[1].Value/rows[0].Value; math.Abs(float64(rows[1].SkillScoreReference-want)) > 1e-6 {
		t.Errorf("skill score relative to base %g, want %g", rows[1].SkillScoreReference, want)
	}
}
