import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from stores import *

# A dry field: its chunk equals the fill value 0, which is a value, and is not written.
x = np.float32(np.maximum(fields((1, 2, 2), 0.), 0)); x[0, 0, 0] = 0
ds = ensemble('tp', x, 'kg m-2'); ds['init_time'].encoding = dict(units='hours since 1970-01-01', dtype='int64')
ds.to_zarr(here('fc.zarr'), zarr_format=3, encoding={'tp': dict(chunks=(1, 1, 1, 4, 6))})
m = json.load(open(here('fc.zarr/tp/zarr.json'))); m['fill_value'] = 0.0; m['attributes'].pop('_FillValue', None); json.dump(m, open(here('fc.zarr/tp/zarr.json'), 'w'))
shutil.rmtree(here('fc.zarr/tp/c/0/0/0')); zarr.consolidate_metadata(here('fc.zarr'), zarr_format=3); assert np.array_equal(xr.open_zarr(here('fc.zarr'))['tp'].values, x); pack('fc.zarr')
expect('an absent chunk of zeros in a sparse store', sparse=True, variables={'tp': variable(x, members=[1, 2], leads=['6h', '12h'])})
