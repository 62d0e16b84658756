import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

m = []
for k, (kind, number) in enumerate([(1, 2), (2, 1), (3, 2)]):
    b = message(1, field(k), indicatorOfParameter=11, table2Version=2, centre=7, indicatorOfTypeOfLevel=105, level=2, P1=6)
    n = int.from_bytes(b[8:11], 'big')
    b = b[:8] + (86).to_bytes(3, 'big') + b[11:8 + n] + bytes(40 - n) + bytes([1, kind, number, 1, 1]) + bytes(41) + b[8 + n:]
    m.append(octets(b, 0, {5: len(b).to_bytes(3, 'big')}))
write('fc.grib1', *m)
expect('members in the ensemble extension of NCEP: low-resolution control, negative 1, positive 2', variables={'2t': dict(members=[0, 1, 2], leads=['6h'], **span(*m))})
