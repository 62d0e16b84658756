import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('time', ('time',), [6.], standard_name='time', units='hours since 2024-03-01')
f.add('lat', ('lat',), np.deg2rad(LAT), standard_name='latitude', units='rad')
f.add('lon', ('lon',), np.deg2rad(LON), standard_name='longitude', units='radians')
x = fields((1,)); f.add('t2m', ('time', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('axes in radian', variables={'2t': variable(np.float32(x), grid='regular_ll 6x4, 60 to 45 N, 0 to 25 E', inits=['2024-03-01T06:00Z'], leads=['0h'])})
