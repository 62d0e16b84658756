import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('depth', ('depth',), [5., 15.], standard_name='depth', units='m', positive='down', bounds='depth_bnds'); f.add('depth_bnds', ('depth', 'bnds'), [[0., 10.], [10., 20.]])
x = fields((2, 1, 2)); f.add('thetao', ('number', 'time', 'depth', 'lat', 'lon'), x, 'f4', standard_name='sea_water_potential_temperature', units='K'); f.close()
expect('depths in the sea are not depths below land', variables={'thetao': variable(np.float32(x), members=[1, 2], levels=['level15', 'level5'])})
