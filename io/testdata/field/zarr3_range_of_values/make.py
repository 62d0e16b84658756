import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from stores import *

# JSON distinguishes doubles from integers: 150.0 is in K, and the stored numbers are shorts.
x = fields((1, 2, 2)); raw = np.rint((x - 280)/0.01).astype('i2')
ds = ensemble('t2m', raw, 'K'); ds['t2m'].attrs.update(scale_factor=0.01, add_offset=280.0, valid_range=[150.0, 350.0]); ds['init_time'].encoding = dict(units='hours since 1970-01-01', dtype='int64')
ds.to_zarr(here('fc.zarr'), zarr_format=3); pack('fc.zarr')
expect('valid_range of values in a store', variables={'2t': variable(raw*0.01 + 280, members=[1, 2])})
