//go:build long

package fio

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/io/cf"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/netcdf"
)

// peerField is a field as testdata/peers.py reads it.
type peerField struct {
	Name       string `json:"name"`
	Variable   string `json:"variable"`
	Known      bool   `json:"known"` // in ensemble.Variables
	Unit       string `json:"unit"`
	Native     string `json:"native"`
	Difference bool   `json:"difference"` // the unit has no offset
	Level      string `json:"level"`
	Product    string `json:"product"`
	Member     *int   `json:"member"`
	Init       string `json:"init"`
	Valid      string `json:"valid"`
	Statistic  string `json:"statistic"`
	Interval   int64  `json:"interval"` // s
	Offset     int64  `json:"offset"`   // of a GRIB message
	Sub        int    `json:"sub"`
	Group      string `json:"group"`
	Var        string `json:"var"`
	// Start and Counts are the slab of a NetCDF or Zarr variable.
	Start  []int64 `json:"start"`
	Counts []int64 `json:"count_of"`
	// At and Count are the place of the values in peerFile.Values, Place that of the latitudes in Places.
	At    int `json:"at"`
	Count int `json:"count"`
	Place int `json:"place"`
	Axes  int `json:"axes"` // place of y and x of a projection, in 1e5 m
}

// peerFile is a request to testdata/peers.py.
type peerFile struct {
	Path     string      `json:"path"`
	Format   string      `json:"format"`
	Messages int         `json:"messages"`
	Values   string      `json:"values"`
	Places   string      `json:"places"`
	Fields   []peerField `json:"fields"`
	Skipped  int         `json:"skipped"` // number of GRIB messages that the program lists as unused
	Whole    bool        `json:"whole"`   // cfgrib, which is slow, reads it too
}

// peerDifference is what one reader has and the program has not.
type peerDifference struct{ Tool, Field, What, Ours, Theirs string }

// peerReply is what testdata/peers.py found in a file.
type peerReply struct {
	Compared             map[string]int
	Differences, Without []peerDifference
}

// peers is the Python process of all readers.
type peers struct {
	in  *json.Encoder
	out *bufio.Reader
}

