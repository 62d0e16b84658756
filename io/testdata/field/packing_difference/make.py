import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# A difference of temperatures in degC is one in K (units_metadata of CF 1.11).
f = File('fc.nc'); f.ensemble()
x = fields((2, 1), 0.)
f.add('dt', ('number', 'time', 'lat', 'lon'), x, 'f4', units='degC', units_metadata='temperature: difference'); f.close()
expect('units_metadata of a difference', variables={'dt': variable(np.float32(x), members=[1, 2], unit='K')})
