import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('lev', ('lev',), [85000., 50000.], standard_name='air_pressure', positive='down')
x = fields((2, 1, 2)); f.add('ta', ('number', 'time', 'lev', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('pressure of 85000 without a unit', variables={'t': variable(np.float32(x), members=[1, 2], levels=['850hPa', '500hPa'])}, warnings=['taken for Pa'])
