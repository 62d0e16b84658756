package selftest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/conformance"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/version"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// processor reports the processor.
func (s *installation) processor(context.Context) (string, error) {
	cpu := cpuinfo.Read()
	return fmt.Sprintf("%s, %d cores, %s", doctor.OrUnknown(cpu.Model), cpu.Cores, doctor.OrUnknown(strings.Join(cpu.Features, " "))), nil
}

// kernels compares all operations of the engine on this processor with float64 reference kernels.
func (s *installation) kernels(ctx context.Context) (string, error) {
	dev, err := engine.Backends[0].Open(engine.Options{Device: engine.Device{Threads: cmp.Or(s.Threads, runtime.GOMAXPROCS(0))}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}})
	if err != nil {
		return "", err
	}
	defer dev.Close()
	found, err := conformance.Compare(dev, ctx.Err)
	if err != nil {
		return "", err
	}
	if n := len(found.Wrong); n > 0 {
		return "", fmt.Errorf("%d of %d kernels differ from the reference, the first: %s", n, found.Kernels, found.Wrong[0])
	}
	text := fmt.Sprintf("%d kernels of %d operations agree with the float64 reference", found.Kernels-len(found.Refused), found.Operations)
	for _, r := range found.Refused {
		if !errors.Is(r, dnnl.ErrUnavailable) {
			return "", fmt.Errorf("a kernel is missing: %w", r)
		}
	}
	if n := len(found.Refused); n > 0 {
		text += fmt.Sprintf("; %d more need oneDNN", n)
	}
	return text, nil
}

// oneDNN multiplies two matrices with the library.
func (s *installation) oneDNN(context.Context) (string, error) {
	info, err := dnnl.Open()
	if err != nil {
		return "", missing(err)
	}
	const m, n, k = 33, 18, 71
	a, b, c := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for i := range a {
		a[i] = float32(math.Sin(float64(i)))
	}
	for i := range b {
		b[i] = float32(math.Cos(float64(i)))
	}
	if err := dnnl.SGEMM(m, n, k, a, b, c, 1); err != nil {
		return "", err
	}
	for i := range m {
		for j := range n {
			var sum float64
			for q := range k {
				sum += float64(a[i*k+q]) * float64(b[q*n+j])
			}
			if got := float64(c[i*n+j]); !(math.Abs(got-sum) <= 1e-4) {
				return "", fmt.Errorf("element %d, %d of a product is %g, want %g", i, j, got, sum)
			}
		}
	}
	return info.Version + "  " + info.Path, nil
}

// missing gives an error without exit code the exit code of a missing library.
func missing(err error) error {
	if exit.CodeOf(err) == exit.NoDevice {
		return err
	}
	why, fix := exit.Reason(err)
	return &exit.Error{Code: exit.NoDevice, What: why, Fix: fix, Err: err}
}

// decoder starts the decoding program and queries its libraries.
func (s *installation) decoder(ctx context.Context) (string, error) {
	path, err := decode.FindProgram()
	if err != nil {
		return "", err
	}
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return "", err
	}
	libraries, err := pool.Libraries(ctx)
	if err != nil {
		pool.Close()
		return "", missing(err) // the dynamic loader, if a library is missing
	}
	sandbox, err := pool.Sandbox(ctx)
	if err != nil {
		pool.Close()
		return "", err
	}
	s.pool = pool
	names := []string{"sandbox " + sandbox}
	for name, v := range libraries {
		names = append(names, name+" "+v)
	}
	slices.Sort(names)
	return path + ": " + strings.Join(names, ", "), nil
}

// grib writes an ensemble as GRIB2 with two packings and reads it back.
func (s *installation) grib(ctx context.Context) (string, error) {
	var used []string
	for _, packing := range []string{"grid_ccsds", "grid_simple"} {
		path := filepath.Join(s.work, packing+".grib2")
		n, err := s.roundTrip(ctx, path, func(f *ensemble.Forecast) error {
			return product.WriteEnsembleGRIB2(ctx, s.pool, path, f, product.Options{Packing: packing})
		}, 0x1p-16)
		if err != nil {
			return "", fmt.Errorf("%s: %w", packing, err)
		}
		used = append(used, fmt.Sprintf("%d messages of %s", n, packing))
	}
	return strings.Join(used, ", ") + " written and read", nil
}

