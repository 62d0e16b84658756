"""Small files for TestField: synthetic numbers. Each folder's make.py calls these helpers; run it with netCDF4, and zarr where it makes stores."""
import json, os, sys
import numpy as np
import netCDF4 as N

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
LAT = np.array([60., 55., 50., 45.])
LON = np.array([0., 5., 10., 15., 20., 25.])


def here(name):
    return os.path.join(HERE, name)


def field(k, base=280., ny=4, nx=6):
    """Field number k: a smooth pattern whose values all differ."""
    j, i = np.mgrid[0:ny, 0:nx]
    return base + 0.5*k + 3*np.sin(0.7*j + 0.3*k) + 2*np.cos(0.9*i - 0.2*k) + 0.01*(j*nx + i)


def fields(shape, base=280., ny=4, nx=6):
    return np.array([field(k, base, ny, nx) for k in range(int(np.prod(shape)))]).reshape(*shape, ny, nx)


class File:
    """A file in the classic format, whose attributes and values are stored as given."""

    def __init__(self, name, form='NETCDF3_CLASSIC', **attrs):
        self.d = N.Dataset(here(name), 'w', format=form)
        for k, v in attrs.items():
            self.d.setncattr(k, v)

    def add(self, name, dims, values, kind='f8', fill=None, attrs=None, **more):
        """A variable; dimensions are made from the shape of the first variable that has them."""
        values = np.asarray(values)
        for d, n in zip(dims, values.shape):
            if d not in self.d.dimensions:
                self.d.createDimension(d, n)
        v = self.d.createVariable(name, kind, dims, fill_value=fill)
        v.set_auto_maskandscale(False)
        for k, a in dict(attrs or {}, **more).items():
            # netCDF4 converts valid_range and missing_value to the type of the variable.
            if k in ('valid_range', 'valid_min', 'valid_max', 'missing_value') and not isinstance(a, str):
                N.Variable.setncattr(v, 'tmp_' + k, a)
                v.renameAttribute('tmp_' + k, k)
            else:
                v.setncattr(k, a)
        v[...] = values
        return v

    def axes(self, lat=LAT, lon=LON):
        self.add('lat', ('lat',), lat, units='degrees_north')
        self.add('lon', ('lon',), lon, units='degrees_east')

    def ensemble(self, members=(1, 2), hours=(6,), since='2024-03-01'):
        """Coordinates number, time and forecast_reference_time, and regular axes."""
        self.add('number', ('number',), members, 'i4', standard_name='realization')
        self.add('forecast_reference_time', (), 0., standard_name='forecast_reference_time', units='hours since ' + since)
        self.add('time', ('time',), np.asarray(hours, 'f8'), standard_name='time', units='hours since ' + since)
        self.axes()

    def close(self):
        self.d.close()


def variable(x=None, **expected):
    """What is expected of a variable; x are its values, NaN for missing ones."""
    if x is not None:
        x = np.asarray(x, 'f8')
        expected.update(missing=int(np.isnan(x).sum()), min=float(np.nanmin(x)), max=float(np.nanmax(x)))
    return expected


def expect(situation, **expected):
    with open(here('expected.json'), 'w') as f:
        json.dump(dict(situation=situation, **expected), f, indent=1, default=lambda o: o.tolist() if hasattr(o, 'tolist') else str(o))
        f.write('\n')
