package small

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/experiment"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// The record was made with kernels for AVX2. The environment restricts those of this processor to the same ones. Kernels are selected before any test begins, so the program executes itself again.
func TestMain(m *testing.M) {
	const isa = "ONEDNN_MAX_CPU_ISA"
	if os.Getenv(isa) == "" {
		self, err := os.Executable()
		if err == nil {
			err = syscall.Exec(self, os.Args, append(os.Environ(), isa+"=AVX2"))
		}
		panic(err)
	}
	os.Exit(m.Run())
}

// TestRecordIsReproduced: the replay of record.json gives the same scores, on processors of any vendor, bit by bit as long as the
// computation does not change. The record is of the current
// experiment.
func TestRecordIsReproduced(t *testing.T) {
	testdecoder.Path(t)
	r, err := experiment.Reproduce(context.Background(), "record.json", experiment.Options{Dir: t.TempDir(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Sections().WriteText(&b); err != nil || !r.Passed() || len(r.Record.Runs) != 2 || len(r.Record.Runs[0].Products) == 0 {
		t.Errorf("%v", err)
	}
	t.Log("\n" + b.String())
	for _, s := range r.Original.Sources {
		if text, err := os.ReadFile(s.Name); err != nil || string(text) != s.Text {
			t.Errorf("%s is not that of the record: %v", s.Name, err)
		}
	}
}
