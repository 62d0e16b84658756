package product_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
	"github.com/ensemble-weather/ensemble/io/product"
)

// TestFault24: the power fails at any moment while products are published, and while they are replaced by those of another
// model. They are old, new or absent: without a manifest nothing is published. At the end they are there. (More moments:
// TestLongFault24.)
func TestFault24(t *testing.T) { failPower(t, 60) }

// failPower looks at a number of states of the disk of each publication.
func failPower(t *testing.T, states int) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Fields = p.Fields[:1]
	dir, enc := t.TempDir(), encoder(t)
	pub := product.Publication{Formats: []product.Format{product.NetCDF, product.GRIB2, product.Zarr, product.Zarr3}, Overwrite: product.OverwriteAlways}
	for i, model := range []string{"sha256:first", "sha256:second"} {
		p.ModelChecksum = model
		l := powerfail.Run(t, dir, func(r *powerfail.Recorder) error {
			_, _, err := product.Publish(context.Background(), enc, filepath.Join(dir, "products"), p, pub)
			return err
		})
		l.Check(t, l.Some(1, states), func(dir string, s powerfail.State) error {
			dir = filepath.Join(dir, "products", "2026010100")
			m, err := product.ReadManifest(dir)
			if i == 0 && errors.Is(err, fs.ErrNotExist) && s.Point < len(l.Ops) {
				return nil
			}
			if err != nil {
				return err
			}
			for _, want := range m.Outputs {
				got, err := manifest.SumFile(filepath.Join(dir, want.Path))
				if err != nil || got.SHA256 != want.SHA256 || got.Size != want.Size {
					return fmt.Errorf("%s differs from the manifest: %w", want.Path, err)
				}
			}
			if s.Point == len(l.Ops) && m.ModelChecksum != model {
				return fmt.Errorf("the products are of model %s", m.ModelChecksum)
			}
			return nil
		})
	}
}
