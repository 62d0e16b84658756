import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(); f.add('level', (), 500., units='hPa')
x = fields((2, 1), 5500.); f.add('z', ('number', 'time', 'lat', 'lon'), x, 'f4', units='m', coordinates='level'); f.close()
expect('z in metres on a pressure level', variables={'gh': variable(np.float32(x), members=[1, 2], levels=['500hPa'], unit='m')})