// netCDF writes an ensemble as NetCDF and reads it back.
func (s *installation) netCDF(ctx context.Context) (string, error) {
	path := filepath.Join(s.work, "ensemble.nc")
	n, err := s.roundTrip(ctx, path, func(f *ensemble.Forecast) error {
		return product.WriteEnsembleNetCDF(ctx, s.pool, path, f, product.Metadata{Title: "self-test", Source: "ensemble self-test"}, product.Options{})
	}, 0)
	return fmt.Sprintf("%d fields written and read to the same bits", n), err
}

// roundTrip writes fields, reads them back and compares. tolerance is relative to the range of
// values, 40 K.
func (s *installation) roundTrip(ctx context.Context, path string, write func(*ensemble.Forecast) error, tolerance float64) (fields int, err error) {
	if s.pool == nil {
		return 0, errSkip
	}
	start := ensemble.Init{Time: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)}
	axes := ensemble.Axes{Variables: []string{"t"}, Levels: demo.Levels, Leads: []ensemble.Lead{ensemble.Lead(24 * time.Hour)}}
	f := ensemble.NewForecast(start, axes, []ensemble.Member{0, 1, 2}, demo.Grid())
	for i := range f.Values {
		f.Values[i] = 273 + float32(20*math.Sin(float64(i)/17))
	}
	if err := write(f); err != nil {
		return 0, err
	}
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: s.pool})
	if err != nil {
		return 0, err
	}
	defer in.Close()
	entries := in.Catalogue().Entries
	if want := len(f.Members) * axes.Fields(); len(entries) != want {
		return 0, fmt.Errorf("found %d fields, wrote %d", len(entries), want)
	}
	err = in.Read(ctx, entries, func(i int, got *ensemble.Field) error {
		e := entries[i]
		m, l := slices.Index(f.Members, e.Member), slices.Index(axes.Levels, e.Level)
		if m < 0 || l < 0 {
			return fmt.Errorf("field %s was not written", e.Key)
		}
		for j, want := range f.Field(0, m, 0, l) {
			if d := math.Abs(float64(got.Values[j] - want)); !(d <= tolerance*40) {
				return fmt.Errorf("point %d of %s: read %g, wrote %g", j, e.Key, got.Values[j], want)
			}
		}
		return nil
	})
	return len(entries), err
}

// mpi loads the MPI libraries. It does not initialise them, which would need a launcher.
func (s *installation) mpi(context.Context) (string, error) {
	var found, absent []string
	for _, l := range doctor.MPIs() {
		if l.Found {
			found = append(found, strings.TrimSpace(l.Name+" "+l.Version))
		} else {
			absent = append(absent, l.Name+": "+l.Why)
		}
	}
	if len(found) == 0 {
		return "", &exit.Error{Code: exit.NoDevice, What: strings.Join(absent, "; ")}
	}
	return strings.Join(found, ", ") + " loaded; test ranks with `mpirun -n 2 ensemble bench --check-parallel`", nil
}

// gpu queries the driver. It runs no kernel, as the GPU may be in use.
func (s *installation) gpu(context.Context) (string, error) {
	inv, err := cuda.Inspect()
	if err != nil {
		return "", &exit.Error{Code: exit.NoDevice, What: err.Error(), Err: err}
	}
	if len(inv.Devices) == 0 {
		return "", &exit.Error{Code: exit.NoDevice, What: "the driver reports no GPU"}
	}
	return fmt.Sprintf("%d GPUs, driver %s; not tested, use `ensemble bench --device cuda`", len(inv.Devices), inv.Driver), nil
}

