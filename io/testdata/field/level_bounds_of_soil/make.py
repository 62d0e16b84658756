import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('depth', ('depth',), [5., 20.], standard_name='depth', units='cm', positive='down', bounds='depth_bnds'); f.add('depth_bnds', ('depth', 'bnds'), [[0., 10.], [10., 40.]])
x = fields((2, 1, 2)); f.add('tsl', ('number', 'time', 'depth', 'lat', 'lon'), x, 'f4', standard_name='soil_temperature', units='K'); f.close()
expect('layers of soil by bounds', variables={'tsl': variable(np.float32(x), members=[1, 2], levels=['depth0-0.1m', 'depth0.1-0.4m'])})