// startPeers starts testdata/peers.py, or skips the test.
func startPeers(t *testing.T) *peers {
	t.Helper()
	python := testdata.Python(t)
	if _, err := exec.LookPath("cdo"); err != nil {
		t.Skipf("skipped: no judge: %v", err)
	}
	cmd := exec.Command(python, "testdata/peers.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("skipped: no judge: %v", err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	p := &peers{json.NewEncoder(in), bufio.NewReaderSize(out, 1<<20)}
	var hello map[string]any
	if err := p.reply(&hello); err != nil {
		t.Skipf("skipped: no judge: the readers do not start: %v", err)
	}
	t.Logf("readers: %v", hello["tools"])
	return p
}

func (p *peers) reply(v any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// TestLongPeers compares every field of all real files and of the corpus with ecCodes, cfgrib, netCDF4, xarray, zarr and
// CDO: number, values at each place, times, interval, level, member and unit. A difference that peerExplanations does
// not have is an error, and so is an explanation without a difference.
func TestLongPeers(t *testing.T) {
	roots := map[string]string{"corpus": "testdata/field"}
	if root := testdata.Root(); root != "" {
		entries, err := os.ReadDir(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != "broken" { // TestBroken compares damaged files with reference_decoders.json
				roots[e.Name()] = filepath.Join(root, e.Name())
			}
		}
	} else {
		t.Log("no real data: neither ENSEMBLE_TEST_DATA nor ../shared/data exists; the corpus only")
	}
	p := startPeers(t)
	used, whole := map[int]int{}, map[string]int{}
	for _, set := range slices.Sorted(maps.Keys(roots)) {
		begin, files, fields, total := time.Now(), 0, 0, map[string]int{}
		for _, file := range readable(t, roots[set]) {
			name := filepath.ToSlash(filepath.Join(set, strings.TrimPrefix(file, roots[set])))
			job := peerJob(t, file)
			if job == nil {
				continue
			}
			job.Whole = whole[filepath.Dir(file)] < 3 || len(job.Fields) < 100
			whole[filepath.Dir(file)]++
			reply := peerReply{}
			if err := p.in.Encode(job); err != nil {
				t.Fatal(err)
			}
			if err := p.reply(&reply); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			files, fields = files+1, fields+len(job.Fields)
			for tool, n := range reply.Compared {
				total[tool] += n
			}
			var open []string
			for _, d := range append(reply.Differences, reply.Without...) {
				if k := explained(name, d); k >= 0 {
					used[k]++
					continue
				}
				open = append(open, fmt.Sprintf("%s: %s of %q: %s here, %s there", d.Tool, d.What, d.Field, d.Ours, d.Theirs))
			}
			for _, o := range slices.Compact(open)[:min(len(open), 5)] {
				t.Errorf("%s (%d fields, %d differences): %s", name, len(job.Fields), len(open), o)
			}
		}
		t.Logf("%s: %d files, %d fields in %.1f s, compared %v", set, files, fields, time.Since(begin).Seconds(), total)
	}
	for k, e := range peerExplanations {
		if used[k] == 0 && testdata.Root() != "" {
			t.Errorf("no difference is explained by %+v", e)
		}
	}
}

// readable lists the files and stores in a folder whose format is read.
func readable(t *testing.T, root string) (paths []string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains([]string{".py", ".md", ".json", ".csv", ".yaml", ".sh"}, filepath.Ext(path)) {
			return nil // texts may have the word GRIB
		}
		f, err := detect(path)
		if err != nil {
			return nil // a folder, or another format
		}
		if f.f != nil {
			f.f.Close()
		}
		paths = append(paths, path)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// peerJob reads all fields of a file and writes them for testdata/peers.py; nil if nothing is read.
func peerJob(t *testing.T, name string) *peerFile {
	t.Helper()
	ctx := context.Background()
	in, err := Open(ctx, []string{name}, Options{Pool: children(t), SkipBad: true, Static: true, Sparse: true})
	if err != nil {
		return nil
	}
	defer in.Close()
	name, err = filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	f := in.files[0]
	job := &peerFile{Path: name, Format: f.format.name, Messages: in.cat.Messages, Fields: []peerField{}}
	if f.format.name == "GRIB" {
		job.Skipped = len(in.cat.Unused)
	}
	var header cf.Header
	switch f.format.name {
	case "NetCDF":
		if err := in.pool.Do(ctx, decode.Call{Kind: netcdf.HeaderKind, File: name, Args: netcdf.HeaderRequest{Path: name}, Result: &header}); err != nil {
			return nil
		}
	case "Zarr":
		if f.zarr == nil {
			return nil
		}
		header = *f.zarr.Header()
	}
	var values, places []byte
	grids := map[*ensemble.Grid]int{}
	for _, e := range in.cat.Entries {
		field, err := in.ReadOne(ctx, e)
		if err != nil {
			continue // TestFormats has these
		}
		p := describePeerField(t, in, e, &header)
		p.At, p.Count = len(values)/4, len(field.Values)
		for _, v := range field.Values {
			values = binary.LittleEndian.AppendUint32(values, math.Float32bits(v))
		}
		at, ok := grids[e.Grid]
		if !ok {
			at = len(places) / 8
			grids[e.Grid] = at
			places = appendPlaces(places, e.Grid)
		}
		p.Place, p.Axes = at, at+2*e.Grid.Size()
		job.Fields = append(job.Fields, p)
	}
	dir := t.TempDir()
	job.Values, job.Places = filepath.Join(dir, "values"), filepath.Join(dir, "places")
	if err := errors.Join(os.WriteFile(job.Values, values, 0o644), os.WriteFile(job.Places, places, 0o644)); err != nil {
		t.Fatal(err)
	}
	return job
}

// describePeerField returns the metadata of a field and its place in the file.
func describePeerField(t *testing.T, in *Input, e ensemble.Entry, header *cf.Header) peerField {
	const layout = "2006-01-02T15:04:05"
	_, known := ensemble.VariableNamed(e.Variable)
	p := peerField{Name: e.String(), Variable: e.Variable, Known: known, Unit: e.Unit, Native: e.NativeUnit, Difference: e.Product == ensemble.Spread, Level: e.LevelText(), Product: e.Product.String(),
		Init: e.Init.Format(layout), Valid: e.Valid().Format(layout), Statistic: e.Statistic, Interval: int64(time.Duration(e.Interval) / time.Second), Offset: e.Offset, Sub: e.Sub}
	if e.Member != ensemble.NoMember {
		m := int(e.Member)
		p.Member = &m
	}
	fd, err := in.find(e)
	if err != nil {
		t.Fatal(err)
	}
	if fd.slab != nil {
		v := header.Vars[fd.slab.Var]
		p.Group, p.Var, p.Start, p.Counts = v.Group, v.Name, fd.slab.Start, fd.slab.Count
	}
	return p
}

// appendPlaces appends the latitudes of all points of a grid, then the longitudes.
func appendPlaces(b []byte, g *ensemble.Grid) []byte {
	for _, at := range []func(j, i int) float64{g.LatAt, g.LonAt} {
		for j := range g.NY {
			for i := range g.NX {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(at(j, i)))
			}
		}
	}
	if g.X != nil {
		for _, at := range []func(j, i int) float64{func(j, _ int) float64 { return g.Y[j] }, func(_, i int) float64 { return g.X[i] }} {
			for j := range g.NY {
				for i := range g.NX {
					b = binary.LittleEndian.AppendUint64(b, math.Float64bits(at(j, i)/1e5))
				}
			}
		}
	}
	return b
}
