import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
x = fields((2, 1)); x[:, :, 0, 0] = -999
f.add('t2m', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K', missing_value='-999.0'); f.close()
x[:, :, 0, 0] = np.nan
expect('missing_value as a text', variables={'2t': variable(x, members=[1, 2])}, warnings=['missing_value is the text "-999.0"'])
