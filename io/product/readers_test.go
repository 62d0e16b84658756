package product_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// judge is the Python process in which reference readers open our files, for all
// tests.
type judge struct {
	mu  sync.Mutex
	in  *json.Encoder
	out *bufio.Reader
}

// startJudge runs testdata/judge.py. It ends when the test binary closes its input.
var startJudge = sync.OnceValues(func() (*judge, error) {
	python, err := testdata.FindPython("xarray", "cfgrib", "netCDF4")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(python, "testdata/judge.py")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	j := &judge{in: json.NewEncoder(in), out: bufio.NewReader(out)}
	if err := j.reply(&struct{}{}); err != nil {
		return nil, fmt.Errorf("%s: %v %s", python, err, errs.String())
	}
	return j, nil
})

func (j *judge) reply(result any) error {
	line, err := j.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	var r struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return fmt.Errorf("%s", r.Error)
	}
	return json.Unmarshal(r.Result, result)
}

// needPython skips the test without a Python that has the readers.
func needPython(t testing.TB) *judge {
	t.Helper()
	j, err := startJudge()
	if err != nil {
		t.Skipf("skipped: no judge: %v", err)
	}
	return j
}

// ask opens a file in Python; a warning fails the test.
func ask(t testing.TB, job, path string, result any) {
	t.Helper()
	j := needPython(t)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.in.Encode(map[string]string{"job": job, "path": path}); err != nil {
		t.Fatal(err)
	}
	if err := j.reply(result); err != nil {
		t.Fatalf("%s of %s: %v", job, path, err)
	}
}

// view is the content of a file in xarray.
type view struct {
	Dims    map[string]int
	Attrs   map[string]any
	Coords  map[string][]float64 // dimension coordinates; times in seconds since 1970
	Scalars map[string]float64   // coordinates without dimension; periods in seconds
	Vars    map[string]viewVar
}

type viewVar struct {
	Dims        []string
	Attrs       map[string]any
	Coords      []string
	NE, SW      []float64 // values at the two marks, along the remaining dimensions
	Nulls       int
	Sum, Corner float64
}

func xarrayView(t testing.TB, path string) view {
	t.Helper()
	var v view
	ask(t, "view", path, &v)
	return v
}

// stored is the storage of a NetCDF file.
type stored struct {
	Format string
	Vars   map[string]struct {
		Type          string
		Dims          []string
		Chunks        []int
		Level         int
		Shuffle, Fill bool
		Attrs         map[string]any
		First, Last   float64
	}
}

// tool finds an external reader; without it the test is skipped.
func tool(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("skipped: no judge: %s is not installed", name)
	}
	return p
}

// run runs an external reader and returns its output. Anything on stderr is a
// warning, which fails the test.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	if path := args[len(args)-1]; filepath.Base(name) == "cdo" && filepath.IsAbs(path) { // which splits names at blanks
		cmd.Dir, cmd.Args[len(args)] = filepath.Dir(path), filepath.Base(path)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}

// encoder is a pool with one child that serves all tests.
func encoder(t testing.TB) *decode.Pool {
	t.Helper()
	program := testdecoder.Path(t)
	p, err := sharedPool(program)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var shared struct {
	once sync.Once
	pool *decode.Pool
	err  error
}

func sharedPool(program string) (*decode.Pool, error) {
	shared.once.Do(func() { shared.pool, shared.err = decode.NewPool(decode.Options{Program: program, Children: 1}) })
	return shared.pool, shared.err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.pool != nil {
		shared.pool.Close()
	}
	os.Exit(code)
}
