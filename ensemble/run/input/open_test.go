package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Ranks that got the index from rank 0 have its catalogue and read the same values, of every format.
func TestOpenTogether(t *testing.T) {
	demo := demotest.Files(t)
	stores, err := filepath.Glob(filepath.Join(testdata.Unzip(t, "../../../io/testdata/zarr.zip"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string][]string{"GRIB": demo.GRIB2[:2], "NetCDF": demo.NetCDF[:2], "analyses": demo.Analyses}
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	o := fio.Options{Pool: pool}
	real := "../../../../shared/data/formats/" // grid mappings, several fields in a message
	for _, f := range append([]string{real + "grib2/multi_field_uv.grib2", real + "grib2/complex_lambert.grib2", real + "grib2/reduced_gg.grib2"}, stores...) {
		if in, err := fio.Open(context.Background(), []string{f}, o); err == nil && len(sets) < 9 {
			in.Close()
			sets[f] = []string{f}
		}
	}
	if len(sets) < 6 {
		t.Errorf("inputs %v", sets)
	}
	for name, files := range sets {
		alone, err := fio.Open(context.Background(), files, o)
		if err != nil {
			t.Fatal(err)
		}
		defer alone.Close()
		if err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
			in, err := OpenerOf(team.New(c), nil)(context.Background(), files, o)
			if err != nil {
				return err
			}
			defer in.Close()
			return sameInput(in, alone)
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sameInput compares catalogues and the values of some fields.
func sameInput(in, want *fio.Input) error {
	got, own := in.Catalogue(), want.Catalogue()
	if len(got.Entries) != len(own.Entries) || got.Messages != own.Messages || !slices.Equal(got.Warnings, own.Warnings) || !reflect.DeepEqual(got.Unused, own.Unused) {
		return fmt.Errorf("%d entries, %d messages, warnings %q; want %d, %d, %q", len(got.Entries), got.Messages, got.Warnings, len(own.Entries), own.Messages, own.Warnings)
	}
	grids := map[*ensemble.Grid]*ensemble.Grid{}
	for i, g := range got.Entries {
		w := own.Entries[i]
		k, l := *g.Kind, *w.Kind
		if o := grids[k.Grid]; o != nil && o != l.Grid {
			return fmt.Errorf("%s: two grids are one", g.Key)
		}
		grids[k.Grid] = l.Grid
		if !k.Grid.SameAs(l.Grid, 0) || fmt.Sprintf("%#v", k.Grid.Mapping) != fmt.Sprintf("%#v", l.Grid.Mapping) || k.Grid.Source != l.Grid.Source {
			return fmt.Errorf("%s: grid %+v, want %+v", g.Key, k.Grid, l.Grid)
		}
		k.Grid, l.Grid, g.Kind, w.Kind = nil, nil, nil, nil
		if k != l || g != w || in.Conversion(got.Entries[i]) != want.Conversion(own.Entries[i]) {
			return fmt.Errorf("entry %+v of %+v, want %+v of %+v", g, k, w, l)
		}
	}
	for i := 0; i < len(got.Entries); i += 1 + len(got.Entries)/7 {
		g, err := in.ReadOne(context.Background(), got.Entries[i])
		w, wrong := want.ReadOne(context.Background(), own.Entries[i])
		if wrong != nil {
			if err == nil {
				return fmt.Errorf("%s is read, want %w", got.Entries[i].Key, wrong)
			}
			continue
		}
		if err != nil {
			return err
		}
		if !equalValues(g.Values, w.Values) {
			return fmt.Errorf("%s has other values", g.Key)
		}
	}
	return nil
}

// An error of rank 0, and of another rank before or after it, is that of all ranks.
func TestOpenTogetherFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.grib2")
	text, err := os.ReadFile(demotest.Files(t).GRIB2[0])
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	failed := &exit.Error{Code: exit.BadData, What: "rank 1 failed before"}
	for name, c := range map[string]struct {
		do   func(ranks *team.Team, rank int) error
		code exit.Code
	}{
		"absent": {func(ranks *team.Team, _ int) error {
			_, err := OpenerOf(ranks, nil)(context.Background(), []string{file + ".no"}, fio.Options{})
			return err
		}, exit.NotYet},
		"before": {func(ranks *team.Team, rank int) error {
			if rank == 1 {
				return ranks.AgreeOnError(failed)
			}
			_, err := OpenerOf(ranks, nil)(context.Background(), []string{file}, fio.Options{})
			return err
		}, exit.BadData},
	} {
		errs := make([]error, 2)
		if err := comm.Run(2, comm.Parallel, func(g *comm.Comm) error {
			errs[g.Rank()] = c.do(team.New(g), g.Rank())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for rank, err := range errs {
			if exit.CodeOf(err) != c.code || !team.IsAgreed(err) {
				t.Errorf("%s, rank %d: %v, want code %d on all ranks", name, rank, err, c.code)
			}
		}
	}
	// The file is replaced between the index and its opening on another rank.
	in, err := fio.Open(context.Background(), []string{file}, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	index := in.Index()
	in.Close()
	if err := os.Chtimes(file, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	var e *exit.Error
	if _, err := fio.OpenIndexed(index, fio.Options{}); !errors.As(err, &e) || e.Code != exit.NotYet || e.At != file {
		t.Errorf("another file: %v", err)
	}
}
