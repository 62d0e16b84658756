package train

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// observers report how a training goes on: events, progress, the log of its time, the GPU. What is
// trained does not depend on them.
type observers struct {
	dir    *rundir.Dir
	report func(done int, note string) // called after every step; nil for nothing
	timing quality.Options
	clock  *quality.Clock // of the time to a quality; nil for none
	// environment is what was written of the machine when the run began; nil in a resumed one.
	environment *rundir.Environment
	gpu         *gpuMonitor        // of the GPU; nil before it is looked for, and where this rank does not lead
	costs       communicationCosts // at the last event of an epoch, of the present network
	input       samples.InputCosts // of all steps
	reported    samples.InputCosts // of those in events of epochs
}

// stepResult is what a step of the optimiser came to.
type stepResult struct {
	loss, rate   float64
	gradientNorm float64 // of the gradient
	applied      bool    // false if it was skipped, as its gradient was not finite
	rescaled     bool    // the loss is multiplied by something else from now on
}

// Step reports the step that leads to a position; done are those of all networks.
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
	if note := fmt.Sprintf("loss %.4f", s.loss) + o.gpu.progressNote(); o.report != nil {
		o.report(done, note)
	}
	return o.gpu.writeEvent(events, at.Step, epoch)
}

// Epoch reports the epoch that leads to a position, with its values and what it cost.
func (o *observers) Epoch(at position, d *samples.Data, costs communicationCosts, values []rundir.Value) error {
	if d.Ranks != nil {
		values = append(values, costs.since(o.costs)...)
		o.costs = costs
	}
	o.input.Counts = d.Source.Counts()
	values = append(values, o.input.Since(o.reported).Values(d.Store != nil)...)
	o.reported = o.input
	return o.dir.Events().Write("epoch", at.Step, at.Epoch, values...)
}

// device reports what a network computes on, in events and the record of the environment, and
// begins to read it, where that is a GPU. The leading rank does, of its own.
func (o *observers) device(j *job, net *network.Network, at position) error {
	if o.gpu != nil || !j.ranks.IsRoot() {
		return nil
	}
	o.gpu = &gpuMonitor{}
	about, ok := net.Plan.Device()
	if !ok {
		return nil
	}
	links := ""
	if net.Shard != nil {
		links = net.Shard.Transport()
	}
	if log := j.kernels.timings.Log; links != "" && log != nil {
		log.Info("devices of ranks exchange halos and gradients", "by", links)
	}
	d := rundir.Device{Name: about.Name, ID: about.ID}
	if about.ID != "" {
		if w, err := cuda.Watch(about.ID); err == nil {
			o.gpu.watcher = w
			d.Driver, d.CUDA = w.Driver()
		}
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
