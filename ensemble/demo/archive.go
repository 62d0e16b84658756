package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Archive is a synthetic archive of hindcasts and analyses with the file layout of an operational
// archive: one set of files per calendar day with the initialisation times of all years, and one set
// per month for the analyses. The messages are GRIB edition 1 with local sections of ECMWF.
type Archive struct {
	Seed        uint64
	Days        []ArchiveDay
	Months      []ArchiveMonth
	Leads       []ensemble.Lead
	Members     int // all perturbed
	FirstMember int
	Grid        *ensemble.Grid // regular, on latitudes and longitudes
	Threads     int            // number of parallel writers; 0 means GOMAXPROCS. The result does not depend on it
	// Progress, if it is not nil, is called when a stage begins, and then by all writers: "integrate" counts cycles of the
	// assimilation, "write" fields.
	Progress func(stage string, done, all int)
}

// report calls Progress.
func (a *Archive) report(stage string, done, all int) {
	if a.Progress != nil {
		a.Progress(stage, done, all)
	}
}

// fieldCount returns the number of fields of all files.
func (a *Archive) fieldCount() (n int) {
	count := func(files []ArchiveFile, states int) {
		for _, f := range files {
			n += states * len(f.Levels) * len(f.Variables)
		}
	}
	for _, d := range a.Days {
		count(d.Files, len(d.Inits)*len(a.Leads)*a.Members)
	}
	for _, m := range a.Months {
		count(m.Files, len(m.ValidTimes))
	}
	return n
}

// ArchiveDay contains the hindcasts of one calendar day.
type ArchiveDay struct {
	Reference time.Time // initialisation time of the real-time forecast of these hindcasts
	Inits     []ensemble.Init
	Files     []ArchiveFile
}

// ArchiveMonth contains the analyses of one month. Each valid time is a valid time of a hindcast.
type ArchiveMonth struct {
	ValidTimes []ensemble.Valid
	Files      []ArchiveFile
}

// ArchiveFile is a file with all its variables at all its levels. The order of messages is
// initialisation time, lead time, member, level, variable.
type ArchiveFile struct {
	Path      string
	Variables []string
	Levels    []ensemble.Level
}

// Write writes the files. Their folders must exist. The result depends on the Archive only.
//
// Memory: about 100 kB per initialisation time, and the fields of one case per thread. Errors:
// invalid initialisation times; write errors; ctx.Err(). Finished files are kept.
func (a Archive) Write(ctx context.Context) error {
	cfg := Config{Seed: a.Seed, Leads: a.Leads, Members: a.Members + 1} // plus the control member, which is not written
	at := map[ensemble.Init]int{}
	for _, d := range a.Days {
		for _, s := range d.Inits {
			cfg.InitTimes = append(cfg.InitTimes, s.Time)
		}
	}
	slices.SortFunc(cfg.InitTimes, time.Time.Compare)
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return err
	}
	for i, t := range cfg.InitTimes {
		at[ensemble.InitAt(t)] = i
	}
	w := newWorld(cfg)
	w.progress = func(done, all int) { a.report("integrate", done, all) }
	if err := w.runHistory(ctx); err != nil {
		return err
	}
	if a.Threads == 0 {
		a.Threads = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(a.Threads)
	var done atomic.Int64
	all := a.fieldCount()
	a.report("write", 0, all)
	wrote := func(fields int) { a.report("write", int(done.Add(int64(fields))), all) }
	for _, d := range a.Days {
		g.Go(func() error { return a.writeDay(ctx, w, at, d, wrote) })
	}
	for _, m := range a.Months {
		g.Go(func() error { return a.writeMonth(ctx, w, m, wrote) })
	}
	return g.Wait()
}

// archiveWriter contains the open files of a day or a month. The two slices grow together while
// writeFiles opens the files.
type archiveWriter struct {
	files []ArchiveFile
	out   []*bufio.Writer
	wrote func(fields int)
}

// writeFiles creates files, calls fill to write them, and renames them to their final names. It
// recurses once for each file, because atomicfile.Write keeps a file open during its callback: all
// are open when fill runs, and none gets its final name if fill has an error.
func writeFiles(of []ArchiveFile, done *archiveWriter, fill func(*archiveWriter) error) error {
	if len(done.files) == len(of) {
		return fill(done)
	}
	f := of[len(done.files)]
	return exit.CreateError(f.Path, atomicfile.Write(f.Path, func(out io.Writer) error {
		b := bufio.NewWriterSize(out, 1<<20)
		done.files, done.out = append(done.files, f), append(done.out, b)
		if err := writeFiles(of, done, fill); err != nil {
			return err
		}
		return b.Flush()
	}))
}

