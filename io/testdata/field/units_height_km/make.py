import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('height', (), 0.002, standard_name='height', units='km', positive='up')
x = fields((2, 1)); f.add('tas', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K', standard_name='air_temperature', coordinates='height'); f.close()
expect('a height of 2 m in km', variables={'2t': variable(np.float32(x), members=[1, 2], levels=['2m'])})