// replacement replaces a file repeatedly while another goroutine reads it. Each read must return one
// complete version (atomic rename), and fsync of file and directory must work.
func (s *installation) replacement(ctx context.Context) (string, error) {
	path := filepath.Join(s.work, "replaced")
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 10_000) }
	if err := atomicfile.WriteFile(path, content(0)); err != nil {
		return "", err
	}
	var ended atomic.Bool
	reader := make(chan error, 1)
	go func() {
		for !ended.Load() {
			text, err := filesystem.ReadFile(path)
			if err == nil && (len(text) != 10_000 || !bytes.Equal(text, content(int(text[0])))) {
				err = fmt.Errorf("a reader got %d bytes that are neither the old nor the new version", len(text))
			}
			if err != nil {
				reader <- err
				return
			}
		}
		reader <- nil
	}()
	const rounds = 100
	began := time.Now()
	var err error
	for i := 1; i <= rounds && err == nil && ctx.Err() == nil; i++ {
		err = atomicfile.WriteFile(path, content(i))
	}
	each := time.Since(began) / rounds
	ended.Store(true)
	if err := errors.Join(err, <-reader); err != nil {
		return "", err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.work, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d atomic replacements, %.1f ms each with fsync; %.1f GiB free", rounds, 1e3*each.Seconds(), float64(int64(st.Bavail)*st.Bsize)/(1<<30)), nil
}

// locks tests exclusive creation of files and flock.
func (s *installation) locks(context.Context) (string, error) {
	path := filepath.Join(s.work, "lock")
	first, err := filesystem.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
	if err != nil {
		return "", err
	}
	defer first.Close()
	if again, err := filesystem.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666); err == nil {
		again.Close()
		return "", errors.New("O_EXCL created an existing file")
	}
	second, err := filesystem.Open(path)
	if err != nil {
		return "", err
	}
	defer second.Close()
	if err := filesystem.Flock(first, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return "", fmt.Errorf("no file locks: %w; concurrent runs are prevented by leases only", err)
	}
	if err := filesystem.Flock(second, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return "", fmt.Errorf("a locked file was locked again: %v", err)
	}
	if err := filesystem.Flock(first, unix.LOCK_UN); err != nil {
		return "", err
	}
	if err := filesystem.Flock(second, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return "", fmt.Errorf("a released lock cannot be acquired: %w", err)
	}
	return "flock and exclusive creation work", nil
}

// demoDigests are the first bytes of the SHA-256 of the first ensemble, by GOARCH: fused multiply-add
// changes the rounding.
var demoDigests = map[string]string{"amd64": "24c80902c4c9506a"}

// demoData generates the data of the small job and checks the digest of the first ensemble.
func (s *installation) demoData(ctx context.Context) (string, error) {
	if s.pool == nil {
		return "", errSkip
	}
	data := filepath.Join(s.work, "data")
	if err := filesystem.Mkdir(data, 0o777); err != nil {
		return "", err
	}
	w := &firstDigest{Encoder: demo.Encoder{Pool: s.pool}}
	files, err := demo.Write(ctx, demo.Config{Inits: 20, Interval: 28 * 24 * time.Hour, Members: 4, Threads: s.Threads}, data, demo.GRIB2, w, nil)
	if err != nil {
		return "", err
	}
	if err := filesystem.WriteFile(filepath.Join(data, "train.yaml"), []byte(miniature), 0o666); err != nil {
		return "", err
	}
	s.files = files
	switch want, known := demoDigests[runtime.GOARCH]; {
	case !known:
		return "digest " + w.digest + "; none is recorded for " + runtime.GOARCH, nil
	case w.digest != want:
		return "", fmt.Errorf("digest %s, want %s", w.digest, want)
	}
	return "digest " + w.digest + " as recorded", nil
}

// firstDigest is a demo.Writer that also computes the digest of the first ensemble.
type firstDigest struct {
	demo.Encoder
	digest string
}

