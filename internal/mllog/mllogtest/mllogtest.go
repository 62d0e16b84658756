// Package mllogtest checks logs of package mllog: by our implementation of the
// rules, and by the checker of MLCommons.
package mllogtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/mllog"
)

// Check fails the test if a log violates the rules. If the checker of MLCommons is
// installed, it also applies their rules for HPC 3.0, except that the benchmark
// must be one of theirs.
func Check(t *testing.T, log string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	events, err := mllog.Read(bytes.NewReader(text))
	if err := errors.Join(append(Violations(events), err)...); err != nil {
		t.Errorf("%s breaks the rules: %v", log, err)
	}
	python := os.Getenv("ENSEMBLE_TEST_PYTHON")
	if python == "" {
		python = filepath.Join("..", "..", "build", "venv", "bin", "python3")
	}
	if exec.Command(python, "-c", "import mlperf_logging, yaml").Run() != nil {
		t.Log("skipped the checker of MLCommons: mlperf-logging is not installed")
		return
	}
	const script = `
import sys
import mlperf_logging.compliance_checker.mlp_compliance as m
own = m.enqueue_config
m.enqueue_config = lambda c: None if c.startswith("hpc_3.0.0/open_ensemble") else own(c)
c = m.ComplianceChecker("hpc", "3.0.0", quiet=True, werror=True)
c.check_file(sys.argv[1], "hpc_3.0.0/common.yaml")
faults = [*c.overwritable.values(), *c.not_overwritable]
print(len(faults), [f for f in faults if "submission_benchmark" not in f])
`
	out, err := exec.Command(python, "-c", script, log).Output()
	if err != nil || strings.TrimSpace(string(out)) != "1 []" {
		t.Errorf("the checker of MLCommons: %v, %s", err, out)
	}
}
