import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
x = fields((2, 1)); f.add('t', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K', standard_name='soil_temperature'); f.close()
expect('a soil temperature with the name t', variables={'soil_temperature': variable(np.float32(x), members=[1, 2])}, warnings=['listed by its standard name'])
