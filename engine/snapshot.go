package engine

// Snapshot is a copy of parameters and states on the device, in addition to
// those of the store.
type Snapshot struct {
	flat [len(persistentKinds)][]float32
}

// Snapshot copies the present parameters and states of the store to further
// memory on the device. The copy is valid until the plan is closed. It is nil
// if the plan runs on a device without memory of its own.
//
// Errors: *exit.Error (exit.NoDevice) if the device has too little memory.
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
						_ = r.Free(x) // the first error is reported
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

// Restore makes later runs of a prediction compute with the copy k. When the
// program accesses parameters or states of the store, runs compute with those
// of the store again. Nothing is uploaded.
//
// Errors: those of the device.
// Cost: a copy within the device's memory, none if the copy in use is k already.
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
