package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// decoderVersions are the versions of the libraries that decode files on this node; "" if the child program cannot run, which
// reading reports where it is needed.
var decoderVersions = sync.OnceValue(func() string {
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		return ""
	}
	defer pool.Close()
	all, err := pool.Libraries(context.Background())
	if err != nil {
		return ""
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+" "+all[name])
	}
	return strings.Join(out, ", ")
})

// instructionSet is what the kernels of this process and oneDNN use: the limit of the environment, or what the processor has.
func instructionSet() string {
	if limit := cmp.Or(os.Getenv("ONEDNN_MAX_CPU_ISA"), os.Getenv("DNNL_MAX_CPU_ISA")); limit != "" {
		return fmt.Sprintf("%s (ONEDNN_MAX_CPU_ISA=%s)", kern.ISA(), strings.ToUpper(limit))
	}
	return fmt.Sprintf("%s (%s)", kern.ISA(), strings.Join(cpuinfo.Read().Features, " "))
}

// notComparedByRanks is what ranks do not compare, for the record.
var notComparedByRanks = []string{
	"MPI library: its messages do not change values",
	"GPUs, their drivers and libraries",
	"bytes of input files besides names, sizes, samples and the checksums that sample stores list: one rank computes the checksum of each file",
}

// CompareRanks compares what decides the bits of results on each rank: the program, instruction sets, versions of libraries, and
// further facts. Instruction sets and oneDNN are refused if they differ and replicas are trained, else a warning.
// Processors and threads are recorded. A single rank gets nil.
//
// Errors: exit 64 and 69; those of further facts; lost ranks.
func CompareRanks(t *team.Team, version string, replicas bool, threads int, more ...team.Fact) (*team.Comparison, error) {
	if t == nil {
		return nil, nil
	}
	if err := t.CheckSameProgram(version); err != nil {
		return nil, err
	}
	effect, why := team.Warned, "results differ from those of ranks of one kind by rounding"
	if replicas {
		effect, why = team.Refused, "replicas of one network would differ by rounding"
	}
	facts := append(more, // the configuration first: a limit of the environment is no remedy for it
		team.Fact{Name: "the instruction set", Value: instructionSet(), Effect: effect, Code: exit.Usage, Why: why,
			Fix: "use nodes of one kind, or set ONEDNN_MAX_CPU_ISA=AVX2 on all ranks (mpirun.openmpi -x ONEDNN_MAX_CPU_ISA=AVX2, mpirun.mpich -genv ONEDNN_MAX_CPU_ISA AVX2); SSE41 if a processor lacks AVX2"},
		team.Fact{Name: "oneDNN", Value: cmp.Or(dnnl.Version(), "missing"), Effect: effect, Code: exit.NoDevice, Why: why, Fix: "install the same version of oneDNN on all nodes"},
		team.Fact{Name: "decoding libraries", Value: cmp.Or(decoderVersions(), "missing"), Effect: team.Warned, Why: "values of files may differ between ranks", Fix: "install the same versions on all nodes"},
		team.Fact{Name: "processor", Value: cpuinfo.Read().Family, Effect: team.Recorded},
		team.Fact{Name: "threads", Value: fmt.Sprint(network.Threads(threads)), Effect: team.Recorded})
	c, err := t.Compare(facts...)
	if c != nil {
		c.NotCompared = notComparedByRanks
	}
	return c, err
}
