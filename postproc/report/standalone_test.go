package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// wellFormed reads a picture as other programs do and gives its elements' names.
func wellFormed(t *testing.T, p Picture) map[string]int {
	t.Helper()
	names := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(string(p.SVG))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", p.Title, err, p.SVG)
		}
		if e, ok := token.(xml.StartElement); ok {
			if e.Name.Space != "http://www.w3.org/2000/svg" {
				t.Fatalf("%s: %s is no element of SVG", p.Title, e.Name)
			}
			names[e.Name.Local]++
		}
	}
}

// Standalone pictures are well-formed SVG with CSS rules, a size, and a title in which XML
// characters are escaped.
func TestAlone(t *testing.T) {
	c := Chart{Title: "Loss <of> a & b", X: "epoch", Y: "loss", Lines: []Line{{Name: "training", X: []float64{1, 2, 3}, Y: []float64{3, math.NaN(), 1}}}}
	p := c.Picture()
	names := wellFormed(t, p)
	if names["style"] != 1 || names["title"] != 1 || names["path"] == 0 || !strings.Contains(string(p.SVG), `width="760" height="300"`) {
		t.Errorf("elements %v of\n%.300s", names, p.SVG)
	}
	if strings.Contains(string(p.SVG), "{{") || !strings.Contains(string(p.SVG), ".tick {") {
		t.Error("the rules of style are not there")
	}
}

// Tables leave out systems without any of the selected scores, and missing intervals.
func TestTables(t *testing.T) {
	value := func(id, system string, v, low, high float64) score.Value {
		return score.Value{ID: id, System: system, Variable: "t", Level: "850hPa", Lead: "48h", Value: score.Number(v), CILow: score.Number(low), CIHigh: score.Number(high),
			Unit: "K", Region: score.Everywhere, Season: score.AllYear, Threshold: score.Missing()}
	}
	nan := math.NaN()
	r := &score.Result{Scores: []score.Value{value("rmse", "network", 1, 0.9, 1.1), value("rmse", "raw5", 2, nan, nan), value("bias", "network", 0.1, nan, nan), value("bias", "affine", 0.2, nan, nan)},
		Comparisons: []score.Comparison{{ID: "rmse", System: "network", Reference: "raw5", Variable: "t", Level: "850hPa", Lead: "48h", SkillScore: 0.5, CILow: 0.4, CIHigh: 0.6,
			Region: score.Everywhere, Season: score.AllYear, Threshold: score.Missing(), P: score.Missing()}}}
	tables := ScoreTables(r, "rmse")
	if len(tables) != 1 || len(tables[0].Rows) != 2 || fmt.Sprintf("%q", tables[0].Rows) != `[["network" "–" "1.000 (0.9000 to 1.100)"] ["raw5" "–" "2.000"]]` {
		t.Errorf("scores: %+v", tables)
	}
	if all := ScoreTables(r); len(all[0].Columns) != 4 || len(all[0].Rows) != 3 {
		t.Errorf("all scores: %+v", all)
	}
	drawn := SkillPictures(r, "rmse")
	if len(drawn) != 1 || wellFormed(t, drawn[0])["circle"] != 1 || len(SkillPictures(r, "bias")) != 0 {
		t.Errorf("%d pictures of skill scores", len(drawn))
	}
	skill := SkillTables(r)
	if len(skill) != 1 || len(skill[0].Rows) != 1 || skill[0].Rows[0][5] != "▲ better" {
		t.Errorf("skill tables: %+v", skill)
	}
}

// TestImage: a picture for a notebook is small, and its map keeps its shape.
func TestImage(t *testing.T) {
	for aspect, want := range map[float64][2]float64{0.5: {7.2, 4.925}, 1: {5.6, 6.5}, 1.4: {5.6, 8.4}} {
		w, h := cellSize.dimensions(aspect)
		if math.Abs(w.Points()/72-want[0]) > 1e-9 || math.Abs(h.Points()/72-want[1]) > 1e-9 {
			t.Errorf("aspect %g: %g × %g inches, want %v", aspect, w.Points()/72, h.Points()/72, want)
		}
	}
	if w, h := sheetSize.dimensions(2); w.Points() != 9.5*72 || math.Abs(h.Points()/72-19.05) > 1e-9 {
		t.Errorf("a sheet is %g × %g inches", w.Points()/72, h.Points()/72)
	}
}
