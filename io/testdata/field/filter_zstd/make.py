import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc', 'NETCDF4_CLASSIC'); f.ensemble(members=(1,))
v = f.d.createVariable('t2m', 'f4', ('number', 'time', 'lat', 'lon'), compression='zstd'); v.units = 'K'; v[:] = fields((1, 1)); f.close()
expect('a filter without a plugin', refusal=dict(code=69, words=['Zstandard', 'number 32015', 'hdf5plugin', 'HDF5_PLUGIN_PATH']))
