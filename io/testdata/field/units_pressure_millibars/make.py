import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('lev', ('lev',), np.array([850, 500], 'f8'), standard_name='air_pressure', units='millibars')
x = fields((2, 1, 2)); f.add('ta', ('number', 'time', 'lev', 'lat', 'lon'), x, 'f4', units='K'); f.close()
expect('pressure in millibars', variables={'t': variable(np.float32(x), members=[1, 2], levels=['850hPa', '500hPa'])})
