package ensemble

import (
	"strings"
	"testing"
)

// TestLevelText: every form of a level is read as it is written, and layers keep both bounds.
func TestLevelText(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range []Level{PressureLevel(850), PressureLevel(0.5), {Kind: HeightAboveSoil, Value: 1.5}, {Kind: Surface}, {Kind: MeanSea}, SingleLevel,
		{Kind: DepthBelowLand, Value: 0.1}, Layer(DepthBelowLand, 0, 0.1), Layer(DepthBelowLand, 0.4, 0.1), Layer(HeightAboveSoil, 3000, 0), Layer(Pressure, 50000, 85000)} {
		text := l.String()
		if seen[text] {
			t.Errorf("two levels are %s", text)
		}
		seen[text] = true
		got, err := ParseLevel(text)
		if err != nil || got != l {
			t.Errorf("%s is read as %+v (%v), want %+v", text, got, err, l)
		}
	}
	for _, bad := range []string{"depth850hPa", "depth", "0.1-0.4", "1-2-3m", "-1m", "level3"} {
		if l, err := ParseLevel(bad); err == nil {
			t.Errorf("%q is read as %s", bad, l)
		}
	}
	if l := Layer(DepthBelowLand, 0.1, 0.1); l.IsLayer {
		t.Errorf("a layer without thickness: %+v", l)
	}
}

// TestStatisticTexts: fields that differ in interval, statistic or type of level have different texts.
func TestStatisticTexts(t *testing.T) {
	hour := func(h int64) Lead { return Lead(h * 3600e9) }
	field := func(lead Lead, level string, statistic string, interval Lead) Entry {
		return Entry{Key: Key{Variable: "x", Lead: lead, Level: Level{Kind: OtherLevel}}, Kind: &Kind{LevelType: level, Statistic: statistic, Interval: interval}}
	}
	all := []Entry{field(hour(6), "a", "", 0), field(hour(6), "b", "", 0), field(hour(6), "a", "sum", hour(6)), field(hour(6), "a", "sum", hour(1)), field(hour(6), "a", "mean", hour(6))}
	texts := map[string]bool{}
	for _, e := range all {
		texts[e.String()] = true
	}
	if len(texts) != len(all) {
		t.Errorf("%d texts for %d fields: %v", len(texts), len(all), texts)
	}
	for _, c := range []struct {
		entries []Entry
		want    string
	}{
		{all[:2], "instant"},
		{all[2:4], "sum 1h,sum 6h"},
		{[]Entry{field(hour(6), "a", "sum", hour(6)), field(hour(12), "a", "sum", hour(12))}, "sum since init"},
		{[]Entry{field(hour(6), "a", "sum", hour(6)), field(hour(12), "a", "sum", hour(6))}, "sum 6h"},
		{[]Entry{field(hour(6), "a", "mean", 0)}, "mean"},
	} {
		if got := (&Catalogue{Entries: c.entries}).Groups()[0].Statistics; len(got) == 0 || strings.Join(got, ",") != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
