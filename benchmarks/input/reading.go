package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/measure"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// The files of grib_peers.py, and ours for the inventory.
const (
	simpleFile    = "grid_simple.grib2"
	ccsdsFile     = "grid_ccsds.grib2"
	netcdfFile    = "nc4.nc"
	datedFile     = "nc4_dated.nc" // the same with coordinates
	inventoryFile = "inventory.grib2"
)

// reading measures the cases that read files.
func (o options) reading(ctx context.Context, t *table, log io.Writer) error {
	loop := filepath.Join(o.dir, "loop")
	if _, err := output(ctx, "gcc", "-O3", "-march=native", "-o", loop, filepath.Join("benchmarks", "input", "eccodes", "loop.c"), "-leccodes", "-lm"); err != nil {
		return err
	}
	if err := o.files(ctx, loop, log); err != nil {
		return err
	}
	pool, err := decode.NewPool(decode.Options{Program: o.decoder})
	if err != nil {
		return err
	}
	defer pool.Close()
	py, err := startPython(ctx, o.python)
	if err != nil {
		fmt.Fprintf(log, "input: cfgrib and netCDF4 are left out: %v\n", err)
	} else {
		defer py.close()
		t.notes = append(t.notes, "Peers: "+py.versions)
	}
	m := &measuring{ctx: ctx, pool: pool, loop: loop, python: py, rounds: o.rounds, log: log}
	cases := strings.Split(o.cases, ",")
	path := func(name string) string { return filepath.Join(o.dir, name) }
	if slices.Contains(cases, "grib") {
		if err := m.grib(t, "simple packing, 16 bits", path(simpleFile), 3, 40); err != nil {
			return err
		}
		if err := m.grib(t, "CCSDS, 16 bits", path(ccsdsFile), 1.7, 7); err != nil {
			return err
		}
	}
	if slices.Contains(cases, "netcdf") && py != nil {
		if _, err := py.ask("dated", path(datedFile)); err != nil {
			return err
		}
		if err := m.netcdf(t, path(datedFile), 1.7); err != nil {
			return err
		}
	}
	if slices.Contains(cases, "inventory") && py != nil {
		return m.inventory(t, path(inventoryFile), o.messages, 20)
	}
	return nil
}

// files makes the input that is not there yet.
func (o options) files(ctx context.Context, loop string, log io.Writer) error {
	absent := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, err := os.Stat(filepath.Join(o.dir, n)); return err != nil })
	}
	if absent(simpleFile, ccsdsFile, netcdfFile) {
		script := filepath.Join(o.peers, "grib_peers.py")
		if _, err := os.Stat(script); err != nil {
			return fmt.Errorf("no files to read: %w (name the folder of the peers with -peers)", err)
		}
		out, err := output(ctx, o.python, script, "--dir", o.dir, "--reps", "3", "--members", fmt.Sprint(o.members), "--steps", fmt.Sprint(o.steps))
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "%s", out)
	}
	if absent(inventoryFile) {
		if _, err := output(ctx, loop, "make", filepath.Join(o.dir, inventoryFile), fmt.Sprint(o.messages), "180", "91", "16"); err != nil {
			return err
		}
	}
	return nil
}

// measuring is what the cases share.
type measuring struct {
	ctx    context.Context
	pool   *decode.Pool
	loop   string
	python *python
	rounds int
	log    io.Writer
}

// fill opens a file and reads all its fields.
func (m *measuring) fill(path string, into *[][]float32) (open, read time.Duration, err error) {
	begin := time.Now()
	in, err := fio.Open(m.ctx, []string{path}, fio.Options{Pool: m.pool})
	if err != nil {
		return 0, 0, err
	}
	defer in.Close()
	open = time.Since(begin)
	entries := in.Catalogue().Entries
	for i := len(*into); i < len(entries); i++ {
		*into = append(*into, make([]float32, entries[i].Grid.Size()))
	}
	begin = time.Now()
	err = in.Fill(m.ctx, entries, ensemble.Window{}, func(i int) ([]float32, error) { return (*into)[i], nil }, func(int) error { return nil })
	return open, time.Since(begin), err
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return 1e3 * d.Seconds() }

// each is the time of one of n fields in microseconds.
func each(d time.Duration, n int) float64 { return 1e6 * d.Seconds() / float64(n) }

