import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble()
f.add('t2m', ('number', 'time', 'lat', 'lon'), fields((2, 1)), 'f4', units='K', cell_methods='realization: mean'); f.close()
expect('a mean over members that has members', refusal=dict(code=65, words=['statistic over members', '"number"']))
