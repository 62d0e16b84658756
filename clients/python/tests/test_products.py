"""Products of the program, read back: equal in all formats, and equal to the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import INITS, LATITUDE, LONGITUDE

import ensemble_weather as ew

PRODUCTS = {"quantiles": "0.1,0.5,0.9", "probability": ["t>265", "t>268", "t<263.5", "262<t<266", "264<t<270"]}
LIST = "id,name,latitude,longitude,altitude\n1,Here,47.5,8.5,500\n002,There,-33.9,18.4,40\n"


@pytest.fixture(scope="session")
def products(run_dir: Path, predict: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    stations = tmp_path_factory.mktemp("stations") / "stations.csv"
    stations.write_text(LIST)
    return predict(
        run_dir,
        set={"products": "[mean,spread,ensemble_spread,members,quantiles,probabilities]"},
        format="netcdf,zarr,zarr3,grib2",
        stations=stations,
        **PRODUCTS,
    )


def test_axes(products: Path) -> None:
    ds = ew.open_products(products)
    assert dict(ds.t_mean.sizes) == {"forecast_reference_time": 2, "forecast_period": 1, "pressure": 2, "latitude": 9, "longitude": 18}
    assert list(ds.forecast_period.values) == [np.timedelta64(48, "h")]
    np.testing.assert_array_equal(ds.time.values[:, 0], ds.forecast_reference_time.values + np.timedelta64(48, "h"))
    np.testing.assert_array_equal(ds.forecast_reference_time.values, INITS[[36, 37]].values)
    np.testing.assert_array_equal(ds.latitude, LATITUDE)
    np.testing.assert_array_equal(ds.longitude, LONGITUDE)
    np.testing.assert_allclose(ds.t_quantile["quantile"], [0.1, 0.5, 0.9])
    np.testing.assert_allclose(ds.probability_of_t_above_threshold.threshold, [265, 268])
    assert ds.t_mean.attrs["units"] == "K" and "forecast_reference_time" not in ds.crs.dims
    # One initialisation, one file, and a list of files are products too.
    folder = sorted(p for p in products.iterdir() if p.name.isdigit())[0]
    one = ew.open_products(folder)
    xr.testing.assert_identical(one.t_mean, ew.open_products(sorted(folder.glob("*h.nc"))).t_mean)
    xr.testing.assert_equal(one.t_mean, ds.t_mean.isel(forecast_reference_time=[0]))


def test_values(products: Path) -> None:
    folder = sorted(p for p in products.iterdir() if p.name.isdigit())[1]
    (file,) = folder.glob("*h.nc")
    with xr.open_dataset(file, decode_timedelta=False) as raw:
        ds = ew.open_products(products).isel(forecast_reference_time=1, forecast_period=0)
        for name in ("t_mean", "t_spread", "t_ensemble_spread", "t_quantile", "probability_of_t_below_threshold", "t"):
            np.testing.assert_array_equal(ds[name].values, raw[name].isel(time=0).values, name)


def test_formats(products: Path, run_dir: Path, predict: Callable[..., Path]) -> None:
    """Names, coordinates and values do not depend on format and profile. GRIB2 has 16 bits."""
    netcdf = ew.open_products(products, format="netcdf")
    xr.testing.assert_equal(netcdf, ew.open_products(products, format="zarr"))
    xr.testing.assert_equal(netcdf, ew.open_products(sorted(products.glob("*/*_v3.zarr"))))
    cdo = ew.open_products(
        predict(run_dir, set={"products": "[mean,spread,ensemble_spread,members,quantiles,probabilities]"}, nc_profile="cdo", **PRODUCTS)
    )
    assert set(cdo.data_vars) == set(netcdf.data_vars)
    for name in netcdf.data_vars:
        xr.testing.assert_equal(netcdf[name].drop_vars("percentile", errors="ignore"), cdo[name].drop_vars("percentile", errors="ignore"))
    pytest.importorskip("cfgrib")
    grib = ew.open_products(products, format="grib2")
    for name in (
        "t_mean",
        "t_spread",
        "t_ensemble_spread",
        "t_quantile",
        "probability_of_t_above_threshold",
        "probability_of_t_below_threshold",
        "probability_of_t_between_thresholds",
        "t",
    ):
        want = netcdf[name]
        assert grib[name].dims == want.dims, name
        for dim in want.dims:
            np.testing.assert_allclose(grib[name][dim].values.astype(float), want[dim].values.astype(float), err_msg=f"{name} {dim}")
        step = float(want.max() - want.min()) / 2**15
        np.testing.assert_allclose(grib[name].values, want.values, rtol=1e-6, atol=max(step, 1e-6), err_msg=name)


def test_members(products: Path, run_dir: Path, predict: Callable[..., Path]) -> None:
    members = ew.open_members(products)
    assert list(members.data_vars) == ["t"] and list(members.realization.values) == [0, 1, 2]
    with pytest.raises(KeyError, match="products=\\[members\\]"):
        ew.open_members(predict(run_dir, 36))


def test_stations(products: Path) -> None:
    table = ew.read_stations(products)
    assert set(table["station_id"]) == {"1", "002"} and set(table["station_name"]) == {"Here", "There"}
    assert table["valid"].equals(table["init"] + table["lead"])
    ds = ew.open_products(products, stations=True)
    row = table[
        (table["station_id"] == "002")
        & (table["level"] == "500hPa")
        & (table["statistic"] == "mean")
        & (table["init"] == table["init"].max())
    ]
    at = list(ds.station_id.values.astype(str)).index("002")
    assert row["value"].item() == pytest.approx(
        ds.t_500hPa_mean.isel(station=at, forecast_reference_time=1, forecast_period=0).item(), rel=1e-6
    )


def test_unpublished(products: Path, tmp_path: Path) -> None:
    """A folder without a manifest is not published."""
    with pytest.raises(FileNotFoundError, match="manifest.json"):
        ew.open_products(tmp_path)
    whole = sorted(p for p in products.iterdir() if p.name.isdigit())
    for p in whole:
        (tmp_path / p.name).mkdir()
        for f in p.glob("*h.nc"):
            (tmp_path / p.name / f.name).symlink_to(f)
    (tmp_path / whole[0].name / "manifest.json").symlink_to(whole[0] / "manifest.json")
    assert list(ew.open_products(tmp_path).forecast_reference_time.values) == [pd.Timestamp(INITS[36]).to_datetime64()]
