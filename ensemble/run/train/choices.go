package train

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// agreeOnKernels makes all ranks use the same kernels for the same operation, and gives all of them the choices of all, of which rank 0 stores
// those in checkpoints: else a resumed training would repeat those of rank 0 only, and have other bits. Where ranks chose differently, as measured
// times differ, all compile again with the choice of the lowest rank. All ranks call it.
//
// Errors: exit 69 on all ranks if one cannot use the kernel of another; those of compiling.
func (t *trainer) agreeOnKernels() error {
	if t.ranks == nil {
		return nil
	}
	differ, err := t.shareChoices()
	if err != nil || differ == "" {
		return err
	}
	if err := t.current.compiledNetwork.close(); err != nil {
		return err
	}
	if err := t.compilePlans(); err != nil {
		return err
	}
	if differ, err = t.shareChoices(); err != nil || differ == "" {
		return err
	}
	return t.ranks.AgreeOnError(&exit.Error{Code: exit.NoDevice, What: "the ranks cannot use the same kernels", At: differ,
		Why: "bits depend on the kernels, and a resumed training repeats them", Fix: "run all ranks on processors or GPUs of one kind, with the same libraries"})
}

// shareChoices exchanges the choices of kernels with all ranks, and describes an operation for which ranks chose differently; "" for none.
func (t *trainer) shareChoices() (differ string, err error) {
	all, err := team.AllGather(t.ranks.Comm, t.kernels.choices)
	if err != nil {
		return "", err
	}
	merged, differ := mergeChoices(all)
	maps.Copy(t.kernels.choices, merged)
	return differ, nil
}

// mergeChoices returns the choices of all ranks, by operation, for each that of the lowest rank. It describes an operation for which ranks chose
// differently; "" for none.
func mergeChoices(all []map[string]string) (merged map[string]string, differ string) {
	merged = map[string]string{}
	first := map[string]int{} // rank of each choice
	for rank, choices := range all {
		for _, operation := range slices.Sorted(maps.Keys(choices)) {
			choice := choices[operation]
			switch had, known := merged[operation]; {
			case !known:
				merged[operation], first[operation] = choice, rank
			case had != choice && differ == "":
				differ = fmt.Sprintf("rank %d uses %q and rank %d %q for %s", first[operation], had, rank, choice, operation)
			}
		}
	}
	return merged, differ
}
