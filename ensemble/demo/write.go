package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Writer encodes forecasts and analyses; see Encoder. Each call writes one file atomically. The
// folder must exist.
type Writer interface {
	WriteEnsembleGRIB2(ctx context.Context, path string, f *ensemble.Forecast) error
	WriteEnsembleNetCDF(ctx context.Context, path string, f *ensemble.Forecast) error
	WriteAnalyses(ctx context.Context, path string, as []*ensemble.Analysis) error
}

// Format is a set of file formats of ensemble forecasts.
type Format uint8

// The formats can be combined with |.
const (
	GRIB2 Format = 1 << iota
	NetCDF
)

// Files contains the paths of a written data set in order of time.
type Files struct {
	GRIB2, NetCDF []string // ensemble forecasts, one file per initialisation time
	Analyses      []string // NetCDF, one file per calendar year of the valid time
}

// Write generates the data set of cfg into the folder dir, which must exist:
// demo_fc_2001010100.grib2 and .nc for each initialisation time, demo_an_2001.nc for the analyses of
// each year. progress receives the number of written cases and can be nil.
//
// Errors: those of Generate and of w. Files that are already written are kept.
func Write(ctx context.Context, cfg Config, dir string, formats Format, w Writer, progress func(done, total int)) (*Files, error) {
	if formats&^(GRIB2|NetCDF) != 0 {
		return nil, fmt.Errorf("demo: unknown formats %b", formats)
	}
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	files := &Files{}
	years := yearlyAnalyses{write: func(year int, as []*ensemble.Analysis) error {
		path := filepath.Join(dir, fmt.Sprintf("demo_an_%04d.nc", year))
		files.Analyses = append(files.Analyses, path)
		return w.WriteAnalyses(ctx, path, as)
	}}
	done := 0
	err = Generate(ctx, cfg, func(s *Case) error {
		base := filepath.Join(dir, "demo_fc_"+s.Forecast.Init.Format("2006010215"))
		if formats&GRIB2 != 0 {
			files.GRIB2 = append(files.GRIB2, base+".grib2")
			if err := w.WriteEnsembleGRIB2(ctx, base+".grib2", s.Forecast); err != nil {
				return err
			}
		}
		if formats&NetCDF != 0 {
			files.NetCDF = append(files.NetCDF, base+".nc")
			if err := w.WriteEnsembleNetCDF(ctx, base+".nc", s.Forecast); err != nil {
				return err
			}
		}
		if err := years.add(s); err != nil {
			return err
		}
		if done++; progress != nil {
			progress(done, cfg.Inits)
		}
		return nil
	})
	if err == nil {
		err = years.flush()
	}
	if err != nil {
		return nil, err
	}
	return files, nil
}

// yearlyAnalyses collects the analyses of a year until it is complete. A year is complete when a
// case of the next year arrives, since analyses are not earlier than the initialisation of their
// case.
type yearlyAnalyses struct {
	write func(year int, as []*ensemble.Analysis) error
	kept  []*ensemble.Analysis // by valid time, each once
}

// add keeps the analyses of a case, after it has written the years before the case.
func (y *yearlyAnalyses) add(s *Case) error {
	if err := y.flushBefore(s.Forecast.Init.Year()); err != nil {
		return err
	}
	for _, a := range s.Analyses {
		i, found := slices.BinarySearchFunc(y.kept, a, func(e, a *ensemble.Analysis) int { return e.Valid.Compare(a.Valid.Time) })
		if !found { // valid times of different cases can coincide
			y.kept = slices.Insert(y.kept, i, a)
		}
	}
	return nil
}

// flushBefore writes the years before a year.
func (y *yearlyAnalyses) flushBefore(year int) error {
	for len(y.kept) > 0 && y.kept[0].Valid.Year() < year {
		if err := y.flushFirst(); err != nil {
			return err
		}
	}
	return nil
}

// flushFirst writes the analyses of the earliest year.
func (y *yearlyAnalyses) flushFirst() error {
	year := y.kept[0].Valid.Year()
	n := slices.IndexFunc(y.kept, func(a *ensemble.Analysis) bool { return a.Valid.Year() > year })
	if n < 0 {
		n = len(y.kept)
	}
	as := y.kept[:n:n]
	y.kept = y.kept[n:]
	return y.write(year, as)
}

// flush writes all years.
func (y *yearlyAnalyses) flush() error {
	for len(y.kept) > 0 {
		if err := y.flushFirst(); err != nil {
			return err
		}
	}
	return nil
}
