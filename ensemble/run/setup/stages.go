package setup

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// NetworkTraining is the training of one network of a model.
type NetworkTraining struct {
	Stage   network.Stage
	name    string          // stage and fold; empty for a network that is trained at once
	Samples []int           // indices of training samples, ascending; nil: all
	Config  config.Training // configuration of this network
	Phase   Phase
}

// Phase is the place of a training in those of one network with pre-training.
type Phase int

// Phases of a network.
const (
	WholeTraining Phase = iota // without pre-training
	Pretraining                // verified by members; its weights are no result
	FineTuning                 // verified by analyses, from the weights of the pre-training before it
)

// PretrainingName names the pre-training of a network in messages and, as its stage, in events.
const PretrainingName = "pre-training on members"

// Name names a network in messages.
func (j NetworkTraining) Name(number int) string {
	if j.name == "" {
		return fmt.Sprintf("network %d", number+1)
	}
	return fmt.Sprintf("network %d (%s)", number+1, j.name)
}

// Values identifies the network in events.
func (j NetworkTraining) Values(number int) []rundir.Value {
	v := []rundir.Value{{Name: "network", Value: float64(number)}}
	if j.name != "" {
		v = append(v, rundir.Value{Name: "stage", Value: j.name})
	}
	return v
}

// NetworkTrainings lists the networks of a training in order. With stages these are the bias networks that each leave
// out one block of years, the bias network of all years, and for each averaged network its spread and sigma
// stages. With train.pretrain each network has two trainings, its pre-training and its fine-tuning. foldOf is the block of
// each sample; nil without stages.
//
// Errors: those of ensemble.Folds.
func NetworkTrainings(s network.Spec, c config.Training, inits []ensemble.Init, target ensemble.Lead) (trainings []NetworkTraining, foldOf []int, err error) {
	if !s.Staged() {
		for range c.Networks {
			if !c.Pretrain.IsEnabled() {
				trainings = append(trainings, NetworkTraining{Config: c})
				continue
			}
			trainings = append(trainings, NetworkTraining{name: PretrainingName, Config: c.ForPretraining(), Phase: Pretraining},
				NetworkTraining{name: "fine-tuning on analyses", Config: c, Phase: FineTuning})
		}
		return trainings, nil, nil
	}
	folds, err := ensemble.Folds(inits, s.Bias.Folds, target)
	if err != nil {
		return nil, nil, err
	}
	foldOf = make([]int, len(inits))
	for f, fold := range folds {
		from, to := inits[fold.HeldOut[0]].Time.Year(), inits[fold.HeldOut[len(fold.HeldOut)-1]].Time.Year()
		name := fmt.Sprintf("bias without %d", from)
		if to > from {
			name += fmt.Sprintf(" to %d", to)
		}
		trainings = append(trainings, NetworkTraining{Stage: network.BiasStage, name: name, Samples: fold.Train, Config: c.ForStage(c.Stages.Bias)})
		for _, i := range fold.HeldOut {
			foldOf[i] = f
		}
	}
	trainings = append(trainings, NetworkTraining{Stage: network.BiasStage, name: "bias", Config: c.ForStage(c.Stages.Bias)})
	for range c.Networks {
		trainings = append(trainings, NetworkTraining{Stage: network.SpreadStage, name: "spread", Config: c.ForStage(c.Stages.Spread.Stage)}, NetworkTraining{Stage: network.SigmaStage, name: "sigma", Config: c.ForStage(c.Stages.Sigma)})
	}
	return trainings, foldOf, nil
}
