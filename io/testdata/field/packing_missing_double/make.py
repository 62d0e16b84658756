import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# missing_value is a double that float32 cannot represent.
f = File('fc.nc'); f.ensemble()
x = fields((2, 1)); x[0, 0, 0, 0] = -9999.9
f.add('t2m', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K', missing_value=-9999.9); f.close()
x[0, 0, 0, 0] = np.nan
expect('missing_value of a wider type', variables={'2t': variable(x, members=[1, 2])})
