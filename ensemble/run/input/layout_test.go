package input

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	fio "github.com/ensemble-weather/ensemble/io"
)

// The expected file of a missing member follows the names of the others, if they determine it.
func TestExpectedFileName(t *testing.T) {
	for _, c := range []struct {
		files  []string
		of     []ensemble.Member
		absent string
		want   string
	}{
		{[]string{"d/gec00.t00z.f024", "d/gep01.t00z.f024", "d/gep03.t00z.f024"}, []ensemble.Member{0, 1, 3}, "2", "d/gep02.t00z.f024"},
		{[]string{"m_9.nc", "m_8.nc"}, []ensemble.Member{9, 8}, "10", "m_10.nc"},
		{[]string{"m_010.nc", "m_008.nc", "m_009.nc"}, []ensemble.Member{10, 8, 9}, "11", "m_011.nc"},
		{[]string{"all.nc", "all.nc"}, []ensemble.Member{1, 2}, "3", ""},
		{[]string{"a1.nc", "b2.nc"}, []ensemble.Member{1, 2}, "3", ""},
		{[]string{"a.nc", "b.nc"}, []ensemble.Member{1, 2}, "3", ""},
	} {
		var entries []ensemble.Entry
		for i, f := range c.files {
			entries = append(entries, ensemble.Entry{Key: ensemble.Key{Member: c.of[i]}, File: f})
		}
		if got := expectedFileName(entries, c.absent); got != c.want {
			t.Errorf("%v without %s: %q, want %q", c.files, c.absent, got, c.want)
		}
	}
}

// Members of two centres with the same number are a fault that names both and the key to select one.
func TestCentreFaults(t *testing.T) {
	field := func(centre string, m ensemble.Member) ensemble.Entry {
		return ensemble.Entry{Key: ensemble.Key{Variable: "t", Member: m, Init: ensemble.InitAt(time.Unix(0, 0))}, Kind: &ensemble.Kind{Centre: centre}, File: centre}
	}
	apart := []ensemble.Entry{field("ecmf", ensemble.NoMember), field("kwbc", ensemble.NoMember), field("ecmf", 0), field("kwbc", 1)}
	if f := CentreFaults(apart); f != nil {
		t.Errorf("members of other numbers: %v", f)
	}
	f := CentreFaults([]ensemble.Entry{field("ecmf", 0), field("kwbc", 0), field("ecmf", 1), field("kwbc", 1), field("ecmf", 2)})
	if len(f) != 1 || f[0].Fields != 2 || f[0].Why != "ecmf has members 0-2; kwbc has members 0-1" || !strings.Contains(f[0].Fix, "[ecmf, kwbc]") {
		t.Errorf("%+v", f)
	}
}

// For an input of percentiles the fault is that members are missing, not a particular member.
func TestOfferedPercentiles(t *testing.T) {
	entry := ensemble.Entry{Key: ensemble.Key{Variable: "t", Level: ensemble.PressureLevel(850), Member: ensemble.NoMember, Product: ensemble.Quantile, QuantileProbability: 0.5}, Kind: &ensemble.Kind{}}
	b := RequiredFields{Axes: ensemble.Axes{}, Members: []ensemble.Member{0, 1}}
	f := CheckOffered(&ensemble.Catalogue{Entries: []ensemble.Entry{entry}}, "x", b)
	if len(f) != 1 || !strings.Contains(f[0].Fix, "members.percentiles: members") {
		t.Errorf("%+v", f)
	}
	b.Members = []ensemble.Member{ensemble.NoMember}
	for _, f := range CheckOffered(&ensemble.Catalogue{Entries: []ensemble.Entry{entry}}, "x", b) {
		if strings.Contains(f.What, "percentiles") {
			t.Errorf("no members were requested: %+v", f)
		}
	}
}

// A configured layout is converted for the reader.
func TestLayoutOf(t *testing.T) {
	l := LayoutOf(config.MemberLayout{FilenamePattern: `m(\d+)`, Centres: []string{"ecmf"}, Percentiles: "members"})
	if fmt.Sprint(l.FromName, l.Centres, l.Percentiles) != `m(\d+) [ecmf] true` {
		t.Errorf("%+v", l)
	}
	if l := LayoutOf(config.MemberLayout{Percentiles: "refuse"}); l.FromName != nil || l.Centres != nil || l.Percentiles {
		t.Errorf("%+v", l)
	}
}

// Forecasts of a training are read with all configured options, analyses without the layout of members.
func TestReaderOptionsOfATraining(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "data.index_cache=/var/cache/ensemble", "data.allow_missing_chunks=true", "data.members.centres=[ecmf]")
	for forecasts, want := range map[bool]fio.Options{true: {Sparse: true, Cache: "/var/cache/ensemble", Members: fio.MemberOptions{Centres: []string{"ecmf"}}}, false: {Sparse: true, Cache: "/var/cache/ensemble"}} {
		if got := ReaderOptions(c, forecasts); !reflect.DeepEqual(got, want) {
			t.Errorf("forecasts %v: %+v, want %+v", forecasts, got, want)
		}
	}
}
