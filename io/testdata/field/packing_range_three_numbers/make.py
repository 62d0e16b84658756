import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('t2m', ('number', 'time', 'lat', 'lon'), fields((2, 1)), 'f4', units='K', valid_range=np.array([150, 350, 400], 'f4')); f.close()
expect('a valid_range of three numbers', refusal=dict(code=65, words=['valid_range has 3 numbers']))
