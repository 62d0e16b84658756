package engine

// Snapshot are parameters and states that a plan keeps where it computes, beside those of its store.
type Snapshot struct {
	flat [len(persistentKinds)][]float32
}

// Snapshot keeps the present parameters and states of the store on the device, if the plan computes on
// one with memory of its own; else it gives nil. They stay until the plan is closed.
//
// Errors: *exit.Error (exit.NoDevice) if it has too little memory.
func (p *Plan) Snapshot() (*Snapshot, error) {
	r := p.memory.remote
	if r == nil {
		return nil, nil
	}
	k := &Snapshot{}
	err := p.dev.Do(func() error {
		if err := r.load(p.opts.Store); err != nil {
			return err
		}
		for i, where := range persistentKinds {
			var err error
			if k.flat[i], err = r.Alloc(len(r.flat[where])); err == nil {
				err = r.Copy(k.flat[i], r.flat[where])
			}
			if err != nil {
				for _, x := range k.flat[:i+1] {
					if x != nil {
						_ = r.Free(x) // the error is that of the memory
					}
				}
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.snapshot = k
	return k, nil
}

// Restore has the runs of a prediction from now on compute with what was kept, until somebody asks the store for
// parameters or states: then it is what the store has. Nothing is copied from the program.
//
// Errors: of the device.
func (p *Plan) Restore(k *Snapshot) error {
	r, s := p.memory.remote, p.opts.Store
	fresh := r.snapshot == k
	for _, where := range persistentKinds {
		fresh = fresh && r.version[where] == s.version[where]
	}
	if fresh {
		return nil
	}
	return p.dev.Do(func() error {
		for i, where := range persistentKinds {
			if err := r.Copy(r.flat[where], k.flat[i]); err != nil {
				return err
			}
			r.version[where] = s.version[where]
		}
		r.snapshot = k
		return nil
	})
}
