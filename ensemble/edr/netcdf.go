package edr

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/product"
)

// netCDF encodes a selection as CF NetCDF of the profile cdo, in which a variable is a parameter. Fields that a parameter
// lacks at a time or level of others are filled.
//
// Errors: fields over intervals of different lengths, which one file cannot have; those of product.WriteNetCDF.
func (s *Service) netCDF(ctx context.Context, f *forecast, sel *selection, q *request) (Answer, error) {
	fields, err := sel.fields()
	if err != nil {
		return Answer{}, err
	}
	m := f.Init.Manifest
	p := &product.Product{Init: ensemble.InitAt(f.Init.Time), Grid: sel.grid, Fields: fields, Metadata: product.Metadata{
		Title: "Values of the products of " + f.Init.Name, Source: "ensemble", ForecastType: "post-processed ensemble", Command: q.line, Version: version.String(),
		Members: m.MembersUsed, Control: m.ControlPolicy, DDOF: m.SpreadDDOF, Coupling: m.Coupling, LeadsRead: m.LeadsRead, Fallback: m.Fallback,
		ModelChecksum: m.ModelChecksum, Inputs: published.FieldFiles(m)}}
	dir, err := filesystem.MkdirTemp("", "ensemble-query-")
	if err != nil {
		return Answer{}, err
	}
	defer filesystem.RemoveAll(dir)
	pool, err := s.reader.Pool()
	if err != nil {
		return Answer{}, err
	}
	path := filepath.Join(dir, "answer.nc")
	if err := product.WriteNetCDF(ctx, pool, path, p, product.Options{Profile: product.CDOProfile}); err != nil {
		return Answer{}, err
	}
	text, err := filesystem.ReadFile(path)
	return Answer{Status: http.StatusOK, Type: typeNetCDF, Body: text}, err
}

// fields returns the fields of all blocks at all leads, which is what a file needs.
//
// Errors: intervals of different lengths.
func (sel *selection) fields() (out []product.Field, err error) {
	leads := map[ensemble.Lead]bool{}
	for _, b := range sel.blocks {
		for _, l := range b.leads {
			leads[l] = true
		}
	}
	missing := make([]float32, sel.grid.Size())
	nan(missing)
	var period time.Duration
	for _, b := range sel.blocks {
		for k, p := range b.parameters {
			for lead := range leads {
				for j, level := range b.levels {
					field := p.field
					field.Lead, field.Level, field.Values = lead, level, missing
					for i, l := range b.leads {
						if l == lead {
							field.Values = b.field(k, i, j)
						}
					}
					if e, ok := p.entries[position{lead, level}]; ok {
						field.Period = time.Duration(e.Interval)
					}
					if field.Period != 0 && period != 0 && field.Period != period {
						return nil, badRequest("a NetCDF file has values over intervals of one length, not of " + period.String() + " and " + field.Period.String() + ": ask for one datetime, for fewer parameters, or for " + coverageJSON)
					}
					period = max(period, field.Period)
					out = append(out, field)
				}
			}
		}
	}
	return out, nil
}
