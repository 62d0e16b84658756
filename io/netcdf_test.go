package fio

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// fieldless lists files without fields: masks without a time, tables of
// coefficients.
var fieldless = map[string]bool{"landmask.nc": true, "t2m/kgo_coefficients_mean.nc": true, "t2m/kgo_coefficients_mean_default_guess.nc": true,
	"t2m/apply/coefficients.nc": true, "wind10m/kgo_coefficients_mean.nc": true, "sites-t2m/kgo_coefficients_by_site.nc": true, "sites-t2m/apply/coefficients_by_site.nc": true}

// TestNetCDFArchives compares the fields of every file with variables that an
// independent reader read.
func TestNetCDFArchives(t *testing.T) {
	for _, set := range []string{"mogreps-uk", "glosea4"} {
		dir, files := expected(t, set)
		for name, want := range files {
			if want.Variables == nil {
				continue
			}
			t.Run(set+"/"+name, func(t *testing.T) {
				in := open(t, Options{}, filepath.Join(dir, name))
				if cat := in.Catalogue(); fieldless[name] != (len(cat.Entries) == 0) {
					t.Errorf("%d fields, %d unused", len(cat.Entries), len(cat.Unused))
				}
				checkNetCDF(t, in, want)
			})
		}
	}
}

func TestMetadataOfKnownFiles(t *testing.T) {
	utc := func(s string) ensemble.Init {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return ensemble.InitAt(v)
	}
	hours := func(h float64) ensemble.Lead { return ensemble.Lead(h * float64(time.Hour)) }
	for _, c := range []struct {
		set, file    string
		first        ensemble.Key
		unit, native string
		kind         ensemble.GridKind
		members      int
		entries      int
	}{
		{"mogreps-uk", "t2m/history/20170602T0300Z-PT0012H-temperature_at_screen_level.nc",
			ensemble.Key{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 1.5}, Member: 0, Init: utc("2017-06-02T03:00:00Z"), Lead: hours(12)}, "K", "K", ensemble.Projected, 12, 12},
		{"mogreps-uk", "t2m/truth/20170602T1500Z-PT0000H-temperature_at_screen_level.nc",
			ensemble.Key{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 1.5}, Member: ensemble.NoMember, Init: utc("2017-06-02T15:00:00Z")}, "K", "K", ensemble.Projected, 1, 1},
		{"mogreps-uk", "wind10m/history/20170603T0300Z-PT0012H-horizontal_wind_speed_at_10m.nc",
			ensemble.Key{Variable: "10si", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 10}, Member: 0, Init: utc("2017-06-03T03:00:00Z"), Lead: hours(12)}, "m s-1", "m s-1", ensemble.Projected, 12, 12},
		{"mogreps-uk", "sites-t2m/history/20201209T1500Z-PT0012H00M-temperature_at_screen_level.nc",
			ensemble.Key{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 1.5}, Member: 29, Init: utc("2020-12-09T03:00:00Z"), Lead: hours(12)}, "K", "K", ensemble.Points, 3, 3},
		{"glosea4", "glosea4_member_013.nc",
			ensemble.Key{Variable: "skt", Level: ensemble.Level{Kind: ensemble.Surface}, Member: 13, Init: utc("2011-07-24T00:00:00Z"), Lead: hours(936)}, "K", "K", ensemble.RegularLatLon, 1, 6},
		{"gcm", "gcm_an_1983.nc",
			ensemble.Key{Variable: "gh", Level: ensemble.PressureLevel(850), Member: ensemble.NoMember, Init: utc("1983-01-07T00:00:00Z")}, "m", "m", ensemble.RegularGaussian, 1, 624},
		{"gcm", "gcm_fc_198305.grib2",
			ensemble.Key{Variable: "gh", Level: ensemble.PressureLevel(850), Member: 0, Init: utc("1983-05-06T00:00:00Z")}, "m", "gpm", ensemble.RegularGaussian, 10, 480},
		{"era5-eda", "era5-eda_z-t_20170101T00-20170102T00.grib",
			ensemble.Key{Variable: "t", Level: ensemble.PressureLevel(850), Member: 0, Init: utc("2017-01-01T00:00:00Z")}, "K", "K", ensemble.RegularLatLon, 10, 120},
		{"formats", "grib1/hindcast_member.grib1", // date of the hindcast, not of the model
			ensemble.Key{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Member: 2, Init: utc("2021-06-15T00:00:00Z"), Lead: hours(6)}, "K", "K", ensemble.RegularLatLon, 1, 1},
		{"formats", "netcdf/classic_lambert_conformal.nc",
			ensemble.Key{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Member: ensemble.NoMember, Init: utc("2010-01-31T12:00:00Z")}, "K", "Celsius", ensemble.Projected, 1, 12},
	} {
		t.Run(c.file, func(t *testing.T) {
			in := open(t, Options{}, filepath.Join(testdata.Dir(t, c.set), c.file))
			cat := in.Catalogue()
			if len(cat.Entries) != c.entries {
				t.Fatalf("%d entries, want %d", len(cat.Entries), c.entries)
			}
			e := cat.Entries[0]
			if e.Key != c.first || e.Unit != c.unit || e.NativeUnit != c.native || e.Grid.Kind != c.kind {
				t.Errorf("first entry\n got %s, unit %s from %s, %s\nwant %s, unit %s from %s, %s", e.Key, e.Unit, e.NativeUnit, e.Grid.Kind, c.first, c.unit, c.native, c.kind)
			}
			if m := len(cat.Members()); m != c.members {
				t.Errorf("%d members, want %d", m, c.members)
			}
		})
	}
}
