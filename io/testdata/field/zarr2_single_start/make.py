import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

import shutil, zarr, xarray as xr, pandas as pd

def pack(name):
    """Replaces a store by an archive of it."""
    shutil.make_archive(here(name), 'zip', here(name)); shutil.rmtree(here(name))

def ensemble(name, x, units):
    return xr.Dataset({name: (('init_time', 'lead_time', 'ensemble_member', 'latitude', 'longitude'), x, {'units': units})}, coords=dict(init_time=pd.date_range('2024-03-01', periods=1),
        lead_time=pd.to_timedelta([6, 12], 'h'), ensemble_member=[1, 2], latitude=LAT, longitude=LON))

# The code of the only initialisation is 0, the fill value, so its chunk is not written.
x = np.float32(fields((1, 2, 2)))
ensemble('t2m', x, 'K').to_zarr(here('fc.zarr'), zarr_format=2); assert not [n for n in os.listdir(here('fc.zarr/init_time')) if n in ('0', 'c')]; pack('fc.zarr')
expect('a store of one initialisation', variables={'2t': variable(x, members=[1, 2], inits=['2024-03-01T00:00Z'], leads=['6h', '12h'])}, warnings=['array init_time: its only chunk is absent'])
