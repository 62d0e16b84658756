// Package mllogtest checks logs of package mllog: by our implementation of the
// rules, and by the checker of MLCommons.
package mllogtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/mllog"
	"github.com/ensemble-weather/ensemble/internal/testdata"
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
	python, err := testdata.FindPython("mlperf_logging", "yaml")
	if err != nil {
		t.Log("skipped the checker of MLCommons: ", err)
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
	var reason bytes.Buffer
	cmd := exec.Command(python, "-c", script, log)
	cmd.Stderr = &reason
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "1 []" {
		t.Errorf("the checker of MLCommons: %v, %s%s", err, out, &reason)
	}
}