// writeFields appends all fields of the current state to the files. values and message are buffers
// that each field overwrites.
func (f *archiveWriter) writeFields(w *diagnostics, grid *ensemble.Grid, values []float32, message []byte, init time.Time, leadHours int, m marsKeys) error {
	for i, file := range f.files {
		for _, l := range file.Levels {
			for _, name := range file.Variables {
				v, _ := ensemble.VariableNamed(name)
				if err := w.field(values, name, l.ForVariable(name)); err != nil {
					return err
				}
				if _, err := f.out[i].Write(encodeGRIB1(message[:0], grid, v, l.ForVariable(name), init, leadHours, m, values)); err != nil {
					return err
				}
			}
		}
		f.wrote(len(file.Levels) * len(file.Variables))
	}
	return nil
}

// writeDay writes the hindcasts of a calendar day. at gives the position of an initialisation time
// in the archive.
//
// Forecasts are computed member by member and written lead by lead, so the states of all members and
// leads of one initialisation are in memory. Precipitation accumulates from the initialisation, in
// each interval at the rate of its end.
func (a Archive) writeDay(ctx context.Context, world *world, at map[ensemble.Init]int, d ArchiveDay, wrote func(fields int)) error {
	f, w := world.newForecaster(), newDiagnostics(world.planet, a.Grid)
	values, message := make([]float32, a.Grid.Size()), make([]byte, 0, 3*a.Grid.Size()+256)
	states := make([][]state, len(a.Leads)) // [lead][member]
	tp, cp := make([][]float64, a.Members), make([][]float64, a.Members)
	for l := range states {
		states[l] = make([]state, a.Members)
	}
	for m := range a.Members {
		tp[m], cp[m] = make([]float64, npoint), make([]float64, npoint)
	}
	return writeFiles(d.Files, &archiveWriter{wrote: wrote}, func(out *archiveWriter) error {
		for _, init := range d.Inits {
			if err := ctx.Err(); err != nil {
				return err
			}
			i, ok := at[init]
			if !ok {
				return fmt.Errorf("demo: initialisation time %s is not in the archive", init)
			}
			f.run(i, func(m, l int, psi *state) {
				if m > 0 {
					states[l][m-1] = *psi
				}
			})
			before := ensemble.Lead(0)
			for l, lead := range a.Leads {
				for m := range a.Members {
					w.set(&states[l][m], float64(init.YearDay()), lead.Hours()/24)
					if l == 0 {
						clear(tp[m])
						clear(cp[m])
					}
					w.addPrecipitation(tp[m], cp[m], (lead-before).Hours()/24)
					w.tp, w.cp = tp[m], cp[m]
					err := out.writeFields(w, a.Grid, values, message, init.Time, int(lead.Hours()),
						marsKeys{classOperational, typePerturbed, streamHindcast, 145, a.FirstMember + m, a.Members + 1, d.Reference})
					if err != nil {
						return err
					}
				}
				before = lead
			}
		}
		return nil
	})
}

// writeMonth writes the analyses of a month: states of the nature run.
func (a Archive) writeMonth(ctx context.Context, world *world, d ArchiveMonth, wrote func(fields int)) error {
	w := newDiagnostics(world.planet, a.Grid)
	values, message := make([]float32, a.Grid.Size()), make([]byte, 0, 3*a.Grid.Size()+256)
	return writeFiles(d.Files, &archiveWriter{wrote: wrote}, func(out *archiveWriter) error {
		for _, valid := range d.ValidTimes {
			if err := ctx.Err(); err != nil {
				return err
			}
			q := world.natureAt(valid)
			if q == nil {
				return fmt.Errorf("demo: %s is not the valid time of a hindcast", valid)
			}
			var psi state
			world.natural.streamfunction(&psi, q)
			w.set(&psi, float64(valid.YearDay()), 0)
			if err := out.writeFields(w, a.Grid, values, message, valid.Time, 0,
				marsKeys{classERA5, typeAnalysis, streamAnalysis, 143, int(ensemble.NoMember), 0, time.Time{}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// natureAt returns the nature run at the valid time of a hindcast, or nil for other times.
//
// Cost: linear in the number of initialisations and leads.
func (w *world) natureAt(valid ensemble.Valid) *state {
	for i, t := range w.cfg.InitTimes {
		for l, lead := range w.cfg.Leads {
			if valid.Equal(t.Add(time.Duration(lead))) {
				return &w.nature[i][l]
			}
		}
	}
	return nil
}