// grib measures a GRIB file beside ecCodes in C and cfgrib.
func (m *measuring) grib(t *table, name, path string, beside, besideLoad float64) error {
	var into [][]float32
	if _, _, err := m.fill(path, &into); err != nil { // children start, pages are mapped
		return err
	}
	n := len(into)
	var read, both, loop, load measure.Series
	for range m.rounds {
		o, r, err := m.fill(path, &into)
		if err != nil {
			return err
		}
		read, both = append(read, each(r, n)), append(both, each(o+r, n))
		out, err := output(m.ctx, m.loop, "read", path, "1")
		if err != nil {
			return err
		}
		var answer struct {
			Fields  int
			Seconds []float64
		}
		if err := json.Unmarshal(out, &answer); err != nil || answer.Fields != n {
			return fmt.Errorf("the loop read %d fields of %d: %v", answer.Fields, n, err)
		}
		loop = append(loop, 1e6*answer.Seconds[0]/float64(n))
		if m.python != nil {
			s, err := m.python.ask("cfgrib_load", path)
			if err != nil {
				return err
			}
			load = append(load, 1e6*s/float64(n))
		}
	}
	t.rows = append(t.rows, row{name + ", read", "µs a field", read, []peerSeries{{"ecCodes in C, one thread", loop, beside}}})
	if load != nil {
		t.rows = append(t.rows, row{name + ", open and read", "µs a field", both, []peerSeries{{"cfgrib", load, besideLoad}}})
	}
	return nil
}

// netcdf measures a NetCDF-4 file beside netCDF4-python.
func (m *measuring) netcdf(t *table, path string, want float64) error {
	var into [][]float32
	if _, _, err := m.fill(path, &into); err != nil {
		return err
	}
	n := len(into)
	if n == 0 {
		return fmt.Errorf("%s: no fields", path)
	}
	var ours, theirs measure.Series
	for range m.rounds {
		o, r, err := m.fill(path, &into)
		if err != nil {
			return err
		}
		s, err := m.python.ask("netcdf4", path)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, each(o+r, n)), append(theirs, 1e6*s/float64(n))
	}
	t.rows = append(t.rows, row{"NetCDF-4, deflate 1, shuffled, open and read", "µs a field", ours, []peerSeries{{"netCDF4-python", theirs, want}}})
	return nil
}

// inventory measures the opening of many messages, and what the catalogue takes.
func (m *measuring) inventory(t *table, path string, messages int, want float64) error {
	var ours, theirs measure.Series
	var bytes float64
	for range m.rounds {
		before := heap()
		begin := time.Now()
		in, err := fio.Open(m.ctx, []string{path}, fio.Options{Pool: m.pool})
		if err != nil {
			return err
		}
		ours = append(ours, ms(time.Since(begin)))
		n := len(in.Catalogue().Entries)
		bytes = float64(heap()-before) / float64(n)
		in.Close()
		if n != messages {
			return fmt.Errorf("%s: %d fields, want %d", path, n, messages)
		}
		s, err := m.python.ask("cfgrib_open", path)
		if err != nil {
			return err
		}
		theirs = append(theirs, 1e3*s)
		fmt.Fprintf(m.log, "input: inventory %.0f ms, cfgrib %.0f ms\n", ours[len(ours)-1], 1e3*s)
	}
	t.rows = append(t.rows, row{fmt.Sprintf("inventory of %d messages", messages), "ms", ours, []peerSeries{{"cfgrib", theirs, want}}})
	t.notes = append(t.notes, fmt.Sprintf("The catalogue of an open input takes %.0f bytes a field.", bytes))
	return nil
}

// heap is what lives in memory.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first one may leave what a cleanup held
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// python is a running peers.py.
type python struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Scanner
	versions string
}

func startPython(ctx context.Context, program string) (*python, error) {
	p := &python{cmd: exec.CommandContext(ctx, program, filepath.Join("benchmarks", "input", "peers.py"))}
	p.cmd.Env = append(os.Environ(), "PYTHONWARNINGS=ignore")
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	if !p.out.Scan() {
		p.close()
		return nil, fmt.Errorf("%s does not start: %v", program, p.cmd.Wait())
	}
	p.versions = p.out.Text()
	return p, nil
}

// ask gives the seconds that a case takes.
func (p *python) ask(kind, path string) (float64, error) {
	if _, err := fmt.Fprintf(p.in, "%s %s\n", kind, path); err != nil {
		return 0, err
	}
	if !p.out.Scan() {
		return 0, fmt.Errorf("%s of %s: peers.py has ended", kind, path)
	}
	var answer struct{ Seconds float64 }
	err := json.Unmarshal(p.out.Bytes(), &answer)
	return answer.Seconds, err
}

func (p *python) close() {
	p.in.Close()
	p.cmd.Wait()
}
