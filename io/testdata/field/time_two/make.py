import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('a', ('time',), [24., 48.], units='hours since 2024-03-01'); f.add('b', ('time',), [0., 24.], units='hours since 2024-03-01'); f.axes()
f.add('t2m', ('time', 'lat', 'lon'), fields((2,)), 'f4', units='K', coordinates='a b'); f.close()
expect('two times without standard names', refusal=dict(code=65, words=['it has two times, "a" and "b"', 'ncatted']))
