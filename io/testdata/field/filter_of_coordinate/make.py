import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc', 'NETCDF4_CLASSIC')
f.add('time', ('time',), [6.], standard_name='time', units='hours since 2024-03-01'); f.d.createDimension('lat', 4); f.d.createDimension('lon', 6)
v = f.d.createVariable('lat', 'f8', ('lat',), compression='bzip2'); v.units = 'degrees_north'; v[:] = LAT
v = f.d.createVariable('lon', 'f8', ('lon',)); v.units = 'degrees_east'; v[:] = LON
f.add('t2m', ('time', 'lat', 'lon'), fields((1,)), 'f4', units='K'); f.close()
expect('a coordinate with a filter without a plugin', refusal=dict(code=69, words=['bzip2', 'number 307', 'hdf5plugin']))
