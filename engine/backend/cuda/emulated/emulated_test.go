//go:build cgo && linux

package emulated_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestCompilerFaults: a machine without a C++ compiler, and one whose compiler fails, is an error that says so,
// of the device or of the plan, and never a crash.
func TestCompilerFaults(t *testing.T) {
	b := graph.New(1)
	b.Loss(op.Mean(b, op.Sigmoid(b, b.Input("x", graph.Shape{3, 5}))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []struct {
		name string
		open func(memory int64) (backend.Backend, error)
	}{{"Open", emulated.Open}, {"OpenLazy", emulated.OpenLazy}} {
		for _, c := range []struct {
			name, compiler string   // an empty script is no compiler
			want           []string // in the error
		}{
			{"missing", "", []string{"no compiler g++ on the path", "apt-get install g++"}},
			{"fails", "#!/bin/sh\necho the compiler is broken >&2\nexit 3\n", []string{"compile ", ".cu: exit status 3", "the compiler is broken"}},
		} {
			t.Run(open.name+"/"+c.name, func(t *testing.T) {
				path := t.TempDir()
				if c.compiler != "" {
					if err := os.WriteFile(filepath.Join(path, "g++"), []byte(c.compiler), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				t.Setenv("PATH", path)
				t.Setenv("XDG_CACHE_HOME", t.TempDir()) // nothing is compiled there
				before := engine.Backends
				t.Cleanup(func() { engine.Backends = before })
				engine.Backends = append(before[:len(before):len(before)], engine.Backend{Name: "faulty", Open: func(engine.Options) (backend.Backend, error) {
					return open.open(1 << 24)
				}})
				plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "faulty"}})
				if err == nil {
					plan.Close()
					t.Fatal("a plan was compiled without a compiler")
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q, want %q in it", err, want)
					}
				}
			})
		}
	}
}
