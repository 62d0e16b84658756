package train

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/gpumonitor"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// observers report a training: events, progress, time log, GPU. They do not influence its result.
type observers struct {
	dir    *rundir.Dir
	report func(done int, note string) // called after every step with the steps done; nil for none
	timing quality.Options
	clock  *quality.Clock // MLPerf log; nil for none
	// beforeStep is Options.BeforeStep.
	beforeStep func(step uint64)
	// environment is the record of the machine from the start of the run; nil in a resumed run.
	environment *rundir.Environment
	gpu         *gpumonitor.Monitor // GPU readings; nil before the first network and on ranks other than 0
	costs       communicationCosts  // costs of the current network, at the last epoch event
	input       samples.InputCosts  // input costs of all steps
	reported    samples.InputCosts  // input costs in earlier epoch events
}

// stepResult is the outcome of an optimiser step.
type stepResult struct {
	loss, rate   float64
	gradientNorm float64 // L2, before clipping
	applied      bool    // false if the gradient was not finite and the step was skipped
	rescaled     bool    // the loss scale changed
}

// Step reports a step. at is the position after it, done the number of steps of all networks.
func (o *observers) Step(at position, s stepResult, done int) error {
	events, epoch := o.dir.Events(), at.Epoch+1
	if s.applied {
		if err := events.Write("step", at.Step, epoch, rundir.Value{Name: "loss", Value: s.loss},
			rundir.Value{Name: "rate", Value: s.rate}, rundir.Value{Name: "gradient_norm", Value: s.gradientNorm}); err != nil {
			return err
		}
	}
	if s.rescaled {
		if err := events.Write("loss_scale", at.Step, epoch, rundir.Value{Name: "scale", Value: at.LossScale.Scale},
			rundir.Value{Name: "skipped", Value: at.LossScale.Skipped}); err != nil {
			return err
		}
	}
	if note := fmt.Sprintf("loss %.4f", s.loss) + o.gpu.ProgressNote(); o.report != nil {
		o.report(done, note)
	}
	return o.gpu.WriteEvent(events, at.Step, epoch)
}

// Epoch reports an epoch with its values and the costs of all ranks. at is the position after it. All ranks call it.
func (o *observers) Epoch(at position, d *samples.Data, costs communicationCosts, values []rundir.Value) error {
	own := o.sinceReported(d).Values()
	if d.Ranks != nil {
		own = append(costs.since(o.costs), own...)
		o.costs = costs
	}
	all, err := totalsOf(d.Ranks, own)
	if err != nil {
		return err
	}
	return o.dir.Events().Write("epoch", at.Step, at.Epoch, slices.Concat(values, all, idleShare(all))...)
}

// sinceReported returns the input costs of this rank since the last event.
func (o *observers) sinceReported(d *samples.Data) samples.InputCosts {
	o.input.Counts = d.Source.Counts()
	of := o.input.Since(o.reported)
	o.reported = o.input
	return of
}

// Reads reports the reads of samples of a phase other than an epoch, by all ranks, which call it.
func (o *observers) Reads(at position, phase string, d *samples.Data) error {
	all, err := totalsOf(d.Ranks, o.sinceReported(d).SourceValues())
	if err != nil {
		return err
	}
	return o.dir.Events().Write("reads", at.Step, at.Epoch, append([]rundir.Value{{Name: "phase", Value: phase}}, all...)...)
}

// device reports the device of a network in an event and in environment.json, and starts reading a GPU's
// sensors. Only rank 0 does.
func (o *observers) device(j *job, net *network.Network, at position) error {
	if o.gpu != nil || !j.ranks.IsRoot() {
		return nil
	}
	o.gpu = &gpumonitor.Monitor{}
	about, ok := net.Plan.Device()
	if !ok {
		return nil
	}
	links := ""
	if net.Shard != nil {
		links = net.Shard.Transport()
	}
	if log := j.kernels.timings.Log; links != "" && log != nil {
		log.Info("transport of halos and gradients between devices", "transport", links)
	}
	d := rundir.Device{Name: about.Name, ID: about.ID}
	if about.ID != "" {
		d.Driver, d.CUDA = o.gpu.Watch(about.ID)
	}
	if o.environment != nil {
		o.environment.Device, o.environment.Libraries = &d, about.Versions
		if err := o.dir.WriteEnvironment(*o.environment); err != nil {
			return err
		}
	}
	return o.dir.Events().Write("device", at.Step, at.Epoch+1, rundir.Value{Name: "name", Value: d.Name}, rundir.Value{Name: "id", Value: d.ID},
		rundir.Value{Name: "driver", Value: d.Driver}, rundir.Value{Name: "cuda", Value: d.CUDA}, rundir.Value{Name: "libraries", Value: about.Versions},
		rundir.Value{Name: "links", Value: links})
}
