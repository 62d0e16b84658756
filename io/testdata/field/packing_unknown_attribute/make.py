import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
x = fields((2, 1))
f.add('t2m', ('number', 'time', 'lat', 'lon'), x, 'f4', units='K', FillValue=-999., actual_range=np.array([270., 300.])); f.close()
expect('an attribute that looks like one of missing values', variables={'2t': variable(x, members=[1, 2])}, warnings=['attribute FillValue is not defined by CF'])
