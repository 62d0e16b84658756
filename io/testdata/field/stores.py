"""What the cases of Zarr stores share."""
from common import *

import shutil, zarr, xarray as xr, pandas as pd

def pack(name):
    """Replaces a store by an archive of it."""
    shutil.make_archive(here(name), 'zip', here(name)); shutil.rmtree(here(name))

def ensemble(name, x, units):
    return xr.Dataset({name: (('init_time', 'lead_time', 'ensemble_member', 'latitude', 'longitude'), x, {'units': units})}, coords=dict(init_time=pd.date_range('2024-03-01', periods=1),
        lead_time=pd.to_timedelta([6, 12], 'h'), ensemble_member=[1, 2], latitude=LAT, longitude=LON))