// WriteEnsembleGRIB2 implements demo.Writer.
func (w *firstDigest) WriteEnsembleGRIB2(ctx context.Context, path string, f *ensemble.Forecast) error {
	if w.digest == "" {
		h := sha256.New()
		if err := binary.Write(h, binary.LittleEndian, f.Values); err != nil {
			return err
		}
		w.digest = fmt.Sprintf("%x", h.Sum(nil)[:8])
	}
	return w.Encoder.WriteEnsembleGRIB2(ctx, path, f)
}

// miniature is the configuration of the small job; it trains in about a second.
const miniature = `version: 1
data:
  forecasts: [demo_fc_*.grib2]
  analyses: [demo_an_*.nc]
  members: {use: 3, full: 4, sampling: random}
  leads: [0h, 24h, 48h]
  target_lead: 48h
  levels: [850hPa, 500hPa]
  variables: [t, gh]
  targets: [{variable: t, levels: [850hPa]}]
  split: {fractions: {train: 0.7, validation: 0.15}}
baselines: [climatology, emos]
model: {base: 2, stages: 1, dropout: 0.1}
train: {epochs: 4, batch_size: 4, learning_rate: 0.003, loss: {kind: crps, spread: 1}, threads: 1, early_stop: {patience: 0}}
`

// recordedScores are the expected CRPS of 850 hPa temperature at 48 h in K, with relative tolerances for
// the rounding of other processors. Raw members vary only by GRIB packing; the network amplifies
// rounding over its training steps (AVX2 and AVX-512 kernels differ by less than 1e-4).
var recordedScores = []struct {
	system          string
	crps, tolerance float64
}{
	{"raw3", 0.62994, 1e-4},
	{"emos", 0.60006, 1e-3},
	{"network", 0.59242, 0.005},
}

// miniatureJob trains on the synthetic data, predicts the last initialisations and verifies the products. Scores
// of training and verification must agree.
func (s *installation) miniatureJob(ctx context.Context) (string, error) {
	if s.files == nil {
		return "", errSkip
	}
	runDir, out := filepath.Join(s.work, "run"), filepath.Join(s.work, "products")
	c, err := config.LoadTrain(config.Sources{Files: []string{filepath.Join(s.work, "data", "train.yaml")}})
	if err != nil {
		return "", err
	}
	trained, err := train.Run(ctx, train.Options{Config: c, RunDir: runDir, Version: version.String()})
	if err != nil {
		return "", err
	}
	test := s.files.GRIB2[17:]
	p, err := predict.Run(ctx, predict.Options{RunDir: runDir, Input: test, Out: out, Formats: []product.Format{product.NetCDF}, Threads: s.Threads, Version: version.String()})
	if err != nil {
		return "", err
	}
	var products []string
	for _, o := range p.Outputs {
		if strings.HasSuffix(o, ".nc") {
			products = append(products, o)
		}
	}
	o := verify.Options{Forecast: products, Analysis: s.files.Analyses, Members: test}
	o.Bootstrap.Resamples = 1
	verified, err := verify.Run(ctx, o)
	if err != nil {
		return "", err
	}
	var detail, off []string
	for _, want := range recordedScores {
		t := trained.Scores.Find("crps_gauss", want.system, "t", "850hPa", "48h")
		v := verified.Scores.Find("crps_gauss", want.system, "t", "850hPa", "48h")
		if t == nil || v == nil {
			return "", fmt.Errorf("no CRPS of %s", want.system)
		}
		got := float64(v.Value)
		if d := math.Abs(got - float64(t.Value)); !(d <= 1e-5*got+1e-6) {
			return "", fmt.Errorf("CRPS of %s is %g in verification, %g in training", want.system, got, t.Value)
		}
		if d := math.Abs(got - want.crps); !(d <= want.tolerance*want.crps) {
			off = append(off, fmt.Sprintf("%.5g K of %s, want %.5g ± %.2g", got, want.system, want.crps, want.tolerance*want.crps))
		}
		detail = append(detail, fmt.Sprintf("%s %.4f", want.system, got))
	}
	if off != nil {
		return "", fmt.Errorf("CRPS is %s", strings.Join(off, "; "))
	}
	return "CRPS, K: " + strings.Join(detail, ", ") + "; as expected", nil
}
