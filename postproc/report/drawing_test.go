package report

import (
	"bytes"
	"image/color"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// TestDrawing: several maps share a page and a scale; PNG and PDF have the same size.
func TestDrawing(t *testing.T) {
	g, err := ensemble.NamedGrid("10deg")
	if err != nil {
		t.Fatal(err)
	}
	low, high := make([]float32, g.Size()), make([]float32, g.Size())
	for i := range low {
		low[i], high[i] = -3, 1
	}
	p := Panel{Title: "difference", Unit: "K", Diverging: true, Maps: []Map{{Title: "low", Grid: g, Values: low}, {Title: "high", Grid: g, Values: high}}}
	d, err := p.Drawing()
	if err != nil {
		t.Fatal(err)
	}
	m := d.Image()
	b := m.Bounds()
	at := func(x float64) color.Color { return m.At(int(x*float64(b.Dx())), b.Dy()*2/5) }
	left, right := at(0.3), at(0.8)
	blue := func(c color.Color) bool { r, _, b, _ := c.RGBA(); return b > r+0x2000 }
	if !blue(left) || blue(right) || b.Dx() < 600 {
		t.Errorf("on a scale symmetric about zero −3 is drawn as %v, 1 as %v; %v", left, right, b)
	}
	r0, _, _, _ := right.RGBA()
	alone, err := Panel{Title: "difference", Unit: "K", Diverging: true, Maps: p.Maps[1:]}.Drawing()
	if err != nil {
		t.Fatal(err)
	}
	single := alone.Image()
	if r, _, _, _ := single.At(single.Bounds().Dx()/2, single.Bounds().Dy()/2).RGBA(); r >= r0 {
		t.Errorf("1 beside −3 has the red %d, alone on its scale %d: the maps do not share a scale", r0, r)
	}
	var pdf bytes.Buffer
	if err := d.WritePDF(&pdf); err != nil {
		t.Fatal(err)
	}
	if text := pdf.Bytes(); !bytes.HasPrefix(text, []byte("%PDF-")) || !bytes.Contains(text, []byte("/BaseFont /LiberationSans")) || !bytes.HasSuffix(bytes.TrimSpace(text), []byte("%%EOF")) {
		t.Errorf("%d bytes, not a PDF with its fonts", len(text))
	}
	if _, err := (Panel{Maps: []Map{{Grid: g, Values: low[:3]}}}).Drawing(); err == nil {
		t.Error("a map that does not fill its grid was drawn")
	}
}

// TestLongTitles: titles that are wider than the picture are drawn smaller, so that they end before its edge.
func TestLongTitles(t *testing.T) {
	g, err := ensemble.NamedGrid("10deg")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("m", 150) // without gaps
	m := Map{Title: long, Grid: g, Values: make([]float32, g.Size())}
	c := Chart{Title: long, X: "epoch", Y: "loss", Lines: []Line{{Name: "a", X: []float64{1, 2}, Y: []float64{1, 2}}}}
	one, errOne := Panel{Title: long, Unit: "K", Maps: []Map{m}}.Drawing()
	two, errTwo := Panel{Title: long, Unit: "K", Maps: []Map{m, m}}.Drawing()
	if errOne != nil || errTwo != nil {
		t.Fatal(errOne, errTwo)
	}
	for name, d := range map[string]Drawing{"one map": one, "two maps": two, "chart": c.Drawing()} {
		p := d.Image()
		b := p.Bounds()
		inked := func(from, to int) bool {
			for y := 0; y < 60; y++ {
				for x := from; x < to; x++ {
					if r, _, _, _ := p.At(x, y).RGBA(); r < 0x8000 {
						return true
					}
				}
			}
			return false
		}
		if inked(b.Dx()-6, b.Dx()) || !inked(b.Dx()-40, b.Dx()-6) {
			t.Errorf("%s: the title does not end near the right edge of %d pixels", name, b.Dx())
		}
	}
}

// TestLabelsApart: of labels that would touch every second or third is left.
func TestLabelsApart(t *testing.T) {
	var all []label
	for i, text := range []string{"180°", "120° W", "60° W", "0°", "60° E", "120° E", "180°"} {
		all = append(all, label{at: float64(60*i - 180), text: text})
	}
	style := sans(10, "", quiet)
	for _, c := range []struct {
		width vg.Length
		want  string
	}{{360, "180°,120° W,60° W,0°,60° E,120° E,180°"}, {160, "180°,,60° W,,60° E,,180°"}, {70, "180°,,,0°,,,180°"}, {1, "180°,,,,,,"}} {
		var got []string
		for _, l := range apart(all, style, c.width/360) {
			got = append(got, l.text)
		}
		if text := strings.Join(got, ","); text != c.want {
			t.Errorf("%v points wide: %s, want %s", float64(c.width), text, c.want)
		}
	}
	if all[1].text != "120° W" {
		t.Error("the labels of the axis were changed")
	}
}

// TestCodePage1252: PDF has the characters of maps and charts.
func TestCodePage1252(t *testing.T) {
	if got := codePage1252("−5 °C ± 1\u202f…–λ"); got != "\x965 \xb0C \xb1 1\xa0\x85\x96?" {
		t.Errorf("%q", got)
	}
}

// TestDateTicks: a few dates, months on long axes and days on short ones.
func TestDateTicks(t *testing.T) {
	const day = 4748 // 1983-01-01
	for _, c := range []struct {
		name        string
		low, high   float64
		first, last string
		most        int
	}{
		{"a month", day + 0.5, day + 30, "01-06", "01-31", 8},
		{"a year", day, day + 365, "1983-01", "1984-01", 9},
		{"ten years", day, day + 3652, "1983-01", "1991-01", 9},
	} {
		at, labels := dateTicks(c.low, c.high)
		if len(at) < 3 || len(at) > c.most || labels[0] != c.first || labels[len(labels)-1] != c.last {
			t.Errorf("%s: %v, %v", c.name, at, labels)
		}
	}
}
