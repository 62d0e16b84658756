package engine_test

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
)

// slow is a device that does not say that it is emulated, and takes time for copies aside.
type slow struct{ *emulate.Device }

func (s slow) Properties() device.Properties {
	p := s.Device.Properties()
	p.Emulated = false
	return p
}

func (s slow) CopyAside(dst, src device.Pointer, bytes int64) (device.Ticket, error) {
	time.Sleep(20 * time.Millisecond)
	return s.Device.CopyAside(dst, src, bytes)
}

// TestLinks: rates are measured, once, and what was allocated for that is free again.
func TestLinks(t *testing.T) {
	b, err := cuda.Over(func() (device.Device, error) {
		d, err := emulate.Open(1 << 28)
		return slow{d}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var dev backend.Remote = b
	var rates [4]float64
	var before, after int64
	start := time.Now()
	if err := b.Do(func() (err error) {
		if before, err = dev.FreeBytes(); err != nil {
			return err
		}
		if rates[0], rates[1], err = dev.Links(); err != nil {
			return err
		}
		if rates[2], rates[3], err = dev.Links(); err != nil {
			return err
		}
		after, err = dev.FreeBytes()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	most := float64(32<<20) / 20e-3
	if rates[0] <= 0 || rates[0] > most || rates[1] <= 0 || rates[1] > most || rates[2] != rates[0] || rates[3] != rates[1] {
		t.Errorf("rates %g, at most %g are possible", rates, most)
	}
	if spent := time.Since(start); spent > 2*time.Second {
		t.Errorf("measured for %v", spent)
	}
	if after < before {
		t.Errorf("%d bytes free, %d before", after, before)
	}
}
